"""How a call to a gRPC server ends that fails: its exception as a status."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc

from sparksql.protocols.spark_connect import ClientGoneError

Handler = Callable[[Any, Any], Awaitable[Any]]


@dataclass(frozen=True)
class CallStatus:
    """Holds the status of a failed call, with its trailing metadata."""

    code: Any  # grpc.StatusCode
    message: str
    trailing: Any = ()


def with_statuses(handler: Handler, status_of: Callable[[Exception], CallStatus]) -> Handler:
    """Returns `handler` with its exceptions made into statuses. One that has set a status itself, or has no client, has none."""

    async def answer(request: Any, context: Any) -> Any:
        try:
            return await handler(request, context)
        except ClientGoneError:
            return None  # no client reads a status
        except grpc.aio.AbortError:
            raise
        except Exception as failure:
            status = status_of(failure)
        # Not within the block above: gRPC keeps what this raises until a garbage collection, and with the failure as its context
        # all frames of the call, whose request may have 80 MiB.
        return await context.abort(status.code, status.message, status.trailing)

    return answer
