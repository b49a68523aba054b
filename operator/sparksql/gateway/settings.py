"""Reads the folder that the driver is given, and removes what is secret in it: configuration, token and TLS pair.

Invariants: nothing starts before the file has the hash that the pod was made for, because a mounted Secret may lag behind its
object and a driver must not run with the configuration of an earlier incarnation. No secret is left in a file when the JVM
starts: SQL can make the JVM open files. What executors prove themselves with goes as soon as Spark has read it.
"""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sparksql.api.gateway_settings import GatewaySettings, InvalidSetting, parse
from sparksql.wire.driver import (
    CONFIG_DIR_ENV,
    CONFIG_FILE,
    CONFIG_HASH_ENV,
    DEFAULT_CONFIG_DIR,
    EXECUTOR_SECRET_FILE,
    EXECUTOR_TEMPLATE_FILE,
    LOCAL_MASTER_ENV,
    TLS_CERT_FILE,
    TLS_KEY_FILE,
    TOKEN_FILE,
    DriverConfig,
    config_hash,
)
from sparksql.wire.front import FRONT_TOKEN_FILE

CONFIG_WAIT_SECONDS = 120.0  # the kubelet refreshes mounted Secrets within about a minute
_POLL_SECONDS = 0.5


class ConfigError(Exception):
    """The folder does not hold what a driver needs; the message says what is missing."""


@dataclass(frozen=True)
class PodIdentity:
    """Holds what the downward API tells. Outside a pod `ip` is None and everything binds to loopback."""

    ip: str | None = None
    name: str | None = None
    uid: str | None = None
    namespace: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> PodIdentity:
        """Reads POD_IP, POD_NAME, POD_UID and POD_NAMESPACE."""
        return cls(
            ip=environment.get("POD_IP") or None,
            name=environment.get("POD_NAME") or None,
            uid=environment.get("POD_UID") or None,
            namespace=environment.get("POD_NAMESPACE") or None,
        )


@dataclass(frozen=True)
class TlsPair:
    """Certificate and key as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class Settings:
    """All that the process is given at its start. `tls` is None only outside a pod, where it listens on loopback.

    `front_token` is what the front presents; None where there was no front when the driver was made. `local_master` is Spark's
    master where the pod is a process of this machine; None on a cluster.
    """

    config: DriverConfig = field(repr=False)
    config_hash: str
    token: str = field(repr=False)
    tls: ssl.SSLContext | None
    pod: PodIdentity
    executor_template: Path | None
    executor_secret: Path | None = None
    tls_pair: TlsPair | None = None
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    front_token: str | None = field(default=None, repr=False)
    folder: Path = Path(DEFAULT_CONFIG_DIR)
    local_master: str | None = None

    @property
    def listen_address(self) -> str:
        """Returns the address to listen on: all of a pod's, else loopback, where each local pod has an address of its own."""
        if self.local_master is not None and self.pod.ip is not None:
            return self.pod.ip
        return "0.0.0.0" if self.pod.ip else "127.0.0.1"  # noqa: S104  in a pod: kubelet probes and port-forward differ


def read_settings(
    environment: Mapping[str, str] = os.environ,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Settings:
    """Waits for the folder to hold the expected configuration, reads it and takes it away. Raises ConfigError."""
    folder = Path(environment.get(CONFIG_DIR_ENV) or DEFAULT_CONFIG_DIR)
    text = _await_config(folder / CONFIG_FILE, environment.get(CONFIG_HASH_ENV) or None, clock, sleep)
    pod = PodIdentity.from_environment(environment)
    config = DriverConfig.model_validate_json(text)
    try:
        gateway = parse({**config.spark_conf, **config.policy.enforced_conf})
    except InvalidSetting as invalid:
        raise ConfigError(str(invalid)) from None
    secret = folder / EXECUTOR_SECRET_FILE
    pair = _read_tls_pair(folder, pod)
    settings = Settings(
        config=config,
        gateway=gateway,
        config_hash=config_hash(text),
        token=_read_token(folder / TOKEN_FILE),
        front_token=_read_front_token(folder / FRONT_TOKEN_FILE),
        tls=_tls_context(folder) if pair else None,
        tls_pair=pair,
        pod=pod,
        executor_template=_executor_template(folder / EXECUTOR_TEMPLATE_FILE, pod),
        executor_secret=secret if secret.is_file() else None,
        folder=folder,
        local_master=environment.get(LOCAL_MASTER_ENV) or None,
    )
    _remove_secrets(folder)
    return settings


def _remove_secrets(folder: Path) -> None:
    for name in (CONFIG_FILE, TOKEN_FILE, FRONT_TOKEN_FILE, TLS_CERT_FILE, TLS_KEY_FILE):
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as refused:
            what = f"{folder / name} cannot be removed, and SQL must not find it: {refused.strerror}"
            raise ConfigError(f"{what}; give the driver a folder of its own, with copies") from None


def _executor_template(source: Path, pod: PodIdentity) -> Path | None:
    """The executors' pod template with this pod as their owner, so that they end with it.

    Spark would set the owner itself if it were told the driver's pod name, but then it first waits a second for that pod to be
    Ready (spark.kubernetes.allocation.driver.readinessTimeout), which it cannot be before Spark is. It stays in the folder,
    which no SQL reaches: Spark reads it for each executor, and who could write it would choose what executors run.
    """
    if not source.is_file():
        return None
    if pod.name is None or pod.uid is None:
        return source
    template = json.loads(source.read_text(encoding="utf-8"))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    template.setdefault("metadata", {})["ownerReferences"] = [owner]
    owned = source.with_suffix(".owned.json")
    owned.write_text(json.dumps(template), encoding="utf-8")
    return owned.replace(source)


def _await_config(path: Path, expected: str | None, clock: Callable[[], float], sleep: Callable[[float], None]) -> str:
    deadline = clock() + CONFIG_WAIT_SECONDS
    seen = "no file"
    while True:
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            seen = f"a file with hash {config_hash(text)}"
            if expected in (None, config_hash(text)):
                return text
        if clock() >= deadline:
            raise ConfigError(f"{path}: expected hash {expected}, found {seen} after {CONFIG_WAIT_SECONDS:.0f} s")
        sleep(_POLL_SECONDS)


def _read_token(path: Path) -> str:
    token = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    if not token:
        raise ConfigError(f"{path}: no token; the gateway needs one")
    return token


def _read_front_token(path: Path) -> str | None:
    return path.read_text(encoding="utf-8").strip() or None if path.is_file() else None


def _read_tls_pair(folder: Path, pod: PodIdentity) -> TlsPair | None:
    certificate, key = folder / TLS_CERT_FILE, folder / TLS_KEY_FILE
    if not (certificate.is_file() and key.is_file()):
        if pod.ip is not None:
            raise ConfigError(f"{folder}: no {TLS_CERT_FILE} and {TLS_KEY_FILE}; in a pod the gateway speaks TLS only")
        return None
    return TlsPair(certificate.read_bytes(), key.read_bytes())


def _tls_context(folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(folder / TLS_CERT_FILE, folder / TLS_KEY_FILE)
    return context
