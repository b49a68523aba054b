"""Where credentials come from, and what is refused in plain words."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparksql.kube.credentials import Credentials, CredentialsError


def kubeconfig(folder: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> Path:
    path = folder / "config"
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def test_inline_data_of_a_kubeconfig_is_decoded(tmp_path: Path) -> None:
    encoded = base64.b64encode(b"PEM").decode()
    user = {"client-certificate-data": encoded, "client-key-data": encoded}
    found = Credentials.from_kubeconfig(kubeconfig(tmp_path, user, {"certificate-authority-data": encoded}))
    assert (found.ca_data, found.client_cert_data, found.client_key_data) == (b"PEM",) * 3
    assert (found.server, found.namespace, found.insecure) == ("https://api.example:6443", "team-a", False)


def test_files_are_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    user = {"client-certificate": "u.crt", "client-key": "/abs/u.key", "tokenFile": "token"}
    found = Credentials.from_kubeconfig(kubeconfig(tmp_path, user, {"certificate-authority": "ca.crt"}))
    assert found.ca_path == tmp_path / "ca.crt"
    assert found.client_cert_path == tmp_path / "u.crt"
    assert found.client_key_path == Path("/abs/u.key")
    assert found.token_path == tmp_path / "token"


def test_a_token_and_an_insecure_server(tmp_path: Path) -> None:
    found = Credentials.from_kubeconfig(kubeconfig(tmp_path, {"token": "t"}, {"insecure-skip-tls-verify": True}))
    assert (found.token, found.token_path, found.insecure) == ("t", None, True)


@pytest.mark.parametrize("user", [{"exec": {"command": "aws"}}, {"auth-provider": {"name": "x"}}, {"username": "u"}])
def test_kubeconfig_user_with_an_unsupported_login_is_refused_by_name(tmp_path: Path, user: dict[str, Any]) -> None:
    with pytest.raises(CredentialsError, match=rf"user u: {next(iter(user))} is not supported"):
        Credentials.from_kubeconfig(kubeconfig(tmp_path, user))


def test_an_unknown_context_and_an_absent_file(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="no context 'there'"):
        Credentials.from_kubeconfig(kubeconfig(tmp_path, {}), context="there")
    with pytest.raises(CredentialsError, match="cannot be read"):
        Credentials.from_kubeconfig(tmp_path / "absent")


def test_credentials_in_a_cluster_are_read_from_the_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "token").write_text("t")
    (tmp_path / "namespace").write_text("system\n")
    found = Credentials.from_in_cluster(tmp_path)
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "system")
    assert (found.ca_path, found.token_path) == (tmp_path / "ca.crt", tmp_path / "token")


def test_credentials_outside_a_cluster_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(CredentialsError, match="not in a pod"):
        Credentials.from_in_cluster(tmp_path)
