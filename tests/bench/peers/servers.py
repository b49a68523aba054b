"""The Sparks that are compared, each a process on loopback with the same settings: local mode, two cores, no metastore, 1 GiB of heap by default."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from sparksql.gateway.spark.jvm import spark_home
from tests.support.process import GatewayProcess, running

CONF = {
    "spark.master": "local[2]",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
}
HEAP = {"spark.driver.memory": "1g"}
THRIFT_SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_SECONDS = 120.0
_PLAIN = Path(__file__).resolve().parent / "plain.py"


@contextmanager
def gateway(folder: Path, thrift_port: int, connect_port: int) -> Iterator[GatewayProcess]:
    """A gateway as the session image runs it, all frontends open."""
    endpoints = {
        "rest": True, "thrift": True, "connect": True, "thrift_port": thrift_port, "connect_port": connect_port
    }  # fmt: skip
    with running(folder, optimised=True, spark_conf=CONF, endpoints=endpoints) as process:
        yield process


@contextmanager
def plain(
    folder: Path, program: Path = _PLAIN, conf: Mapping[str, str] = MappingProxyType({})
) -> Iterator[subprocess.Popen[str]]:
    """PySpark that executes what its program is told on its input. `conf` comes on top."""
    with (folder / "plain.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, program, json.dumps({**CONF, **HEAP, **conf})],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder,
        )  # fmt: skip
        yield from _until_ended(process)


@contextmanager
def thrift_server(folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """Spark's own Thrift server."""
    more = ["--hiveconf", f"hive.server2.thrift.port={port}", "--hiveconf", "hive.server2.thrift.bind.host=127.0.0.1"]
    yield from _submitted(folder, THRIFT_SERVER, {}, more)


@contextmanager
def connect_server(folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """Spark's own Connect server, without TLS."""
    binding = {"spark.connect.grpc.binding.port": str(port), "spark.connect.grpc.binding.address": "127.0.0.1"}
    yield from _submitted(folder, CONNECT_SERVER, binding, [])


def until_listening(process: subprocess.Popen[str], port: int, log: Path) -> None:
    """Raises SystemExit when the process ends before it listens, or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise SystemExit(f"nothing listens on {port}:\n{log.read_text()[-3000:]}")


def _submitted(
    folder: Path, main_class: str, conf: dict[str, str], arguments: list[str]
) -> Iterator[subprocess.Popen[str]]:
    settings = [f"--conf={key}={value}" for key, value in {**CONF, **HEAP, **conf}.items()]
    command = [spark_home() / "bin" / "spark-submit", *settings, "--class", main_class, "spark-internal", *arguments]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, text=True, cwd=folder, env=environment)
        yield from _until_ended(process)


def _until_ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
