"""Whether a driver that was started ahead of need is what a session asks for. Pure.

What Spark and Kubernetes fix at the start of a driver is the pool's key: pods, image, account, sizes, storage, and all settings
but those of Spark SQL that can be changed while it runs. The rest is set when the driver is bound.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from pydantic_core import to_jsonable_python

from sparksql.api.conf_policy import STATIC_KEYS, is_reviewed, normalise
from sparksql.domain.session.effective_session import EffectiveSession
from sparksql.wire.driver import OpenEndpoints


def pool_key(session: EffectiveSession) -> str:
    """Returns a hash of what is fixed once a driver for the session has started; equal for sessions that one driver fits."""
    fixed = replace(
        session,
        name="",
        uid="",
        pool_uid="",
        database="",
        conf={key: value for key, value in session.conf.items() if not _is_set_at_binding(key)},
        # Connect's own service is a part of Spark; the other protocols are the gateway's.
        endpoints=OpenEndpoints(rest=True, thrift=True, connect=True, frontends=session.endpoints.frontends),
        network_policy=True,
        network_clients=(),
        front_only=False,
    )
    text = json.dumps(to_jsonable_python(fixed), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _is_set_at_binding(key: str) -> bool:
    name = normalise(key)
    return name.startswith("spark.sql.") and is_reviewed(key) and name not in STATIC_KEYS
