"""A real PostgreSQL server as a local process, and just enough of its protocol to prepare and to read its tables.

The server refuses to run as root, and no other user may read root's folders: its programs and its data are in a folder of
their own below the system's folder for temporary files.
"""

from __future__ import annotations

import io
import os
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.maven import jars
from tests.support.ports import free_port

USER = "sparksql"
DATABASE = "postgres"
PASSWORD = "password-of-the-tests-database"
_START_SECONDS = 300.0
_STOP_SECONDS = 30.0

Cells = tuple[str | None, ...]


@dataclass
class Postgres:
    """A server of one test module. TCP needs the password; the socket in `folder`, which `execute` uses, does not."""

    folder: Path
    port: int
    settings: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """JDBC address, without user and password."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{DATABASE}"

    def execute(self, sql: str) -> list[Cells]:
        """Runs statements in one transaction. Returns the rows of all, each cell as the server's text; None is NULL."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_START_SECONDS)
            connection.connect(str(self.folder / f".s.PGSQL.{self.port}"))
            with connection.makefile("rwb") as stream:
                return _asked(stream, sql)

    def start(self) -> None:
        """Starts the server, and returns when it answers."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "fsync": "off",
            "shared_buffers": "32MB",
            **self.settings,
        }
        options = [f"-c{name}={value}" for name, value in settings.items()]
        command = [str(self.folder / "bin/postgres"), "-D", str(self.folder / "data"), *options]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder, **_as_other_user()
            )
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                self.execute("SELECT 1")
            except (OSError, PostgresError):  # not there yet, or there and still starting
                time.sleep(0.05)
            else:
                return
        raise AssertionError(f"the database does not answer:\n{self.log_tail()}")

    def stop(self) -> None:
        """Ends the server at once: clients see their connections break, and new ones refused."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # fast shutdown
            try:
                self.process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def log_tail(self, size: int = 4000) -> str:
        return (self.folder / "log").read_text(errors="replace")[-size:]


class PostgresError(Exception):
    """The server's own words for a statement that it refused."""


@contextmanager
def running_postgres(**settings: str) -> Iterator[Postgres]:
    """A new server on a free port of loopback, with settings of postgresql.conf; it and its data are gone after the block."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short, as the path of a socket must be
    server = Postgres(folder, free_port(), settings)
    try:
        _unpack(folder)
        _make_database(folder)
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def _unpack(folder: Path) -> None:
    [jar] = jars("tests/support/postgresql/pom.xml")
    with zipfile.ZipFile(jar) as archive:
        programs = io.BytesIO(archive.read("postgres-linux-x86_64.txz"))
    with tarfile.open(fileobj=programs) as files:
        files.extractall(folder, filter="data")


def _make_database(folder: Path) -> None:
    password = folder / "password"
    password.write_text(PASSWORD)
    if other := _as_other_user():
        for path in (folder, password):
            os.chown(path, other["user"], other["group"])
    made = subprocess.run(
        [
            folder / "bin/initdb", "-D", folder / "data", "-U", USER, f"--pwfile={password}", "--no-sync",
            "--auth-local=trust", "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C",
        ],
        capture_output=True, text=True, timeout=_START_SECONDS, check=False, cwd=folder, **_as_other_user(),
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr


def _as_other_user() -> dict[str, Any]:
    """Arguments of a process that must not be root's."""
    if os.geteuid():
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _asked(stream: Any, sql: str) -> list[Cells]:
    """Says hello and asks one question of the server's simple protocol, version 3.0."""
    hello = b"".join(text.encode() + b"\0" for text in ("user", USER, "database", DATABASE)) + b"\0"
    stream.write(struct.pack(">ii", len(hello) + 8, 3 << 16) + hello)
    stream.flush()
    _answered(stream)
    question = sql.encode() + b"\0"
    stream.write(b"Q" + struct.pack(">i", len(question) + 4) + question)
    stream.flush()
    return _answered(stream)


def _answered(stream: Any) -> list[Cells]:
    """Reads messages until the server waits for the next question."""
    rows: list[Cells] = []
    error = ""
    while head := stream.read(5):
        kind, size = struct.unpack(">ci", head)
        body = stream.read(size - 4)
        match kind:
            case b"D":
                rows.append(_cells(body))
            case b"E":
                fields = (part.decode() for part in body.split(b"\0"))
                error = next(each[1:] for each in fields if each.startswith("M"))
            case b"Z":
                break
    if error or not head:
        raise PostgresError(error or "the server closed the connection")
    return rows


def _cells(body: bytes) -> Cells:
    cells: list[str | None] = []
    at = 2
    for _ in range(*struct.unpack_from(">h", body)):
        [size] = struct.unpack_from(">i", body, at)
        at += 4
        cells.append(None if size < 0 else body[at : at + size].decode())
        at += max(size, 0)
    return tuple(cells)
