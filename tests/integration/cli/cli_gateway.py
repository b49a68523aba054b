"""A gateway's results endpoint with TLS, as the plugin's tests need it."""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from aiohttp import web
from cli_cluster import DEADLINE_SECONDS, MANY_ROWS, ROWS
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sparksql.wire.control import ErrorBody

TOKEN = "session-token"


@dataclasses.dataclass
class FakeGateway:
    """The results endpoint of one session's gateway; `status` other than 200 refuses every page."""

    port: int = 0
    status: int = 200
    asked: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # operation, token

    async def results(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response(text=ErrorBody(error="Unauthorized", message="token").to_json(), status=401)
        if self.status != 200:
            return web.json_response(text=ErrorBody(error="Gone", message="expired").to_json(), status=self.status)
        start, limit = int(request.query["token"]), int(request.query["maxRows"])
        self.asked.append((request.match_info["id"], request.query["token"]))
        ids = range(start, min(start + limit, ROWS))
        following = ids.stop if ids.stop < ROWS else None
        if request.query["format"] == "json":
            page = {"columns": MANY_ROWS["columns"], "rows": [[i, f"row {i}"] for i in ids], "nextToken": following}
            return web.json_response(page)
        batch = pa.record_batch([pa.array(ids, pa.int64()), pa.array([f"row {i}" for i in ids])], ["id", "text"])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        headers = {} if following is None else {"X-Next-Token": str(following)}
        return web.Response(body=sink.getvalue().to_pybytes(), headers=headers)


def certificate(folder: Path, server_name: str) -> tuple[Path, Path]:
    """A self-signed pair for one name: certificate and key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gateway")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName(server_name), x509.IPAddress(ipaddress.IPv4Address("192.0.2.1"))]
            ),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    crt, pem = folder / f"{server_name}.crt", folder / f"{server_name}.key"
    crt.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pem.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return crt, pem


@contextmanager
def serving(gateway: FakeGateway, context: ssl.SSLContext) -> Iterator[None]:
    """The gateway on a loopback port, on an event loop of its own."""
    loop = asyncio.new_event_loop()
    app = web.Application()
    app.router.add_get("/control/v1/statements/{id}/results", gateway.results)
    runner = web.AppRunner(app)

    async def start() -> None:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        gateway.port = site._server.sockets[0].getsockname()[1]

    loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(DEADLINE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
