"""How an RPC that fails ends: each exception as a gRPC status, with the details that Spark's clients make theirs of."""

from __future__ import annotations

import logging

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
from sparksql.protocols.call_status import CallStatus
from sparksql.protocols.grpc_messages import LateMessageError

log = logging.getLogger(__name__)


def status_of(failure: Exception) -> CallStatus:
    """Returns the status of a failed call; Spark's own are as they came. Logs what is no refusal."""
    match failure:
        case ConnectError():
            return _with_details(failure)
        case StatementError():
            return _with_details(refused_statement(failure.error))
        case ClientError():
            return _with_details(refused_by_service(failure))
        case OverBudgetError():
            return _with_details(over_budget(failure))
        case LateMessageError():
            return _with_details(unavailable(str(failure)))
        case SparkError():
            return CallStatus(failure.code, str(failure), failure.trailing)
        case _:
            log.error("a request failed", exc_info=failure)
            return CallStatus(grpc.StatusCode.INTERNAL, type(failure).__name__)


def _with_details(error: ConnectError) -> CallStatus:
    return CallStatus(error.code, str(error), ((DETAILS_KEY, error.details()),))
