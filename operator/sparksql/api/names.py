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
LABEL_WARM_POOL = f"{GROUP}/warm-pool"  # on drivers that no session has yet: the class whose pool they are in
ANNOTATION_POOL_KEY = f"{GROUP}/warm-pool-key"  # what such a driver was started with, as a hash
ANNOTATION_CONFIG_HASH = f"{GROUP}/config-hash"
ANNOTATION_WAKE = f"{GROUP}/wake"  # a new value wakes a session that hibernates, and counts as use of one that does not
LABEL_FRONT_USER = f"{GROUP}/front-user"  # on sessions that the front has made: a hash of the user they were made for
ANNOTATION_FRONT_USER = f"{GROUP}/front-user"  # and the user
ANNOTATION_TRIGGER = f"{GROUP}/savepoint-trigger"  # why the operator made a SqlSavepoint; one without it was asked for

DRIVER_APP_NAME = "spark-sql-session"
EXECUTOR_APP_NAME = "spark-sql-executor"
DRIVER_COMPONENT = "driver"
FRONT_APP_NAME = "spark-sql-front"
FRONT_COMPONENT = "front"
EXECUTOR_COMPONENT = "executor"
DRIVER_CLUSTER_ROLE = "spark-sql-driver"  # made by the chart; the only role the operator may bind

MAX_NAME_LENGTH = 50


def child_base(name: str, uid: str) -> str:
    """Stable name of a session's children: at most 59 characters, so that it is a DNS label and a label value."""
    return f"{name}-{hashlib.sha256(uid.encode()).hexdigest()[:8]}"


def driver_pod_name(name: str, uid: str, incarnation: int) -> str:
    """Returns the name of the driver pod of one incarnation of a session."""
    return f"{child_base(name, uid)}-{incarnation}"


def pool_member_name(class_name: str) -> str:
    """Returns the name that children of a driver in a class's pool begin with; their UID tells them apart."""
    return f"warm-{class_name}"[:MAX_NAME_LENGTH].rstrip("-.").replace(".", "-")


def state_secret_name(name: str, uid: str) -> str:
    """Name of the Secret with what a session that hibernates runs again at its wake."""
    return f"{child_base(name, uid)}-state"


def executor_secret_name(driver_pod: str) -> str:
    """Name of the Secret that the executors of one driver pod mount, and the only one that they may."""
    return f"{driver_pod}-executor"


def gateway_server_name(name: str, uid: str, namespace: str) -> str:
    """TLS server name of a session's gateway, the first SAN of its certificate."""
    return f"{child_base(name, uid)}.{namespace}.svc"


def dedicated_session_name(statement: str, uid: str) -> str:
    """Name of the session that a statement with `spec.session` owns: at most 50 characters, unique by the statement's UID."""
    return f"{statement[:41]}-{hashlib.sha256(uid.encode()).hexdigest()[:8]}"
