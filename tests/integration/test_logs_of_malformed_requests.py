"""What a front and an operator write of requests that are malformed in every part: nothing of what the client has sent."""

from __future__ import annotations

import json
import os
import secrets
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from sparksql.wire.front import KEY_BYTES
from tests.attack.malformed import everything, found, new_mark, send
from tests.support.apiserver import ApiServer
from tests.support.ports import free_port, listens
from tests.support.process import write_tls_pair

SENDERS = 8
START_SECONDS = 60.0


@contextmanager
def started(module: str, folder: Path, server: ApiServer, ports: list[int], **environment: str) -> Iterator[Path]:
    """The log of a process that listens at its ports, and ends with the block."""
    file = folder / f"{module}.log"
    with file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module],
            env={**os.environ, "KUBECONFIG": str(server.kubeconfig), **environment}, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + START_SECONDS
        while not all(map(listens, ports)):
            assert process.poll() is None and time.monotonic() < deadline, file.read_text()
            time.sleep(0.05)
        yield file
        assert process.poll() is None, file.read_text()
    finally:
        process.kill()
        process.wait()


@contextmanager
def front(folder: Path, server: ApiServer, level: str, tls: Path | None) -> Iterator[tuple[Path, list[int]]]:
    key, config = folder / "key", folder / "front.json"
    key.write_bytes(secrets.token_bytes(KEY_BYTES))
    ports = {name: free_port() for name in ("rest", "thrift", "connect", "http")}
    values = {"ports": ports, "keyFile": str(key), "address": "127.0.0.1", "logLevel": level, "drainSeconds": 0}
    config.write_text(json.dumps({**values, "tlsDirectory": None if tls is None else str(tls)}))
    with started("sparksql.front.main", folder, server, [*ports.values()], SPARKSQL_FRONT_CONFIG=str(config)) as log:
        yield log, [*ports.values()]


@contextmanager
def operator(folder: Path, server: ApiServer, level: str) -> Iterator[tuple[Path, list[int]]]:
    config, port = folder / "operator.json", free_port()
    values = {"watchNamespaces": [server.namespace()], "httpPort": port, "logLevel": level}
    config.write_text(json.dumps(values))
    with started(
        "sparksql.operator", folder, server, [port],
        SPARKSQL_OPERATOR_CONFIG=str(config), SPARKSQL_HTTP_HOST="127.0.0.1",
    ) as log:  # fmt: skip
        yield log, [port]


def send_all(ports: list[int], tls: ssl.SSLContext | None = None) -> str:
    mark = new_mark()
    with ThreadPoolExecutor(SENDERS) as senders:
        for port in ports:
            [*senders.map(lambda each, to=port: send("127.0.0.1", to, each[1], tls), everything(mark))]
    return mark


@pytest.mark.parametrize("level", ["info", "debug"])
def test_logs_of_malformed_requests_hold_nothing_of_what_clients_send(
    level: str, crds: ApiServer, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        logs = [
            stack.enter_context(front(tmp_path, crds, level, None)),
            stack.enter_context(operator(tmp_path, crds, level)),
        ]
        for log, ports in logs:
            before = log.stat().st_size
            mark = send_all(ports)
            written = log.read_text(errors="replace")
            assert found(mark, written) == set(), written[-4000:]
            assert "Traceback" not in written
            if level == "info":  # a bounded number of lines, not one for each request
                assert written[before:].count("\n") < 60, written[before:][-6000:]


def test_log_of_malformed_requests_by_tls_holds_nothing_of_what_clients_send(crds: ApiServer, tmp_path: Path) -> None:
    tls = tmp_path / "tls"
    tls.mkdir()
    write_tls_pair(tls)
    with front(tmp_path, crds, "debug", tls) as (log, ports):
        trusting = ssl.create_default_context(cafile=str(tls / "tls.crt"))
        marks = [send_all(ports[:2], trusting), send_all(ports[:3])]  # then without TLS, where the ports speak it
        written = log.read_text(errors="replace")
        assert [found(mark, written) for mark in marks] == [set(), set()], written[-4000:]
        assert "Traceback" not in written
