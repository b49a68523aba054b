"""Names that are part of the contract: group, labels, annotations, finalizer, and names of children."""

from __future__ import annotations

import hashlib

GROUP = "sparksql.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
CATEGORY = "sparksql"

FINALIZER = f"{GROUP}/cleanup"
DEFAULT_CLASS_ANNOTATION = f"{GROUP}/is-default-class"

LABEL_NAME = "app.kubernetes.io/name"
LABEL_COMPONENT = "app.kubernetes.io/component"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY = "spark-sql-operator"
LABEL_SESSION = f"{GROUP}/session"
LABEL_SESSION_UID = f"{GROUP}/session-uid"
LABEL_INCARNATION = f"{GROUP}/incarnation"
ANNOTATION_CONFIG_HASH = f"{GROUP}/config-hash"
ANNOTATION_TRIGGER = f"{GROUP}/savepoint-trigger"  # why the operator made a SqlSavepoint; one without it was asked for

DRIVER_APP_NAME = "spark-sql-session"
EXECUTOR_APP_NAME = "spark-sql-executor"
DRIVER_COMPONENT = "driver"
EXECUTOR_COMPONENT = "executor"
DRIVER_CLUSTER_ROLE = "spark-sql-driver"  # made by the chart; the only role the operator may bind

MAX_NAME_LENGTH = 50


def child_base(name: str, uid: str) -> str:
    """Stable name of a session's children: at most 59 characters, so that it is a DNS label and a label value."""
    return f"{name}-{hashlib.sha256(uid.encode()).hexdigest()[:8]}"


def driver_pod_name(name: str, uid: str, incarnation: int) -> str:
    """Returns the name of the driver pod of one incarnation of a session."""
    return f"{child_base(name, uid)}-{incarnation}"


def executor_secret_name(driver_pod: str) -> str:
    """Name of the Secret that the executors of one driver pod mount, and the only one that they may."""
    return f"{driver_pod}-executor"


def gateway_server_name(name: str, uid: str, namespace: str) -> str:
    """TLS server name of a session's gateway, the first SAN of its certificate."""
    return f"{child_base(name, uid)}.{namespace}.svc"


def dedicated_session_name(statement: str, uid: str) -> str:
    """Name of the session that a statement with `spec.session` owns: at most 50 characters, unique by the statement's UID."""
    return f"{statement[:41]}-{hashlib.sha256(uid.encode()).hexdigest()[:8]}"
