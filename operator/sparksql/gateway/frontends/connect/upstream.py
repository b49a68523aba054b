"""RPCs to Spark's own service, and how their answers go on to the client: bytes, metadata and errors as they come."""

from __future__ import annotations

import grpc

from sparksql.gateway.frontends.connect.backend import Backend
from sparksql.gateway.frontends.connect.errors import DETAILS_KEY, Told, failed_in_jvm, of_jvm, told_by
from sparksql.gateway.sessions.callers import current
from sparksql.gateway.spark.connect_conf import LOOPBACK
from sparksql.protocols.spark_connect import CHANNEL_OPTIONS, Metadata, Relay, RelayedError
from sparksql.wire.control import OperationError
from sparksql.wire.front import USER_HEADER, written_user

ERROR_KEY = "x-sparksql-error"  # the trailer of `dev.sparksql.connect.ErrorOfCall`: the types of an error of the JVM


class SparkError(RelayedError):
    """Spark ended an RPC with an error, which is to be passed on.

    An error of the JVM has no condition there: it gets the one that statements of other protocols have for it.
    """

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        super().__init__(error)
        types = next((str(value) for key, value in self.trailing if key == ERROR_KEY), "")
        self.trailing = tuple(each for each in self.trailing if not is_own(each[0]))
        self._own = of_jvm(types.split(","), str(self)) if types else None
        if self._own is not None:
            shown = failed_in_jvm(self._own)
            self.args = (str(shown),)
            self.code, self.trailing = shown.code, ((DETAILS_KEY, shown.details()),)

    @property
    def operation_error(self) -> OperationError:
        """Returns the error of the operation that ended so."""
        return self.told.operation_error() if self._own is None else self._own

    @property
    def told(self) -> Told:
        """Returns what the status says."""
        return told_by(str(self), self.trailing)


def is_own(key: str) -> bool:
    """Tells whether metadata is for the gateway."""
    return key.startswith("x-sparksql-")


class Upstream(Relay):
    """A channel to Spark's service. What its calls raise is a SparkError, or what a stream of requests raised itself.

    Spark is told whose a request is, where the front has said so: `dev.sparksql.connect.UserOfRequest` reads it there.
    """

    def __init__(self, backend: Backend) -> None:
        self._spark = grpc.aio.insecure_channel(f"{LOOPBACK}:{backend.port}", options=CHANNEL_OPTIONS)
        self._authorization = ("authorization", f"Bearer {backend.token}")
        super().__init__(self._spark, self._metadata, is_own, SparkError)

    def _metadata(self) -> Metadata:
        user = current.get().user
        return (self._authorization,) if user is None else (self._authorization, (USER_HEADER, written_user(user)))

    async def close(self) -> None:
        """Closes the channel."""
        await self._spark.close()
