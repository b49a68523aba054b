"""The session's certificate over a real handshake: its own names pass, everything else is refused."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from sparksql.api import names
from sparksql.kube.tls import session_certificate, ssl_context

NAME, UID, NAMESPACE = "a" * 50, "u-1", "team-a"
SERVER = names.gateway_server_name(NAME, UID, NAMESPACE)


@asynccontextmanager
async def served(cert: str, key: str, folder: Path) -> AsyncIterator[int]:
    """A TLS server with this pair on loopback; yields its port."""
    (folder / "pair.pem").write_text(cert + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pair.pem")
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def dial(port: int, trusted: str, server_name: str) -> None:
    context = ssl_context(trusted)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=server_name)
    writer.close()


@pytest.mark.parametrize("server_name", [SERVER, f"{SERVER}.cluster.local", "localhost", "127.0.0.1"])
async def test_session_certificate_is_trusted_for_each_of_its_own_names(tmp_path: Path, server_name: str) -> None:
    cert, key = session_certificate(NAME, UID, NAMESPACE, datetime.now(UTC))
    async with served(cert, key, tmp_path) as port:
        await dial(port, cert, server_name)


async def test_session_certificate_is_refused_for_the_name_of_another_session(tmp_path: Path) -> None:
    cert, key = session_certificate(NAME, UID, NAMESPACE, datetime.now(UTC))
    async with served(cert, key, tmp_path) as port:
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            await dial(port, cert, names.gateway_server_name(NAME, "u-2", NAMESPACE))


async def test_another_certificate_of_the_same_names_is_refused(tmp_path: Path) -> None:
    cert, key = session_certificate(NAME, UID, NAMESPACE, datetime.now(UTC))
    other, _ = session_certificate(NAME, UID, NAMESPACE, datetime.now(UTC))
    async with served(cert, key, tmp_path) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await dial(port, other, SERVER)


def test_validity_allows_for_skewed_clocks_and_long_sessions() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    certificate = x509.load_pem_x509_certificate(session_certificate(NAME, UID, NAMESPACE, now)[0].encode())
    assert certificate.not_valid_before_utc == now - timedelta(hours=1)
    assert certificate.not_valid_after_utc == now + timedelta(days=3650)
