"""Exec plugins: what they are told, what they may answer, how long it holds, and what is said when one fails."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparksql.kube.credentials import Authenticator, Credentials
from sparksql.kube.exec_plugin import ExecCommand, ExecPlugin
from sparksql.kube.identity import CredentialsError, Identity

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Script:
    """A plugin of a test: a shell script that counts its runs, notes what it was told, and prints what `answers` says."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "plugin"
        self._runs, self._told, self._answer = folder / "runs", folder / "told", folder / "answer"
        self.path.write_text(
            f'#!/bin/sh\necho >>{self._runs}\nprintf %s "$KUBERNETES_EXEC_INFO" >{self._told}\n'
            f'printf " %s" "$@" "$EXTRA" >{folder / "arguments"}\ncat {self._answer}\n'
        )
        self.path.chmod(0o755)
        self.arguments = folder / "arguments"

    def answers(self, api_version: str = V1, **status: Any) -> None:
        self._answer.write_text(json.dumps({"apiVersion": api_version, "kind": "ExecCredential", "status": status}))

    def prints(self, text: str) -> None:
        self._answer.write_text(text)

    @property
    def runs(self) -> int:
        return len(self._runs.read_text().splitlines()) if self._runs.exists() else 0

    @property
    def told(self) -> dict[str, Any]:
        info: dict[str, Any] = json.loads(self._told.read_text())
        return info

    def plugin(self, now: datetime = NOW, **command: Any) -> ExecPlugin:
        return ExecPlugin(ExecCommand(**{"api_version": V1, "command": str(self.path), **command}), lambda: now)


@pytest.fixture
def script(tmp_path: Path) -> Script:
    made = Script(tmp_path)
    made.answers(token="t")
    return made


def kubeconfig(folder: Path, exec_: Mapping[str, Any], cluster: Mapping[str, Any] | None = None, **user: Any) -> Path:
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": {"exec": dict(exec_), **user}}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"token": "t"}, Identity("Bearer t")),
        ({"clientCertificateData": "C", "clientKeyData": "K"}, Identity(certificate=b"C", key=b"K")),
        (
            {"token": "t", "clientCertificateData": "C", "clientKeyData": "K"},
            Identity("Bearer t", certificate=b"C", key=b"K"),
        ),
        (
            {"token": "t", "expirationTimestamp": "2026-01-01T00:00:01Z"},
            Identity("Bearer t", expires=NOW + timedelta(seconds=1)),
        ),
    ],
)
@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_plugin_answer_is_the_identity(
    script: Script, version: str, status: dict[str, Any], expected: Identity
) -> None:
    script.answers(version, **status)
    assert script.plugin(api_version=version).login() == expected


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("", "answered no ExecCredential"),
        ("[]", "answered no ExecCredential"),
        (f'{{"kind": "ExecCredential", "apiVersion": "{V1BETA1}", "status": {{"token": "s3"}}}}', f"of {V1}$"),
        (f'{{"kind": "ExecCredential", "apiVersion": "{V1}"}}', "neither a token nor a client certificate"),
        (
            f'{{"kind": "ExecCredential", "apiVersion": "{V1}", "status": {{"clientKeyData": "s3"}}}}',
            "but not both",
        ),
        (
            f'{{"kind": "ExecCredential", "apiVersion": "{V1}", "status": {{"token": "s3", "expirationTimestamp": "x"}}}}',
            "answered no ExecCredential",
        ),
    ],
)
def test_plugin_answer_that_is_none_is_told_without_quoting_it(script: Script, printed: str, said: str) -> None:
    script.prints(printed)
    with pytest.raises(CredentialsError, match=said) as error:
        script.plugin().login()
    assert "s3" not in str(error.value)


def test_plugin_runs_again_when_its_answer_expires_or_is_refused(script: Script) -> None:
    now = [NOW]
    plugin = ExecPlugin(ExecCommand(V1, str(script.path)), lambda: now[0])
    script.answers(token="1", expirationTimestamp="2026-01-01T01:00:00Z")
    first = plugin.login()
    assert plugin.login() is first
    now[0] += timedelta(hours=1)
    assert plugin.known() is None
    script.answers(token="2")
    second = plugin.login()
    assert second == Identity("Bearer 2")
    now[0] += timedelta(days=30)
    assert plugin.login(refused=first) is second  # somebody else has logged in since
    assert script.runs == 2
    script.answers(token="3")
    assert plugin.login(refused=second) == Identity("Bearer 3")
    assert script.runs == 3


async def test_many_requests_at_once_run_a_plugin_once(script: Script, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"apiVersion": V1, "command": "./plugin"})
    authenticator = Authenticator(Credentials.from_kubeconfig(path))
    first = await asyncio.gather(*(authenticator.identity() for _ in range(5)))
    assert script.runs == 1
    script.answers(token="new")
    again = await asyncio.gather(*(authenticator.identity(refused=first[0]) for _ in range(5)))
    assert {each.authorization for each in again} == {"Bearer new"}
    assert script.runs == 2


def test_plugin_that_is_missing_is_told_with_its_hint(tmp_path: Path) -> None:
    plugin = ExecPlugin(ExecCommand(V1, "no-such-plugin", install_hint="Get it at example.org"))
    with pytest.raises(
        CredentialsError, match=r"no-such-plugin cannot be run: No such file.*\n\nGet it at example\.org"
    ):
        plugin.login()


def test_plugin_that_fails_is_told_with_its_exit_code(script: Script) -> None:
    script.path.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(CredentialsError, match="ended with 3"):
        script.plugin().login()


def test_plugin_that_hangs_is_ended(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparksql.kube.exec_plugin.RUN_SECONDS", 0.2)
    script.path.write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(CredentialsError, match=r"did not end in 0\.2 s"):
        script.plugin().login()


@pytest.mark.parametrize(
    ("mode", "terminal", "interactive"),
    [("Never", True, False), ("IfAvailable", True, True), ("IfAvailable", False, False), ("Always", True, True)],
)
def test_plugin_is_told_whether_it_may_ask_a_person(
    script: Script, monkeypatch: pytest.MonkeyPatch, mode: str, terminal: bool, interactive: bool
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(terminal))
    script.plugin(interactive_mode=mode).login()
    assert script.told == {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": interactive}}


def test_plugin_that_must_ask_a_person_is_not_run_without_one(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(False))
    with pytest.raises(CredentialsError, match="needs a terminal"):
        script.plugin(interactive_mode="Always").login()
    assert script.runs == 0


async def test_plugin_gets_arguments_environment_and_the_cluster(script: Script, tmp_path: Path) -> None:
    spec = {
        "apiVersion": V1BETA1,
        "command": "./plugin",
        "args": ["get", "token"],
        "env": [{"name": "EXTRA", "value": "x"}],
        "provideClusterInfo": True,
    }
    cluster = {
        "certificate-authority": "ca.crt",
        "tls-server-name": "inner",
        "proxy-url": "http://proxy:3128",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
    }
    (tmp_path / "ca.crt").write_text("CA")
    script.answers(V1BETA1, token="t")
    found = Credentials.from_kubeconfig(kubeconfig(tmp_path, spec, cluster))
    assert (await Authenticator(found).identity()).authorization == "Bearer t"
    assert script.arguments.read_text() == " get token x"
    assert script.told["spec"]["cluster"] == {
        "server": "https://api.example:6443",
        "tls-server-name": "inner",
        "certificate-authority-data": base64.b64encode(b"CA").decode(),
        "proxy-url": "http://proxy:3128",
        "config": {"audience": "a"},
    }


async def test_kubeconfig_values_go_before_those_of_a_plugin(script: Script, tmp_path: Path) -> None:
    pem = base64.b64encode(b"own").decode()
    script.answers(token="t", clientCertificateData="C", clientKeyData="K")
    spec = {"apiVersion": V1, "command": str(script.path)}
    own = {"client-certificate-data": pem, "client-key-data": pem}
    found = Credentials.from_kubeconfig(kubeconfig(tmp_path, spec, **own))
    assert await Authenticator(found).identity() == Identity("Bearer t", b"own", b"own")
    found = Credentials.from_kubeconfig(kubeconfig(tmp_path, spec, token="fixed"))
    assert await Authenticator(found).identity() == Identity("Bearer fixed")
    assert script.runs == 1


class Terminal:
    """Standard input as a plugin's decision sees it."""

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal
