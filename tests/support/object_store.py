"""The S3 server of the demo and the cluster's tests as a local process, with one bucket in a folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.maven import CACHE
from tests.support.ports import free_port

BUCKET = "bucket"
ROOT = f"s3a://{BUCKET}"
_ACCESS, _SECRET = "tests", "tests-secret"
_SECONDS = 300


@dataclass(frozen=True)
class ObjectStore:
    """A server that listens. `folder` has the bucket's objects as files."""

    port: int
    folder: Path

    @property
    def conf(self) -> Mapping[str, str]:
        """Spark's settings for it."""
        settings = {
            "endpoint": f"http://127.0.0.1:{self.port}",
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
            "access.key": _ACCESS,
            "secret.key": _SECRET,
        }
        return {f"spark.hadoop.fs.s3a.{key}": value for key, value in settings.items()}


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """Serves a folder of its own below this one until the block ends."""
    store = ObjectStore(free_port(), folder / "objects" / BUCKET)
    store.folder.mkdir(parents=True)
    environment = {**os.environ, "ROOT_ACCESS_KEY": _ACCESS, "ROOT_SECRET_KEY": _SECRET}
    command = [_program(), "--quiet", "--port", f"127.0.0.1:{store.port}", "posix", str(store.folder.parent)]
    with (folder / "objects.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_until_listening(process, store.port, folder / "objects.log")
        yield store
    finally:
        process.kill()  # its data are this block's alone
        process.wait()


def _program() -> str:
    built = CACHE.parent / "bin" / "versitygw"
    found = str(built) if built.exists() else shutil.which("versitygw")
    assert found is not None, f"no {built}: `make tools` builds it"
    return found


def _wait_until_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError(f"the object store does not listen:\n{log.read_text(errors='replace')[-2000:]}")
