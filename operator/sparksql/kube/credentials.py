"""Where the API server is and how to prove who we are: from the pod we run in, or from a kubeconfig file."""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class CredentialsError(Exception):
    """The credentials are missing, incomplete or of a kind that is not supported; the text says which."""


@dataclass(frozen=True)
class Credentials:
    """`server` is a URL. PEM data wins over a path to it. A `token_path` is read again as the token behind it rotates.

    `namespace` is the one that the pod runs in or the kubeconfig's context names, `pod_namespace` only the first of these.
    `insecure` skips the check of the server's certificate, because the kubeconfig says so.
    """

    server: str
    ca_path: Path | None = None
    ca_data: bytes | None = None
    client_cert_path: Path | None = None
    client_cert_data: bytes | None = None
    client_key_path: Path | None = None
    client_key_data: bytes | None = None
    token: str | None = None
    token_path: Path | None = None
    insecure: bool = False
    namespace: str = "default"
    pod_namespace: str | None = None

    @classmethod
    def from_in_cluster(cls, directory: Path = SERVICE_ACCOUNT_DIR) -> Credentials:
        """Those of the pod's service account. Raises CredentialsError outside a pod."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
        if not host or not port or not (directory / "token").exists():
            raise CredentialsError("not in a pod: no KUBERNETES_SERVICE_HOST, or no service account token is mounted")
        namespace = (directory / "namespace").read_text().strip()
        if not namespace:
            raise CredentialsError(f"{directory / 'namespace'} is empty: the pod's namespace is not known")
        return cls(
            server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
            ca_path=directory / "ca.crt",
            token_path=directory / "token",
            namespace=namespace,
            pod_namespace=namespace,
        )

    @classmethod
    def from_kubeconfig(cls, path: Path | None = None, context: str | None = None) -> Credentials:
        """Those of a context (default: the current one) of one kubeconfig file (default: $KUBECONFIG, ~/.kube/config).

        Client certificates and tokens, in the file or beside it. Exec plugins, auth providers and passwords raise
        CredentialsError.
        """
        path = path or Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
        try:
            config = yaml.safe_load(path.read_text())
        except (OSError, yaml.YAMLError) as error:
            raise CredentialsError(f"kubeconfig {path} cannot be read: {type(error).__name__}") from error
        chosen = _entry(config, "context", context or config.get("current-context") or "")
        cluster = _entry(config, "cluster", chosen.get("cluster", ""))
        user = _entry(config, "user", chosen["user"]) if chosen.get("user") else {}
        if unsupported := {"exec", "auth-provider", "username"} & user.keys():
            raise CredentialsError(f"kubeconfig user {chosen['user']}: {unsupported.pop()} is not supported")
        return cls(
            server=cluster["server"].rstrip("/"),
            ca_path=_file(path, cluster, "certificate-authority"),
            ca_data=_data(cluster, "certificate-authority-data"),
            client_cert_path=_file(path, user, "client-certificate"),
            client_cert_data=_data(user, "client-certificate-data"),
            client_key_path=_file(path, user, "client-key"),
            client_key_data=_data(user, "client-key-data"),
            token=user.get("token"),
            token_path=None if user.get("token") else _file(path, user, "tokenFile"),
            insecure=bool(cluster.get("insecure-skip-tls-verify")),
            namespace=chosen.get("namespace") or "default",
        )

    def ssl_context(self) -> ssl.SSLContext | None:
        """TLS as these credentials ask for it; None for a plain http server."""
        if not self.server.startswith("https:"):
            return None
        cadata = self.ca_data.decode() if self.ca_data else None
        context = ssl.create_default_context(cafile=None if cadata else self.ca_path, cadata=cadata)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        cert, key = self.client_cert_data, self.client_key_data
        if cert is None and self.client_cert_path:
            cert = self.client_cert_path.read_bytes()
        if key is None and self.client_key_path:
            key = self.client_key_path.read_bytes()
        if cert and key:
            # The ssl module takes certificates from files only. mkstemp's mode is 0600, and the file is gone at once.
            with tempfile.NamedTemporaryFile(suffix=".pem") as pem:
                pem.write(cert.rstrip() + b"\n" + key)
                pem.flush()
                context.load_cert_chain(pem.name)
        return context


def _entry(config: Any, kind: str, name: str) -> Mapping[str, Any]:
    for entry in (config or {}).get(f"{kind}s") or ():
        if entry.get("name") == name:
            content: Mapping[str, Any] = entry.get(kind) or {}
            return content
    raise CredentialsError(f"kubeconfig has no {kind} {name!r}")


def _file(kubeconfig: Path, section: Mapping[str, Any], field: str) -> Path | None:
    """A file named in the kubeconfig, relative to its folder."""
    return kubeconfig.parent / section[field] if section.get(field) else None


def _data(section: Mapping[str, Any], field: str) -> bytes | None:
    return base64.b64decode(section[field]) if section.get(field) else None
