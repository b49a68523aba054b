"""The service account of drivers and executors in a namespace, and its one role.

Both are shared by the sessions of the namespace and outlive them: none of them owns these.
"""

from __future__ import annotations

from typing import Any

from sparksql.api import names

_LABELS = {names.LABEL_NAME: names.DRIVER_APP_NAME, names.LABEL_MANAGED_BY: names.MANAGED_BY}


def service_account(namespace: str, name: str) -> dict[str, Any]:
    """The account; pods say for themselves whether they get its token: drivers do, executors do not."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(_LABELS)},
        "automountServiceAccountToken": False,
    }


def role_binding(namespace: str, account: str) -> dict[str, Any]:
    """Binds the account to the one driver role of the chart, within its own namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": f"{names.DRIVER_CLUSTER_ROLE}-{account}",
            "namespace": namespace,
            "labels": dict(_LABELS),
        },
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": names.DRIVER_CLUSTER_ROLE,
        },
    }
