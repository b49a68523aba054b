"""A gateway as a local process: its folder, its TLS pair, its log.

It runs as in its image: with our own classes before Spark's, and confined to the folders below FILES.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sparksql.gateway.spark.jvm import CLASS_PATH_FILE_ENV, OPTIONS_FILE_ENV
from sparksql.wire.driver import (
    CONFIG_DIR_ENV,
    CONFIG_FILE,
    CONFIG_HASH_ENV,
    FILE_ROOTS_ENV,
    TLS_CERT_FILE,
    TLS_KEY_FILE,
    TOKEN_FILE,
    DriverConfig,
    config_hash,
)
from sparksql.wire.front import FRONT_TOKEN_FILE
from tests.runner.starts import measured
from tests.support.class_archive import java_options
from tests.support.java_classes import class_path
from tests.support.ports import free_port, listens

TOKEN = "a-token-of-the-tests"
FRONT_TOKEN = "what-the-front-presents-in-tests"
FILES = tempfile.gettempdir()  # pytest's own folders are below it


def write_tls_pair(folder: Path) -> None:
    """A self-signed certificate for loopback."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gateway")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    (folder / TLS_CERT_FILE).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / TLS_KEY_FILE).write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


@dataclass
class GatewayProcess:
    """A started process. `folder` holds its configuration, log, warehouse and results.

    `config` in it are the tests' own copies; those that the process was given, in `given`, it has removed.
    """

    process: subprocess.Popen[bytes]
    folder: Path
    port: int
    ui_port: int
    log: IO[bytes]

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def client_tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.folder / "config" / TLS_CERT_FILE))

    def log_tail(self, size: int = 6000) -> str:
        return (self.folder / "log").read_text(errors="replace")[-size:]

    def rss_mib(self) -> float:
        """Resident memory of the Python process (the JVM is a child of its own)."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        raise AssertionError("the gateway has no resident memory")

    @contextmanager
    def jvm_held(self) -> Iterator[None]:
        """Spark does nothing while the block runs."""
        with _held(self._jvm()):
            yield

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing is done while the block runs, as on a node that is lost and comes back."""
        with _held(self.process.pid, self._jvm()):
            yield

    def _jvm(self) -> int:
        pid = self.process.pid
        [jvm] = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return jvm

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float) -> int:
        """Exit code. Fails when the process does not end."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the gateway still runs after {seconds} s:\n{self.log_tail()}") from None

    def stop(self) -> None:
        """Ends the process whatever it does."""
        if self.process.poll() is None:
            self.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()


@contextmanager
def _held(*processes: int) -> Iterator[None]:
    for each in processes:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in processes:
            os.kill(each, signal.SIGCONT)


def driver_config(folder: Path, optimised: bool = False, **changes: object) -> DriverConfig:
    """Local Spark with its warehouse and results below the folder.

    Compiling the stages of a query costs more than running them over a few rows: only an `optimised` driver does, and one of the
    chart's default class.
    """
    spark_conf = {
        "spark.master": "local[2]",
        "spark.sql.warehouse.dir": f"file://{folder}/warehouse",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": str(optimised).lower(),
        "spark.sql.session.timeZone": "UTC",
        "spark.hadoop.fs.s3a.secret.key": "storage-credential",
        "spark.ui.enabled": "true",
        "spark.ui.port": str(free_port()),
        **dict(changes.pop("spark_conf", {})),  # type: ignore[call-overload]
    }
    values: dict[str, object] = {
        "namespace": "team-a",
        "session": "analytics",
        "session_uid": "0d9f0f0e-7c42-4f0e-9a53-0c9b9f7f0001",
        "incarnation": 3,
        "heap_mib": 1024,
        "spark_conf": spark_conf,
        "result_root": f"file://{folder}/results",
        "port": free_port(),
        "drain_seconds": 5,
    }
    return DriverConfig.model_validate({**values, **changes})


def image_environment(folder: Path, connectors: Sequence[str] = (), optimised: bool = False) -> dict[str, str]:
    """What the image and the operator's pods say of classes and files; `folder` gets the files with class path and options."""
    file, options = folder / "own-classpath", folder / "options"
    file.write_text(class_path(connectors))
    options.write_text("\n".join(java_options(class_path(), optimised)) + "\n")
    return {CLASS_PATH_FILE_ENV: str(file), OPTIONS_FILE_ENV: str(options), FILE_ROOTS_ENV: FILES}


def start_gateway(folder: Path, config: DriverConfig | None = None, optimised: bool = False) -> GatewayProcess:
    """Starts a gateway; returns at once. `optimised` is for tests that compute for long, see `java_options`."""
    config = config or driver_config(folder)
    config_folder = folder / "config"
    config_folder.mkdir(parents=True)
    text = config.to_file()
    (config_folder / CONFIG_FILE).write_text(text)
    (config_folder / TOKEN_FILE).write_text(TOKEN)
    (config_folder / FRONT_TOKEN_FILE).write_text(FRONT_TOKEN)
    write_tls_pair(config_folder)
    given = shutil.copytree(config_folder, folder / "given")
    log = (folder / "log").open("wb")
    environment = {
        **image_environment(folder, optimised=optimised),
        **{key: value for key, value in os.environ.items() if not key.startswith(("POD_", "PYSPARK_", "SPARK_"))},
        CONFIG_DIR_ENV: str(given),
        CONFIG_HASH_ENV: config_hash(text),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "sparksql.gateway.main"],
        env=environment,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=folder,
    )
    ui_port = int(config.spark_conf["spark.ui.port"])
    return GatewayProcess(process, folder, config.port, ui_port, log)


@contextmanager
def running(folder: Path, optimised: bool = False, **changes: object) -> Iterator[GatewayProcess]:
    """A gateway with a changed configuration that listens (Spark may still be starting), and ends with the block.

    `optimised` is for tests that compute for long, see `java_options`.
    """
    gateway = start_gateway(folder, driver_config(folder, optimised, **changes), optimised)
    try:
        wait_until_listening(gateway)
        yield gateway
    finally:
        gateway.stop()


def wait_until_listening(gateway: GatewayProcess, seconds: float = 600) -> None:
    """Until the port accepts connections. Fails when the process ends or takes too long."""
    deadline = time.monotonic() + seconds
    with measured("gateway"):
        while not listens(gateway.port):
            assert gateway.process.poll() is None and time.monotonic() < deadline, (
                f"the gateway does not listen:\n{gateway.log_tail()}"
            )
            time.sleep(0.05)
