"""A real etcd and kube-apiserver on loopback, for tests of what only they can tell: schemas, CEL, conflicts, watches.

No other component runs: nothing is scheduled, collected or finalized; a deleted namespace stays in Terminating. Every
instance has its own ports, certificates and folder, so that several test runs do not meet.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import os
import shutil
import ssl
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.cluster.localkube.processes import GO_ENVIRONMENT
from tests.runner.starts import measured
from tests.support.ports import free_port

START_SECONDS = 300.0
STOP_SECONDS = 10.0
MERGE_PATCH = "application/merge-patch+json"


class StartError(RuntimeError):
    """A binary is missing or a process ended before it was ready; the message has the end of its log."""


@dataclass(frozen=True)
class Response:
    status: int
    body: Any

    @property
    def message(self) -> str:
        """What the API server says in its `Status`."""
        return str(self.body.get("message", "")) if isinstance(self.body, dict) else str(self.body)


@dataclass(frozen=True)
class ApiServer:
    """A running API server and the credentials of a cluster administrator."""

    url: str
    kubeconfig: Path
    ca_file: Path
    cert_file: Path
    key_file: Path

    def ssl_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.ca_file))
        context.load_cert_chain(self.cert_file, self.key_file)
        return context

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        user: str | None = None,
    ) -> Response:
        """One request; `body` is sent as JSON and the answer is read as JSON if it is. `user` is impersonated."""
        host = self.url.removeprefix("https://")
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        if user is not None:
            headers["Impersonate-User"] = user
        connection = http.client.HTTPSConnection(host, context=self.ssl_context(), timeout=60)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        try:
            return Response(answer.status, json.loads(text))
        except ValueError:
            return Response(answer.status, text)

    def namespace(self, prefix: str = "test") -> str:
        """Makes a namespace with a unique name and returns the name."""
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        response = self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        assert response.status == 201, response
        return name


def binary(name: str) -> Path:
    """Path of one of the cluster's programs. Raises `StartError` that says where it is expected."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = cache / "spark-sql-operator" / "bin" / name
    if not path.is_file():
        raise StartError(f"{path} is missing: build the cluster's programs first, see CONTRIBUTING.md")
    return path


@contextlib.contextmanager
def running_apiserver(folder: Path) -> Iterator[ApiServer]:
    """Starts etcd and an API server with all their files below `folder`, and ends both afterwards."""
    with contextlib.ExitStack() as stack:
        yield _start(folder, stack)


def _start(folder: Path, stack: contextlib.ExitStack) -> ApiServer:
    folder.mkdir(parents=True, exist_ok=True)
    etcd_port, peer_port, port = free_port(), free_port(), free_port()
    pki = _Pki(folder)
    pki.issue("server", "kube-apiserver")
    pki.issue("admin", "admin", group="system:masters")
    server = ApiServer(
        f"https://127.0.0.1:{port}",
        folder / "kubeconfig",
        folder / "ca.crt",
        folder / "admin.crt",
        folder / "admin.key",
    )
    server.kubeconfig.write_text(_kubeconfig(server))
    etcd_url, peer_url = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{peer_port}"
    etcd = _spawn(
        folder, stack, "etcd", f"--data-dir={folder / 'data'}", f"--listen-client-urls={etcd_url}",
        f"--advertise-client-urls={etcd_url}", f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}", f"--initial-cluster=default={peer_url}", "--unsafe-no-fsync",
    )  # fmt: skip
    apiserver = _spawn(
        folder, stack, "kube-apiserver", f"--etcd-servers={etcd_url}", "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={folder}",
        f"--tls-cert-file={folder / 'server.crt'}", f"--tls-private-key-file={folder / 'server.key'}",
        f"--client-ca-file={folder / 'ca.crt'}", "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
        f"--service-account-key-file={folder / 'server.key'}",
        f"--service-account-signing-key-file={folder / 'server.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--disable-admission-plugins=ServiceAccount",  # no controller makes the default accounts
        "--endpoint-reconciler-type=none", "--enable-priority-and-fairness=false",
    )  # fmt: skip
    with measured("API server"):
        _await_ready(server, {"etcd": etcd, "kube-apiserver": apiserver}, folder)
    return server


def _spawn(folder: Path, stack: contextlib.ExitStack, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [str(binary(name)), *arguments]
    if setpriv := shutil.which("setpriv"):  # so that a killed test run leaves nothing behind
        command = [setpriv, "--pdeathsig", "KILL", "--", *command]
    log = stack.enter_context((folder / f"{name}.log").open("wb"))
    environment = {**os.environ, **GO_ENVIRONMENT}
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _await_ready(server: ApiServer, processes: dict[str, subprocess.Popen[bytes]], folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    seen: Any = None
    while True:
        for name, process in processes.items():
            if process.poll() is not None:
                raise StartError(f"{name} ended with {process.returncode}:\n{_log_end(folder, name)}")
        try:
            seen = server.request("GET", "/readyz")
            if seen.status == 200:
                return
        except OSError as error:
            seen = error
        if time.monotonic() > deadline:
            logs = "\n".join(_log_end(folder, name) for name in processes)
            raise StartError(f"the API server was not ready after {START_SECONDS:.0f} s, last seen: {seen}\n{logs}")
        time.sleep(0.05)


def _log_end(folder: Path, name: str) -> str:
    return "\n".join((folder / f"{name}.log").read_text(errors="replace").splitlines()[-20:])


class _Pki:
    """A certificate authority and the pairs that it issues, as PEM files `<name>.crt` and `<name>.key` in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test-ca")])
        authority = x509.BasicConstraints(ca=True, path_length=None)
        self._write("ca", self._key, self._certificate(self._name, self._key, authority))

    def issue(self, file: str, common_name: str, group: str | None = None) -> None:
        """A pair for client and server use; the server is known as localhost and 127.0.0.1."""
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if group is not None:
            attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]
        )
        self._write(file, key, self._certificate(x509.Name(attributes), key, names))

    def _certificate(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, file: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        (self._folder / f"{file}.key").write_bytes(private)
        (self._folder / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _kubeconfig(server: ApiServer) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "clusters": [
                {"name": "test", "cluster": {"server": server.url, "certificate-authority": str(server.ca_file)}}
            ],
            "users": [
                {
                    "name": "admin",
                    "user": {"client-certificate": str(server.cert_file), "client-key": str(server.key_file)},
                }
            ],
        }
    )
