"""Reads the folder that the driver is given: configuration, token and TLS pair.

Invariant: nothing starts before the mounted file has the hash that the pod was made for, because a mounted Secret may lag
behind its object and a driver must not run with the configuration of an earlier incarnation.
"""

from __future__ import annotations

import json
import os
import ssl
import tempfile
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
    EXECUTOR_TEMPLATE_FILE,
    TLS_CERT_FILE,
    TLS_KEY_FILE,
    TOKEN_FILE,
    DriverConfig,
    config_hash,
)

CONFIG_WAIT_SECONDS = 120.0  # the kubelet refreshes mounted Secrets within about a minute
_POLL_SECONDS = 0.5


class ConfigError(Exception):
    """The folder does not hold what a driver needs; the message says what is missing."""


@dataclass(frozen=True)
class PodIdentity:
    """What the downward API tells. Outside a pod `ip` is None and everything binds to loopback."""

    ip: str | None = None
    name: str | None = None
    uid: str | None = None
    namespace: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> PodIdentity:
        return cls(
            ip=environment.get("POD_IP") or None,
            name=environment.get("POD_NAME") or None,
            uid=environment.get("POD_UID") or None,
            namespace=environment.get("POD_NAMESPACE") or None,
        )


@dataclass(frozen=True)
class Settings:
    """All that the process is given at its start. `tls` is None only outside a pod, where it listens on loopback."""

    config: DriverConfig
    config_hash: str
    token: str
    tls: ssl.SSLContext | None
    pod: PodIdentity
    executor_template: Path | None
    folder: Path = Path(DEFAULT_CONFIG_DIR)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)

    @property
    def listen_address(self) -> str:
        return "0.0.0.0" if self.pod.ip else "127.0.0.1"  # noqa: S104  in a pod: kubelet probes and port-forward differ


def read_settings(
    environment: Mapping[str, str] = os.environ,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Settings:
    """Waits for the folder to hold the expected configuration and reads it. Raises ConfigError."""
    folder = Path(environment.get(CONFIG_DIR_ENV) or DEFAULT_CONFIG_DIR)
    text = _await_config(folder / CONFIG_FILE, environment.get(CONFIG_HASH_ENV) or None, clock, sleep)
    pod = PodIdentity.from_environment(environment)
    config = DriverConfig.model_validate_json(text)
    try:
        gateway = parse({**config.spark_conf, **config.policy.enforced_conf})
    except InvalidSetting as invalid:
        raise ConfigError(str(invalid)) from None
    return Settings(
        config=config,
        folder=folder,
        gateway=gateway,
        config_hash=config_hash(text),
        token=_read_token(folder / TOKEN_FILE),
        tls=_read_tls(folder, pod),
        pod=pod,
        executor_template=_executor_template(folder / EXECUTOR_TEMPLATE_FILE, pod),
    )


def _executor_template(source: Path, pod: PodIdentity) -> Path | None:
    """The executors' pod template with this pod as their owner, so that they end with it.

    Spark would set the owner itself if it were told the driver's pod name, but then it first waits a second for that pod to
    be Ready (spark.kubernetes.allocation.driver.readinessTimeout), which it cannot be before Spark is.
    """
    if not source.is_file():
        return None
    if pod.name is None or pod.uid is None:
        return source
    template = json.loads(source.read_text(encoding="utf-8"))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    template.setdefault("metadata", {})["ownerReferences"] = [owner]
    owned = Path(tempfile.mkdtemp(prefix="sparksql-")) / EXECUTOR_TEMPLATE_FILE
    owned.write_text(json.dumps(template), encoding="utf-8")
    return owned


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
        raise ConfigError(f"{path}: no token, and the gateway answers nobody without one")
    return token


def _read_tls(folder: Path, pod: PodIdentity) -> ssl.SSLContext | None:
    certificate, key = folder / TLS_CERT_FILE, folder / TLS_KEY_FILE
    if not (certificate.is_file() and key.is_file()):
        if pod.ip is not None:
            raise ConfigError(f"{folder}: no {TLS_CERT_FILE} and {TLS_KEY_FILE}; in a pod the gateway speaks TLS only")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context
