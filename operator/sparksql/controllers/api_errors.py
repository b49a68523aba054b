"""What an error of the API server means to whoever reconciles: it may heal, and the server may say when to come back."""

from __future__ import annotations

from sparksql.engine.errors import Transient
from sparksql.engine.key import Key
from sparksql.engine.loop import Reconcile
from sparksql.kube.errors import ApiError


def retried(reconcile: Reconcile) -> Reconcile:
    """Wraps a reconcile so that an ApiError it does not handle leaves it as Transient, with the wait that the server asks for."""

    async def attempt(key: Key) -> float | None:
        try:
            return await reconcile(key)
        except ApiError as error:
            raise Transient(error, error.retry_after) from error

    return attempt
