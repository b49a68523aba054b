"""Manifests of a session's Secret, Service, network policy and account: what is ours always holds."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from sparksql.domain.session.effective_session import EffectiveSession
from sparksql.kube import builders
from sparksql.wire.driver import FrontendPort, OpenEndpoints
from tests.unit.kube.effective_sessions import BASE, FULL, OWNER, PLAIN, container, driver


def build_secret(session: EffectiveSession) -> dict[str, Any]:
    return builders.secret(
        session, token="t", cert_pem="CERT", key_pem="KEY", config_json="{}", executor_template_json='{"kind": "Pod"}'
    )


@pytest.mark.parametrize("session", [PLAIN, FULL])
def test_stable_children_are_named_from_the_session_and_owned_by_it(session: EffectiveSession) -> None:
    for child in (build_secret(session), builders.service(session, 3), builders.network_policy(session, "system")):
        assert child["metadata"]["name"] == BASE
        assert child["metadata"]["namespace"] == "team-a"
        assert child["metadata"]["ownerReferences"] == [OWNER]
        assert child["metadata"]["labels"] == {
            "app.kubernetes.io/name": "spark-sql-session",
            "app.kubernetes.io/component": "driver",
            "app.kubernetes.io/managed-by": "spark-sql-operator",
            "sparksql.dev/session": "analytics",
            "sparksql.dev/session-uid": session.uid,
        }


def test_secret_holds_the_files_of_the_driver() -> None:
    data = {name: base64.b64decode(value).decode() for name, value in build_secret(PLAIN)["data"].items()}
    assert data == {
        "token": "t",
        "tls.crt": "CERT",
        "tls.key": "KEY",
        "config.json": "{}",
        "executor.json": '{"kind": "Pod"}',
    }


OWN_PORTS = {"driver-rpc": 7078, "blockmanager": 7079}
ENDPOINTS = [
    (OpenEndpoints(), {"https": 8443}),
    (OpenEndpoints(connect=True), {"https": 8443, "connect": 15002}),
    (OpenEndpoints(rest=False, thrift=True), {"thrift": 10000}),
    (OpenEndpoints(rest=False), {}),
    (OpenEndpoints(rest=False, frontends=(FrontendPort(name="lines", port=7777),)), {"lines": 7777}),
]


def test_service_is_headless_and_selects_this_sessions_driver_before_it_is_ready() -> None:
    spec = builders.service(PLAIN, 3)["spec"]
    assert {key: value for key, value in spec.items() if key != "ports"} == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {
            "sparksql.dev/session-uid": PLAIN.uid,
            "app.kubernetes.io/component": "driver",
            "sparksql.dev/incarnation": "3",
        },
    }
    assert spec["ports"][0] == {"name": "https", "port": 8443, "targetPort": 8443, "protocol": "TCP"}


@pytest.mark.parametrize(("endpoints", "client_ports"), ENDPOINTS)
def test_service_and_pod_have_the_ports_of_what_is_on(endpoints: OpenEndpoints, client_ports: dict[str, int]) -> None:
    session = replace(PLAIN, endpoints=endpoints)
    ports = {"https": 8443, **client_ports, **OWN_PORTS}  # the operator's port is there whatever clients may use
    assert {port["name"]: port["port"] for port in builders.service(session, 3)["spec"]["ports"]} == ports
    assert {port["name"]: port["containerPort"] for port in container(driver(session))["ports"]} == ports


def test_network_policy_of_a_session_admits_its_pods_operator_and_clients() -> None:
    own_pods = {"matchLabels": {"sparksql.dev/session-uid": FULL.uid}}
    operator = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "system"}},
        "podSelector": {
            "matchLabels": {
                "app.kubernetes.io/name": "spark-sql-operator",
                "app.kubernetes.io/component": "operator",
            }
        },
    }
    assert builders.network_policy(FULL, "system")["spec"] == {
        "podSelector": own_pods,
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": [operator], "ports": [{"protocol": "TCP", "port": 8443}]},
            {
                "from": [{"podSelector": own_pods}],
                "ports": [{"protocol": "TCP", "port": 7078}, {"protocol": "TCP", "port": 7079}],
            },
            {"from": [*FULL.network_clients], "ports": [{"protocol": "TCP", "port": 8443}]},
        ],
    }


@pytest.mark.parametrize("session", [PLAIN, FULL])
def test_network_policy_admits_no_operator_pod_if_the_operator_runs_in_no_pod(session: EffectiveSession) -> None:
    rules = builders.network_policy(session, None)["spec"]["ingress"]
    assert rules == builders.network_policy(session, "system")["spec"]["ingress"][1:]
    assert all("namespaceSelector" not in peer for rule in rules for peer in rule["from"])


def test_an_operators_peer_without_a_namespace_is_no_peer() -> None:
    with pytest.raises(ValueError, match="namespace is empty"):
        builders.operator_peer("")


@pytest.mark.parametrize("peers", [FULL.network_clients, ()])
@pytest.mark.parametrize(("endpoints", "client_ports"), ENDPOINTS)
def test_clients_of_the_class_reach_what_is_on_and_nothing_else(
    endpoints: OpenEndpoints, client_ports: dict[str, int], peers: tuple[dict[str, Any], ...]
) -> None:
    session = replace(FULL, endpoints=endpoints, network_clients=peers)
    operator = builders.operator_peer("system")
    ingress = builders.network_policy(session, "system")["spec"]["ingress"]
    assert all(rule["from"] for rule in ingress), "a rule without peers lets everybody in"
    reachable = {port["port"] for rule in ingress for port in rule["ports"] if rule["from"] == [*peers]}
    assert reachable == (set(client_ports.values()) if peers else set())
    assert [rule["ports"] for rule in ingress if operator in rule["from"]] == [[{"protocol": "TCP", "port": 8443}]]


def test_the_networks_labels_are_on_driver_and_executors() -> None:
    for pod in (driver(FULL), builders.executor_template(FULL, 3)):
        assert pod["metadata"]["labels"]["sparksql.dev/session-uid"] == FULL.uid


def test_service_account_and_binding_belong_to_nobody_and_bind_the_one_role() -> None:
    account, binding = builders.service_account("team-a", "spark"), builders.role_binding("team-a", "spark")
    assert account["automountServiceAccountToken"] is False
    assert "ownerReferences" not in account["metadata"] | binding["metadata"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "spark", "namespace": "team-a"}]
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "spark-sql-driver",
    }


def test_the_front_is_let_in_beside_other_clients_or_alone() -> None:
    endpoints = OpenEndpoints(rest=True, thrift=True)
    peer = {"podSelector": {"matchLabels": {"team": "bi"}}}
    session = replace(FULL, endpoints=endpoints, network_clients=(peer,))
    ports = [{"protocol": "TCP", "port": 8443}, {"protocol": "TCP", "port": 10000}]
    labels = {"app.kubernetes.io/name": "spark-sql-front", "app.kubernetes.io/component": "front"}
    of_front = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "system"}},
        "podSelector": {"matchLabels": labels},
    }

    def ingress(session: EffectiveSession, *, front: bool) -> list[Any]:
        rules: list[Any] = builders.network_policy(session, "system", front=front)["spec"]["ingress"][2:]
        return rules

    others = {"from": [peer], "ports": ports}
    by_front = {"from": [of_front], "ports": ports}
    assert ingress(session, front=False) == [others]
    assert ingress(session, front=True) == [by_front, others]
    assert ingress(replace(session, front_only=True), front=True) == [by_front]
    assert ingress(replace(session, front_only=True), front=False) == []
    assert ingress(replace(session, endpoints=OpenEndpoints(rest=False)), front=True) == []


def test_the_secret_of_a_session_has_a_token_for_the_front_where_there_is_one() -> None:
    files = {"token": "t", "cert_pem": "c", "key_pem": "k", "config_json": "{}", "executor_template_json": "{}"}
    assert "front-token" not in builders.secret(FULL, **files)["data"]
    with_front = builders.secret(FULL, **files, front_token="f")["data"]
    assert base64.b64decode(with_front["front-token"]) == b"f"
