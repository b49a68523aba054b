"""How an RPC that fails ends: each exception as a gRPC status, with the details that Spark's clients make theirs of."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from sparksql.gateway.frontends.connect.errors import (
    DETAILS_KEY,
    ConnectError,
    over_budget,
    refused_by_service,
    refused_statement,
    unavailable,
)
from sparksql.gateway.frontends.connect.upstream import SparkError
from sparksql.gateway.sessions.model import ClientError
from sparksql.gateway.sql.errors import StatementError
from sparksql.protocols.budget import OverBudgetError
from sparksql.protocols.grpc_messages import LateMessageError
from sparksql.protocols.spark_connect import ClientGoneError

log = logging.getLogger(__name__)


def with_statuses(handler: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    """Returns `handler` with its exceptions made into gRPC statuses; Spark's own go on as they came."""

    async def answer(request: Any, context: Any) -> Any:
        try:
            return await handler(request, context)
        except ConnectError as error:
            return await _abort(context, error)
        except StatementError as error:
            return await _abort(context, refused_statement(error.error))
        except ClientError as error:
            return await _abort(context, refused_by_service(error))
        except OverBudgetError as error:
            return await _abort(context, over_budget(error))
        except LateMessageError as error:
            return await _abort(context, unavailable(str(error)))
        except SparkError as error:
            return await context.abort(error.code, str(error), error.trailing)
        except ClientGoneError:
            return None  # nobody is there to be told anything
        except grpc.aio.AbortError:
            raise
        except Exception as exception:
            log.exception("a request failed")
            return await context.abort(grpc.StatusCode.INTERNAL, type(exception).__name__)

    return answer


async def _abort(context: Any, error: ConnectError) -> Any:
    return await context.abort(error.code, str(error), ((DETAILS_KEY, error.details()),))
