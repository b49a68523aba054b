"""Who may open a connection to a session's pods. Ingress only: egress is storage, metastores and brokers, any of them.

The kubelet's probes come from the node itself, which network policies do not apply to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparksql.api import names
from sparksql.domain.session.effective import EffectiveSession
from sparksql.kube.builders.metadata import child, pod_selector
from sparksql.wire.driver import BLOCK_MANAGER_PORT, DRIVER_RPC_PORT, GATEWAY_PORT

OPERATOR_COMPONENT = "operator"


def operator_peer(namespace: str) -> dict[str, Any]:
    """The operator's pods: those in `namespace`, or in any namespace when it is empty (its own is not known)."""
    where = {"matchLabels": {"kubernetes.io/metadata.name": namespace}} if namespace else {}
    labels = {names.LABEL_NAME: names.MANAGED_BY, names.LABEL_COMPONENT: OPERATOR_COMPONENT}
    return {"namespaceSelector": where, "podSelector": {"matchLabels": labels}}


def network_policy(session: EffectiveSession, operator: Mapping[str, Any]) -> dict[str, Any]:
    """One policy for driver and executors: the gateway for `operator` and the class's clients, Spark's own ports for
    pods of the same session only. Executors' block managers listen on the port that the driver's does, see `conf`."""
    own_pods = {"podSelector": {"matchLabels": pod_selector(session)}}
    spec = {
        "podSelector": own_pods["podSelector"],
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": [dict(operator), *map(dict, session.network_clients)], "ports": _ports(GATEWAY_PORT)},
            {"from": [own_pods], "ports": _ports(DRIVER_RPC_PORT, BLOCK_MANAGER_PORT)},
        ],
    }
    return child(session, "networking.k8s.io/v1", "NetworkPolicy", spec=spec)


def _ports(*ports: int) -> list[dict[str, Any]]:
    return [{"protocol": "TCP", "port": port} for port in ports]
