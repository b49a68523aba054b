"""The stable children of a session: the Secret that its driver reads and the Service that names it."""

from __future__ import annotations

import base64
from typing import Any

from sparksql.api import names
from sparksql.domain.session.effective_session import EffectiveSession
from sparksql.kube.builders.metadata import SessionIdentity, child, labels, owned, pod_selector
from sparksql.kube.builders.network import driver_ports
from sparksql.wire import driver as wire
from sparksql.wire.front import FRONT_TOKEN_FILE

STATE_FILE = "session-state.json"  # a `sparksql.wire.control.SessionState`


def secret(
    session: EffectiveSession,
    *,
    token: str,
    cert_pem: str,
    key_pem: str,
    config_json: str,
    executor_template_json: str,
    front_token: str | None = None,
) -> dict[str, Any]:
    """The Secret whose files a driver finds at `/etc/sparksql`, see `sparksql.wire.driver`: all that it is given at its start."""
    files = {
        wire.TOKEN_FILE: token,
        wire.TLS_CERT_FILE: cert_pem,
        wire.TLS_KEY_FILE: key_pem,
        wire.CONFIG_FILE: config_json,
        wire.EXECUTOR_TEMPLATE_FILE: executor_template_json,
    }
    if front_token is not None:
        files[FRONT_TOKEN_FILE] = front_token
    data = {file: base64.b64encode(content.encode()).decode() for file, content in files.items()}
    return child(session, "v1", "Secret", type="Opaque", data=data)


def executor_secret(session: EffectiveSession, incarnation: int, secret: bytes) -> dict[str, Any]:
    """Returns the Secret that driver and executors of one incarnation know, and nobody else.

    The session owns it until the driver's pod is there.
    """
    name = names.executor_secret_name(names.driver_pod_name(session.name, session.uid, incarnation))
    own_labels = labels(session, names.DRIVER_APP_NAME, names.DRIVER_COMPONENT)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": owned(session, name, {**own_labels, names.LABEL_INCARNATION: str(incarnation)}),
        "type": "Opaque",
        "immutable": True,
        "data": {wire.EXECUTOR_SECRET_FILE: base64.b64encode(secret).decode()},
    }


def state_secret(session: SessionIdentity, incarnation: int, state: str) -> dict[str, Any]:
    """Returns the Secret with what the session's driver `incarnation` has left for the next one."""
    own_labels = labels(session, names.DRIVER_APP_NAME, names.DRIVER_COMPONENT)
    name = names.state_secret_name(session.name, session.uid)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": owned(session, name, {**own_labels, names.LABEL_INCARNATION: str(incarnation)}),
        "type": "Opaque",
        "data": {STATE_FILE: base64.b64encode(state.encode()).decode()},
    }


def service(session: EffectiveSession, incarnation: int) -> dict[str, Any]:
    """The headless Service of the driver's `incarnation`: one before it may still be there, on a node that does not answer.

    Addresses are published before readiness: executors come before it.
    """
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {
            **pod_selector(session.pods_uid, names.DRIVER_COMPONENT),
            names.LABEL_INCARNATION: str(incarnation),
        },
        "ports": [
            {"name": name, "port": port, "targetPort": port, "protocol": "TCP"}
            for name, port in driver_ports(session).items()
        ],
    }
    return child(session, "v1", "Service", spec=spec)
