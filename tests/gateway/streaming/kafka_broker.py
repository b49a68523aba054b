"""A real Kafka broker as a local process, with the configuration and the jars of the broker's image."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.maven import REPOSITORY, jars
from tests.support.ports import free_port

_IMAGE = REPOSITORY / "images" / "kafka"
_CLUSTER_ID = "c3BhcmstcXVlcnktdGVzdA"
_START_SECONDS = 300.0
_STOP_SECONDS = 30.0
_JAVA_OPTIONS = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True)
class Broker:
    """A broker that answers. `address` is host and port."""

    process: subprocess.Popen[bytes]
    address: str
    folder: Path

    def log_tail(self, size: int = 4000) -> str:
        return (self.folder / "log").read_text(errors="replace")[-size:]


@contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    """A broker on a free port of loopback, with its data below `folder`; it has ended when the block has."""
    java = shutil.which("java")
    assert java, "no java on the path"
    class_path = ":".join(jars("images/kafka/pom.xml"))
    address = f"127.0.0.1:{free_port()}"
    properties = folder / "server.properties"
    properties.write_text(_properties(address, folder / "data"))
    storage = [java, "-cp", class_path, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(properties)]
    formatted = subprocess.run(storage, capture_output=True, text=True, timeout=_START_SECONDS, check=False)
    assert formatted.returncode == 0, formatted.stdout + formatted.stderr
    logging = f"-Dlog4j2.configurationFile={_IMAGE / 'log4j2.xml'}"
    command = [java, *_JAVA_OPTIONS, logging, "-cp", class_path, "kafka.Kafka", str(properties)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
        broker = Broker(process, address, folder)
        try:
            _wait_until_serving(broker)
            yield broker
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _properties(address: str, data: Path) -> str:
    values = {"LISTEN": address, "ADVERTISE": address, "CONTROLLER_PORT": str(free_port()), "DATA": str(data)}
    text = (_IMAGE / "server.properties").read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _wait_until_serving(broker: Broker) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and broker.process.poll() is None:
        if _serves(broker.address):
            return
        time.sleep(0.1)
    raise AssertionError(f"the broker does not answer:\n{broker.log_tail()}")


def _serves(address: str) -> bool:
    """Whether a broker answers the first question of Kafka's protocol, ApiVersions: it does once it takes requests."""
    host, _, port = address.partition(":")
    question = struct.pack(">hhih", 18, 0, 1, -1)  # its key and version, a correlation id, no client id
    try:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(question)) + question)
            return len(connection.recv(4)) == 4
    except OSError:
        return False
