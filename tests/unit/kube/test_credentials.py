"""Where credentials come from, and what is refused in plain words."""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparksql.kube.credentials import Authenticator, Credentials
from sparksql.kube.identity import CredentialsError, Identity

SERVER = "https://api.example:6443"
PEM = base64.b64encode(b"PEM").decode()


def kubeconfig(
    folder: Path, user: Mapping[str, Any], cluster: Mapping[str, Any] | None = None, file: str = "config"
) -> Path:
    path = folder / file
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"{SERVER}/", **(cluster or {})}}],
        "users": [{"name": "u", "user": dict(user)}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize(
    ("user", "cluster", "expected"),
    [
        ({}, {}, Credentials(SERVER)),
        ({"token": "t"}, {}, Credentials(SERVER, fixed=Identity("Bearer t"))),
        ({"username": "u", "password": "p"}, {}, Credentials(SERVER, fixed=Identity("Basic dTpw"))),
        ({"tokenFile": "token"}, {}, Credentials(SERVER, token_path=Path("token"))),
        (
            {"token": "t", "tokenFile": "token"},
            {},
            Credentials(SERVER, fixed=Identity("Bearer t"), token_path=Path("token")),
        ),
        ({}, {"certificate-authority-data": PEM}, Credentials(SERVER, ca=b"PEM")),
        ({}, {"certificate-authority": "ca.crt"}, Credentials(SERVER, ca=b"file ca")),
        (
            {},
            {"certificate-authority": "ca.crt", "certificate-authority-data": PEM},
            Credentials(SERVER, ca=b"PEM"),
        ),
        (
            {"client-certificate-data": PEM, "client-key-data": PEM},
            {},
            Credentials(SERVER, fixed=Identity(certificate=b"PEM", key=b"PEM")),
        ),
        (
            {"client-certificate": "u.crt", "client-key": "u.key"},
            {},
            Credentials(SERVER, fixed=Identity(certificate=b"file crt", key=b"file key")),
        ),
        ({}, {"insecure-skip-tls-verify": True}, Credentials(SERVER, insecure=True)),
        ({}, {"tls-server-name": "inner"}, Credentials(SERVER, tls_server_name="inner")),
        ({}, {"proxy-url": "http://proxy:3128"}, Credentials(SERVER, proxy_url="http://proxy:3128")),
    ],
    ids=lambda value: "+".join(value) or "none" if isinstance(value, dict) else "",
)
def test_kubeconfig_fields_are_taken(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], expected: Credentials
) -> None:
    for file in ("ca.crt", "u.crt", "u.key"):
        (tmp_path / file).write_text(f"file {file.split('.')[-1] if file != 'ca.crt' else 'ca'}")
    found = Credentials.from_kubeconfig(kubeconfig(tmp_path, user, cluster))
    path = tmp_path / expected.token_path if expected.token_path else None
    assert found == replace(expected, token_path=path, namespace="team-a")


def test_kubeconfig_path_that_is_absolute_stays(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "ca.crt").write_text("CA")
    cluster = {"certificate-authority": str(elsewhere / "ca.crt")}
    assert Credentials.from_kubeconfig(kubeconfig(tmp_path, {}, cluster)).ca == b"CA"


@pytest.mark.parametrize(
    ("user", "cluster", "said"),
    [
        ({"auth-provider": {"name": "x"}}, {}, "user u: auth-provider is not supported"),
        ({"as": "somebody", "as-groups": ["g"]}, {}, "user u: as, as-groups is not supported"),
        ({"from-tomorrow": {"a": 1}}, {}, "user u: from-tomorrow is not supported"),
        ({}, {"tunnel": "t"}, "cluster c: tunnel is not supported"),
        ({"client-certificate": "absent"}, {}, "client-certificate of u cannot be read"),
        ({}, {"certificate-authority-data": "abc"}, "certificate-authority of c cannot be read"),
        ({}, {"server": ""}, "cluster c has no server"),
        ({}, {"proxy-url": "socks5://p:1080"}, "proxy-url is not supported: socks5"),
        ({"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}, {}, "exec has apiVersion"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}, {}, "exec has no command"),
        (
            {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Maybe"}},
            {},
            "exec has interactiveMode Maybe",
        ),
    ],
)
def test_kubeconfig_with_what_is_not_supported_is_refused_by_name(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], said: str
) -> None:
    with pytest.raises(CredentialsError, match=said):
        Credentials.from_kubeconfig(kubeconfig(tmp_path, user, cluster))


def test_unknown_context_and_unreadable_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="no context 'there'"):
        Credentials.from_kubeconfig(kubeconfig(tmp_path, {}), context="there")
    with pytest.raises(CredentialsError, match="cannot be read"):
        Credentials.from_kubeconfig(tmp_path / "absent")
    (tmp_path / "list").write_text("[]")
    with pytest.raises(CredentialsError, match="it is no map"):
        Credentials.from_kubeconfig(tmp_path / "list")


def test_several_kubeconfigs_merge_and_the_first_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (one / "config").write_text(yaml.safe_dump({"users": [{"name": "u", "user": {"tokenFile": "token"}}]}))
    kubeconfig(two, {"token": "of the second"}, {"certificate-authority": "ca.crt"})
    (two / "ca.crt").write_text("CA")
    last = {"current-context": "there", "contexts": [{"name": "there", "context": {"cluster": "c", "user": "u"}}]}
    (tmp_path / "last").write_text(yaml.safe_dump(last))
    paths = [one / "config", tmp_path / "absent", two / "config", tmp_path / "last"]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(["", *map(str, paths)]))
    found = Credentials.from_kubeconfig()
    assert (found.namespace, found.ca, found.token_path) == ("team-a", b"CA", one / "token")
    assert found.fixed == Identity()
    assert Credentials.from_kubeconfig(context="there").namespace == "default"


def test_home_has_the_kubeconfig_when_the_environment_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube", {"token": "t"})
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert Credentials.from_kubeconfig().fixed.authorization == "Bearer t"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(CredentialsError, match="absent cannot be read"):
        Credentials.from_kubeconfig()


async def test_token_file_goes_before_a_token_while_it_can_be_read(tmp_path: Path) -> None:
    now = [0.0]
    found = Credentials.from_kubeconfig(kubeconfig(tmp_path, {"token": "fixed", "tokenFile": "token"}))
    authenticator = Authenticator(found, clock=lambda: now[0])
    assert (await authenticator.identity()).authorization == "Bearer fixed"
    (tmp_path / "token").write_text("read\n")
    now[0] = 60.0
    assert (await authenticator.identity()).authorization == "Bearer read"


async def test_token_file_that_is_missing_is_told(tmp_path: Path) -> None:
    found = Credentials.from_kubeconfig(kubeconfig(tmp_path, {"tokenFile": "token"}))
    with pytest.raises(CredentialsError, match=r"token file .*/token cannot be read"):
        await Authenticator(found).identity()


def test_tls_of_the_client_is_as_the_kubeconfig_says() -> None:
    assert Credentials("http://api").ssl_context(Identity()) is None
    checked = Credentials(SERVER).ssl_context(Identity())
    unchecked = Credentials(SERVER, insecure=True).ssl_context(Identity())
    assert checked is not None
    assert unchecked is not None
    assert (checked.verify_mode, checked.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (unchecked.verify_mode, unchecked.check_hostname) == (ssl.CERT_NONE, False)
    named = Credentials(SERVER, tls_server_name="inner").ssl_context(Identity())
    assert named is not None
    made = named.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="outer")
    assert made.server_hostname == "inner"


def test_credentials_in_a_cluster_are_read_from_the_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "token").write_text("t")
    (tmp_path / "namespace").write_text("system\n")
    with pytest.raises(CredentialsError, match=r"ca\.crt cannot be read"):
        Credentials.from_in_cluster(tmp_path)
    (tmp_path / "ca.crt").write_text("CA")
    found = Credentials.from_in_cluster(tmp_path)
    assert (found.server, found.namespace, found.pod_namespace) == ("https://[fd00::1]:443", "system", "system")
    assert (found.ca, found.token_path) == (b"CA", tmp_path / "token")


def test_credentials_outside_a_cluster_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(CredentialsError, match="not in a pod"):
        Credentials.from_in_cluster(tmp_path)
