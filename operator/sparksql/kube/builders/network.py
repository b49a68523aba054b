"""Who may open a connection to a session's pods. Ingress only: egress is storage, metastores and brokers, any of them.

The kubelet's probes come from the node itself, which network policies do not apply to.
"""

from __future__ import annotations

from typing import Any

from sparksql.api import names
from sparksql.domain.session.effective_session import EffectiveSession
from sparksql.kube.builders.metadata import child, pod_selector
from sparksql.wire.driver import BLOCK_MANAGER_PORT, CONNECT_PORT, DRIVER_RPC_PORT, GATEWAY_PORT, THRIFT_PORT

OPERATOR_COMPONENT = "operator"


def operator_peer(namespace: str) -> dict[str, Any]:
    """The operator's pods, in its own `namespace`: anybody may give a pod the operator's labels elsewhere."""
    return _peer(namespace, {names.LABEL_NAME: names.MANAGED_BY, names.LABEL_COMPONENT: OPERATOR_COMPONENT})


def front_peer(namespace: str) -> dict[str, Any]:
    """The front's pods, which run beside the operator."""
    return _peer(namespace, {names.LABEL_NAME: names.FRONT_APP_NAME, names.LABEL_COMPONENT: names.FRONT_COMPONENT})


def _peer(namespace: str, labels: dict[str, str]) -> dict[str, Any]:
    if not namespace:
        raise ValueError("the operator's namespace is empty: such a peer would be pods of every namespace")
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {"matchLabels": labels},
    }


def network_policy(session: EffectiveSession, operator_namespace: str | None, *, front: bool = False) -> dict[str, Any]:
    """Returns the policy of the session's pods, one for driver and executors.

    It admits the operator to the gateway, the class's clients and the front, if there is one, to the endpoints that are on, and
    pods of the same session only to Spark's own ports. Executors' block managers listen on the port that the driver's does, see
    `conf`. An operator that runs in no pod has no namespace, and no pod is let in as if it were the operator.
    """
    own_pods = {"podSelector": {"matchLabels": pod_selector(session.pods_uid)}}
    ingress: list[dict[str, Any]] = []
    if operator_namespace is not None:
        ingress.append({"from": [operator_peer(operator_namespace)], "ports": _ports(GATEWAY_PORT)})
    ingress.append({"from": [own_pods], "ports": _ports(DRIVER_RPC_PORT, BLOCK_MANAGER_PORT)})
    endpoints = client_ports(session)
    if endpoints and front and operator_namespace is not None:
        ingress.append({"from": [front_peer(operator_namespace)], "ports": _ports(*endpoints.values())})
    if endpoints and session.network_clients and not session.front_only:  # a rule without peers would let everybody in
        ingress.append({"from": [*map(dict, session.network_clients)], "ports": _ports(*endpoints.values())})
    spec = {"podSelector": own_pods["podSelector"], "policyTypes": ["Ingress"], "ingress": ingress}
    return child(session, "networking.k8s.io/v1", "NetworkPolicy", spec=spec)


def client_ports(session: EffectiveSession) -> dict[str, int]:
    """Ports by which clients reach the endpoints that are on, by name."""
    on = session.endpoints
    wanted = (
        ("https", GATEWAY_PORT, on.rest),
        ("connect", CONNECT_PORT, on.connect),
        ("thrift", THRIFT_PORT, on.thrift),
    )
    further = {frontend.name: frontend.port for frontend in on.frontends}
    return {**{name: port for name, port, is_on in wanted if is_on}, **further}


def driver_ports(session: EffectiveSession) -> dict[str, int]:
    """All ports of a driver by name: the gateway's, which the operator always needs, the endpoints', and Spark's own."""
    own = {"driver-rpc": DRIVER_RPC_PORT, "blockmanager": BLOCK_MANAGER_PORT}
    return {"https": GATEWAY_PORT, **client_ports(session), **own}


def _ports(*ports: int) -> list[dict[str, Any]]:
    return [{"protocol": "TCP", "port": port} for port in ports]
