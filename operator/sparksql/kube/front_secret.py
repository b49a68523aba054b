"""The front's Secret, which the operator makes once beside itself: the key that tokens of drivers follow from, and a certificate.

The certificate is self-signed, for a front whose chart names none of one's own. Nothing in it is ever changed: drivers that run
know the tokens that follow from the key. Who deletes the Secret gives the front a new key with the operator's next start, and
drivers that were made before it are the front's again once they have been restarted.
"""

from __future__ import annotations

import base64
import secrets
from datetime import datetime
from typing import Any

from sparksql.api import names
from sparksql.kube.client import KubeClient
from sparksql.kube.errors import AlreadyExists, NotFound
from sparksql.kube.resources import SECRETS
from sparksql.kube.tls import self_signed
from sparksql.wire.front import KEY_BYTES

KEY_FILE = "key"
CERTIFICATE_FILE = "tls.crt"
CERTIFICATE_KEY_FILE = "tls.key"


class FrontSecretError(Exception):
    """The Secret of the front's name is not what the operator would have made; the message says what is wrong."""


async def front_key(client: KubeClient, namespace: str, name: str, now: datetime) -> bytes:
    """Returns the front's key, from its Secret, which is made if it is not there. Raises FrontSecretError, ApiError.

    `name` is that of the front's Service as well.
    """
    try:
        found = await client.get(SECRETS, namespace, name)
    except NotFound:
        try:
            found = await client.create(SECRETS, namespace, _secret(namespace, name, now))
        except AlreadyExists:
            found = await client.get(SECRETS, namespace, name)
    key = base64.b64decode((found.get("data") or {}).get(KEY_FILE, ""))
    if len(key) < KEY_BYTES:
        raise FrontSecretError(
            f"Secret {namespace}/{name} has no {KEY_FILE} of {KEY_BYTES} bytes; delete it, and the operator makes another one"
        )
    return key


def _secret(namespace: str, name: str, now: datetime) -> dict[str, Any]:
    host = f"{name}.{namespace}.svc"
    certificate, certificate_key = self_signed((host, f"{host}.cluster.local", name, "localhost"), now)
    files = {
        KEY_FILE: secrets.token_bytes(KEY_BYTES),
        CERTIFICATE_FILE: certificate.encode(),
        CERTIFICATE_KEY_FILE: certificate_key.encode(),
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {
                names.LABEL_NAME: names.FRONT_APP_NAME,
                names.LABEL_COMPONENT: names.FRONT_COMPONENT,
                names.LABEL_MANAGED_BY: names.MANAGED_BY,
            },
        },
        "type": "Opaque",
        "data": {file: base64.b64encode(content).decode() for file, content in files.items()},
    }
