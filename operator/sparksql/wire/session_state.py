"""What a driver tells of the state that statements have made of its session, and the next one is given."""

from __future__ import annotations

from sparksql.wire.control import SubmitRequest
from sparksql.wire.model import WireModel


class SessionState(WireModel):
    """Holds the statements of manifests that have changed the session since `init`, in order.

    Each is one statement, as it was submitted, without values from Secrets. `digest` tells the state that they have led to.
    """

    statements: tuple[SubmitRequest, ...] = ()
    digest: str = ""
