"""Kubeconfig files as kubectl reads them: several merge into one, and a path in one is relative to that file's folder.

Why no library's loader (what its import adds to what the operator imports anyway, and its size on disk): `kubernetes`
37.0.2 costs 0.18 s of CPU, 19 MiB of memory and 126 MiB, lets the last file decide on the current context, and goes on
anonymously when a plugin fails. `lightkube` 1.0.1 costs 0.05 s, 6 MiB and 10 MiB, reads a single file, and lacks exec
plugins of v1, KUBERNETES_EXEC_INFO, certificates and expiry of plugins, `tls-server-name` and `proxy-url`.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

import yaml

from sparksql.kube.exec_plugin import API_VERSIONS, ExecCommand, InteractiveMode
from sparksql.kube.identity import CredentialsError

EXEC_EXTENSION = "client.authentication.k8s.io/exec"
# What is read, and what changes neither where a request goes nor as whom. Any other field might, and is refused by name.
CLUSTER_FIELDS = frozenset({
    "server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority", "certificate-authority-data",
    "proxy-url", "disable-compression", "extensions",
})  # fmt: skip
USER_FIELDS = frozenset({
    "client-certificate", "client-certificate-data", "client-key", "client-key-data", "token", "tokenFile",
    "username", "password", "exec", "extensions",
})  # fmt: skip
PROXY_SCHEMES = ("http://", "https://")


@dataclass(frozen=True)
class Section:
    """The cluster, user or context called `name`, as the file in `folder` has it."""

    name: str
    fields: Mapping[str, Any]
    folder: Path

    def text(self, field: str) -> str | None:
        """Returns a field as text, None if it is absent or empty."""
        return str(self.fields[field]) if self.fields.get(field) else None

    def path(self, field: str) -> Path | None:
        """Returns the path that a field names, relative to the file's folder; None if it is absent or empty."""
        return self.folder / self.fields[field] if self.fields.get(field) else None

    def data(self, field: str) -> bytes | None:
        """Returns what `<field>-data` has inline, else what the file named by `field` holds. Raises CredentialsError."""
        try:
            if inline := self.fields.get(f"{field}-data"):
                return base64.b64decode(inline)
            path = self.path(field)
            return path.read_bytes() if path else None
        except (OSError, binascii.Error) as error:
            raise CredentialsError(f"kubeconfig: {field} of {self.name} cannot be read: {error}") from error


@dataclass(frozen=True)
class Chosen:
    """Holds what one context names."""

    cluster: Section
    user: Section
    namespace: str


def default_paths() -> list[Path]:
    """Returns the paths of $KUBECONFIG that exist, the first one if none does, and ~/.kube/config without the variable."""
    if named := os.environ.get("KUBECONFIG"):
        paths = [Path(each) for each in named.split(os.pathsep) if each]
        return [path for path in paths if path.exists()] or paths[:1]
    return [Path.home() / ".kube" / "config"]


def read(paths: Sequence[Path], context: str | None = None) -> Chosen:
    """The cluster and user of a context, by default the current one. The first file that names a thing decides on it.

    Raises CredentialsError for a file that cannot be read, a name that nothing has, and what is not supported.
    """
    files = [(path.absolute().parent, _load(path)) for path in paths]
    current = next((found for _, config in files if (found := config.get("current-context"))), "")
    chosen = _section(files, "context", context or current)
    cluster = _section(files, "cluster", chosen.text("cluster") or "")
    name = chosen.text("user")
    user = _section(files, "user", name) if name else Section("", {}, Path())
    _refuse_others("cluster", cluster, CLUSTER_FIELDS)
    _refuse_others("user", user, USER_FIELDS)
    if not cluster.text("server"):
        raise CredentialsError(f"kubeconfig cluster {cluster.name} has no server")
    proxy = cluster.text("proxy-url")
    if proxy and not proxy.startswith(PROXY_SCHEMES):
        raise CredentialsError(f"kubeconfig cluster {cluster.name}: proxy-url is not supported: {proxy}")
    return Chosen(cluster, user, chosen.text("namespace") or "default")


def exec_command(chosen: Chosen) -> ExecCommand | None:
    """Returns how to run the user's exec plugin, None without one.

    Raises CredentialsError for a version that is not supported.
    """
    user, spec = chosen.user, chosen.user.fields.get("exec")
    if not spec:
        return None
    version, command = spec.get("apiVersion"), spec.get("command")
    if version not in API_VERSIONS:
        raise CredentialsError(f"kubeconfig user {user.name}: exec has apiVersion {version}, not {API_VERSIONS[0]}")
    if not command:
        raise CredentialsError(f"kubeconfig user {user.name}: exec has no command")
    mode = spec.get("interactiveMode") or "IfAvailable"
    if mode not in get_args(InteractiveMode):
        raise CredentialsError(f"kubeconfig user {user.name}: exec has interactiveMode {mode}")
    return ExecCommand(
        api_version=version,
        command=str(user.folder / command) if os.sep in command else command,  # a bare name is looked for in $PATH
        args=tuple(map(str, spec.get("args") or ())),
        env={each["name"]: str(each["value"]) for each in spec.get("env") or ()},
        interactive_mode=cast(InteractiveMode, mode),
        install_hint=(spec.get("installHint") or "").strip(),
        cluster=_cluster_info(chosen.cluster) if spec.get("provideClusterInfo") else None,
    )


def _refuse_others(kind: str, section: Section, known: Set[str]) -> None:
    if others := sorted(field for field, value in section.fields.items() if value and field not in known):
        raise CredentialsError(f"kubeconfig {kind} {section.name}: {', '.join(others)} is not supported")


def _cluster_info(cluster: Section) -> dict[str, Any]:
    authority = cluster.data("certificate-authority")
    extensions = {each.get("name"): each.get("extension") for each in cluster.fields.get("extensions") or ()}
    info = {
        "server": cluster.text("server"),
        "tls-server-name": cluster.text("tls-server-name"),
        "insecure-skip-tls-verify": bool(cluster.fields.get("insecure-skip-tls-verify")) or None,
        "certificate-authority-data": base64.b64encode(authority).decode() if authority else None,
        "proxy-url": cluster.text("proxy-url"),
        "config": extensions.get(EXEC_EXTENSION),
    }
    return {field: value for field, value in info.items() if value is not None}


def _load(path: Path) -> Mapping[str, Any]:
    try:
        config = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise CredentialsError(f"kubeconfig {path} cannot be read: {type(error).__name__}") from error
    if not isinstance(config, Mapping | None):
        raise CredentialsError(f"kubeconfig {path} cannot be read: it is no map")
    return config or {}


def _section(files: Sequence[tuple[Path, Mapping[str, Any]]], kind: str, name: str) -> Section:
    for folder, config in files:
        for entry in config.get(f"{kind}s") or ():
            if entry.get("name") == name:
                return Section(name, entry.get(kind) or {}, folder)
    raise CredentialsError(f"kubeconfig has no {kind} {name!r}")
