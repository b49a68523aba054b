"""Where the API server is and how to prove who we are: from the pod we run in, or from kubeconfig files."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from sparksql.kube import kubeconfig
from sparksql.kube.exec_plugin import ExecPlugin
from sparksql.kube.identity import ANONYMOUS, CredentialsError, Identity

SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_SECONDS = 60.0  # bound tokens are rotated on disk long before they expire


@dataclass(frozen=True)
class Credentials:
    """Says how to reach the API server at the URL `server`, and who we are.

    `fixed` is what never changes of who we are; a token file or an exec plugin gives the rest, anew in time.
    `namespace` is the one that the pod runs in or the kubeconfig's context names, `pod_namespace` only the first of
    these. `ca` is PEM; without it the system's authorities are trusted. `tls_server_name` is the name that the server's
    certificate must have, if not the one in `server`. `insecure` skips the check of the certificate, because the
    kubeconfig says so.
    """

    server: str
    ca: bytes | None = None
    fixed: Identity = ANONYMOUS
    token_path: Path | None = None
    plugin: ExecPlugin | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None
    insecure: bool = False
    namespace: str = "default"
    pod_namespace: str | None = None

    @classmethod
    def from_in_cluster(cls, directory: Path = SERVICE_ACCOUNT_DIR) -> Credentials:
        """Returns the credentials of the pod's service account. Raises CredentialsError outside a pod."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
        if not host or not port or not (directory / "token").exists():
            raise CredentialsError("not in a pod: no KUBERNETES_SERVICE_HOST, or no service account token is mounted")
        namespace = (directory / "namespace").read_text().strip()
        if not namespace:
            raise CredentialsError(f"{directory / 'namespace'} is empty: the pod's namespace is not known")
        return cls(
            server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
            ca=_read(directory / "ca.crt"),
            token_path=directory / "token",
            namespace=namespace,
            pod_namespace=namespace,
        )

    @classmethod
    def from_kubeconfig(cls, path: Path | None = None, context: str | None = None) -> Credentials:
        """Returns the credentials of a context of a kubeconfig file. Raises CredentialsError.

        By default it is the current context, and the file is $KUBECONFIG or ~/.kube/config. Takes what kubectl takes,
        but for auth providers, impersonation and SOCKS proxies: these raise CredentialsError.
        """
        chosen = kubeconfig.read([path] if path else kubeconfig.default_paths(), context)
        cluster, user = chosen.cluster, chosen.user
        authorization = _authorization(user)
        # A plugin is not asked for a token where the kubeconfig has one: kubectl's order.
        command = None if authorization or user.text("tokenFile") else kubeconfig.exec_command(chosen)
        return cls(
            server=str(cluster.text("server")).rstrip("/"),
            ca=cluster.data("certificate-authority"),
            fixed=Identity(authorization, user.data("client-certificate"), user.data("client-key")),
            token_path=user.path("tokenFile"),
            plugin=ExecPlugin(command) if command else None,
            tls_server_name=cluster.text("tls-server-name"),
            proxy_url=cluster.text("proxy-url"),
            insecure=bool(cluster.fields.get("insecure-skip-tls-verify")),
            namespace=chosen.namespace,
        )

    def ssl_context(self, identity: Identity) -> ssl.SSLContext | None:
        """TLS as these credentials ask for it, with the identity's certificate; None for a plain http server."""
        if not self.server.startswith("https:"):
            return None
        context = _Context(ssl.PROTOCOL_TLS_CLIENT)
        context.tls_server_name = self.tls_server_name
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self.ca:
            context.load_verify_locations(cadata=self.ca.decode())
        else:
            context.load_default_certs()
        if identity.certificate and identity.key:
            # The ssl module takes certificates from files only. mkstemp's mode is 0600, and the file is gone at once.
            with tempfile.NamedTemporaryFile(suffix=".pem") as pem:
                pem.write(identity.certificate.rstrip() + b"\n" + identity.key)
                pem.flush()
                context.load_cert_chain(pem.name)
        return context


def find_credentials() -> Credentials:
    """Returns the credentials of the pod, or of the kubeconfig outside one. Raises CredentialsError."""
    try:
        return Credentials.from_in_cluster()
    except CredentialsError:
        return Credentials.from_kubeconfig()


class Authenticator:
    """Says who we are now, by one set of credentials. For one event loop.

    Reads a token file again as it rotates, and runs an exec plugin when it must.
    """

    def __init__(self, credentials: Credentials, clock: Callable[[], float] = time.monotonic) -> None:
        self._credentials = credentials
        self._clock = clock
        self._read: tuple[float, Identity] | None = None  # of the token file: when, and what

    @property
    def can_renew(self) -> bool:
        """Tells whether another identity may follow one that was refused."""
        return self._credentials.token_path is not None or self._credentials.plugin is not None

    async def identity(self, refused: Identity | None = None) -> Identity:
        """The identity to use, another one than was `refused` if there is one. Raises CredentialsError."""
        fixed = self._credentials.fixed
        if (plugin := self._credentials.plugin) is not None:
            known = plugin.known()
            if known is None or (refused is not None and _merged(fixed, known) == refused):
                # Off the loop: it may take seconds, or wait for a person.
                known = await asyncio.to_thread(plugin.login, known)
            return _merged(fixed, known)
        if (path := self._credentials.token_path) is not None:
            if self._read is None or refused is not None or self._clock() - self._read[0] >= TOKEN_SECONDS:
                self._read = self._clock(), _with_token(fixed, path)
            return self._read[1]
        return fixed


class _Context(ssl.SSLContext):
    """Expects another name than the URL's where it is told so: aiohttp lets a request say this, but not a session."""

    tls_server_name: str | None = None

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return super().wrap_bio(incoming, outgoing, server_side, self.tls_server_name or server_hostname, session)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CredentialsError(f"{path} cannot be read: {error.strerror}") from error


def _authorization(user: kubeconfig.Section) -> str | None:
    if token := user.text("token"):
        return f"Bearer {token}"
    if name := user.text("username"):
        pair = f"{name}:{user.text('password') or ''}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
    return None


def _with_token(fixed: Identity, path: Path) -> Identity:
    """The token in the file; the kubeconfig's own while it cannot be read. Raises CredentialsError when there is neither."""
    try:
        return replace(fixed, authorization=f"Bearer {path.read_text().strip()}")
    except OSError as error:
        if fixed.authorization is None:
            raise CredentialsError(f"the token file {path} cannot be read: {error.strerror}") from error
        return fixed


def _merged(fixed: Identity, answer: Identity) -> Identity:
    """A certificate in the kubeconfig goes before the plugin's: kubectl's order."""
    return replace(answer, certificate=fixed.certificate, key=fixed.key) if fixed.certificate else answer
