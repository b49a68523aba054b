"""Exec plugins of a kubeconfig: a program that logs in and prints a token, a client certificate, or both.

The protocol is `client.authentication.k8s.io`, v1 and v1beta1: https://kubernetes.io/docs/reference/config-api/client-authentication.v1/
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sparksql.kube.identity import CredentialsError, Identity

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
RUN_SECONDS = 60.0  # without a person to wait for

InteractiveMode = Literal["Never", "IfAvailable", "Always"]


@dataclass(frozen=True)
class ExecCommand:
    """Describes the plugin to run.

    `cluster` is told to the plugin if it is not None; `install_hint` to the user when `command` is missing.
    """

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    interactive_mode: InteractiveMode = "IfAvailable"
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None


class ExecPlugin:
    """Runs a plugin when its last answer has expired or was refused. May be used by several threads."""

    def __init__(self, command: ExecCommand, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._command = command
        self._now = now
        self._lock = threading.Lock()
        self._last: Identity | None = None

    def known(self) -> Identity | None:
        """The last answer while it holds, None when the plugin must run."""
        last = self._last
        return last if last is not None and (last.expires is None or self._now() < last.expires) else None

    def login(self, refused: Identity | None = None) -> Identity:
        """The last answer if it holds and is not the one that was `refused`, else a new one. Blocks while the plugin runs.

        Raises CredentialsError when it cannot be run, fails, or answers something else.
        """
        with self._lock:
            known = self.known()
            if known is None or known is refused:
                known = self._last = self._run()
            return known

    def _run(self) -> Identity:
        command = self._command
        interactive = _is_interactive(command)
        info = {"apiVersion": command.api_version, "kind": "ExecCredential", "spec": {"interactive": interactive}}
        if command.cluster is not None:
            info["spec"] = {"interactive": interactive, "cluster": dict(command.cluster)}
        try:
            done = subprocess.run(  # noqa: S603 - the kubeconfig names it, as it does for kubectl
                [command.command, *command.args],
                env={**os.environ, **(command.env or {}), "KUBERNETES_EXEC_INFO": json.dumps(info)},
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                check=False,
                timeout=None if interactive else RUN_SECONDS,
            )
        except OSError as error:
            hint = f"\n\n{command.install_hint}" if command.install_hint else ""
            raise CredentialsError(f"exec plugin {command.command} cannot be run: {error.strerror}{hint}") from error
        except subprocess.TimeoutExpired as error:
            raise CredentialsError(f"exec plugin {command.command} did not end in {RUN_SECONDS:g} s") from error
        if done.returncode != 0:
            raise CredentialsError(f"exec plugin {command.command} ended with {done.returncode}")
        return _identity(command, done.stdout)


def _is_interactive(command: ExecCommand) -> bool:
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    match command.interactive_mode:
        case "Never":
            return False
        case "IfAvailable":
            return is_terminal
        case "Always":
            if not is_terminal:
                raise CredentialsError(f"exec plugin {command.command} needs a terminal, and standard input is none")
            return True


def _identity(command: ExecCommand, output: bytes) -> Identity:
    """The identity that a plugin's output gives. Messages never quote it: it holds secrets."""
    try:
        answer = json.loads(output)
        if (answer["kind"], answer["apiVersion"]) != ("ExecCredential", command.api_version):
            raise CredentialsError(f"exec plugin {command.command} answered no ExecCredential of {command.api_version}")
        status = answer.get("status") or {}
        token, certificate, key = (
            status.get(field) or None for field in ("token", "clientCertificateData", "clientKeyData")
        )
        stamp = status.get("expirationTimestamp")
        expires = datetime.fromisoformat(stamp).astimezone(UTC) if stamp else None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CredentialsError(f"exec plugin {command.command} answered no ExecCredential") from error
    if (certificate is None) != (key is None):
        raise CredentialsError(f"exec plugin {command.command} gave a client certificate or its key, but not both")
    if token is None and certificate is None:
        raise CredentialsError(f"exec plugin {command.command} gave neither a token nor a client certificate")
    return Identity(
        authorization=f"Bearer {token}" if token else None,
        certificate=certificate.encode() if certificate else None,
        key=key.encode() if key else None,
        expires=expires,
    )
