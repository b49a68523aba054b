"""Error answers in the three forms of the released server. A body has the key `errors` and nothing else.

- what a statement, its result, its completion or a configuration fails with: `Internal server error.` and the chain of causes
between two marker lines;
- what fails on sessions and operations, and requests that cannot be read: the chain of causes alone;
- what never reached a route: one short text.

Flink's SQL Client shows what follows the last `Caused by: ` up to the next line that begins with a tab and `at `, so Spark's
own error is always the last cause, and no message may hold either mark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from sparksql.gateway.frontends.rest.models import ErrorResponse
from sparksql.gateway.sessions.model import ClientError, OperationInfo, OperationStatus, Problem
from sparksql.wire.control import OperationError

RETRY_SECONDS = 2
_FRAME = "\n\tat sparksql.gateway"
_SPARK_ERROR = "org.apache.spark.SparkThrowable"  # the interface of every exception that has a condition


class Form(Enum):
    """Names the forms in which a route tells its failures."""

    SERVER_SIDE = auto()
    CHAIN = auto()


@dataclass(frozen=True)
class Cause:
    """Represents one link of a chain: a class name in the way of Java, and what it says."""

    name: str
    message: str


class RestError(Exception):
    """An answer other than 200. `problem` is what the sessions of clients refuse, if it is that."""

    problem: Problem | None = None

    def __init__(self, status: int, errors: Sequence[str]) -> None:
        super().__init__(f"{status}: {errors[-1] if errors else ''}")
        self.status = status
        self.body = ErrorResponse(errors=list(errors)).to_json()


def short(status: int, message: str) -> RestError:
    """Returns the error in the form of what never reached a route."""
    return RestError(status, [message])


def not_found(path: str) -> RestError:
    """Returns the error for a path without a route."""
    return short(404, f"Not found: {path}")


def chained(status: int, *causes: Cause) -> RestError:
    """Returns an error whose message is a chain of causes."""
    return RestError(status, [_chain(causes)])


def server_side(*causes: Cause, status: int = 500) -> RestError:
    """Returns an error whose chain of causes is shown as one from the server's side."""
    block = f"<Exception on server side:\n{_chain(causes)}\nEnd of exception on server side>"
    return RestError(status, ["Internal server error.", block])


def bad_body(model_name: str | None, why: str) -> RestError:
    """Returns the error for a body that is no JSON of its model.

    `model_name` is None for a body that is not there and should be.
    """
    head = "Bad request received. Request did not conform to expected format."
    if model_name is not None:
        head = f"Request did not match expected format {model_name}Body."
    return chained(400, Cause("RestHandlerException", head), Cause("MismatchedInputException", why))


def bad_parameter(kind: str, name: str, value: str) -> RestError:
    """Returns the error for a parameter that cannot be read; `kind` is path or query."""
    why = f'Cannot resolve {kind} parameter ({name}) from value "{value}".'
    return chained(
        400,
        Cause("RestHandlerException", f"Bad request, could not parse parameters: {why}"),
        Cause("HandlerRequestException", why),
    )


def failed(form: Form, action: str, *causes: Cause, status: int = 500) -> RestError:
    """Returns the failure of a route, whose `action` it could not do."""
    outer = Cause("SqlGatewayException", action)
    if form is Form.SERVER_SIDE:
        return server_side(outer, *causes, status=status)
    return chained(status, Cause("RestHandlerException", action), outer, *causes)


def refused(form: Form, action: str, problem: ClientError) -> RestError:
    """Returns the failure of a route by what the sessions of clients refuse."""
    return failed(form, action, Cause("SqlGatewayException", str(problem)), status=_status_of(problem.problem))


def unfetchable(*causes: Cause) -> RestError:
    """Returns the failure to fetch a result, by a token or by the operation's end."""
    action = "Failed to fetchResults."
    return server_side(
        Cause("SqlGatewayException", f"SqlGatewayException: {action}"), Cause("SqlGatewayException", action), *causes
    )


def ended_badly(view: OperationInfo) -> RestError:
    """Returns the error that says why an operation that has ended has no result."""
    if view.status is OperationStatus.ERROR:
        head = Cause("SqlExecutionException", f"Failed to execute the operation {view.handle}.")
        return unfetchable(head, *(() if view.error is None else (sql_cause(view.error),)))
    told = Cause("SqlGatewayException", f"Can not fetch results from the {view.handle} in {view.status} status.")
    if view.status is OperationStatus.TIMEOUT and view.error is not None:
        return unfetchable(told, sql_cause(view.error))
    return unfetchable(told)


def sql_cause(error: OperationError) -> Cause:
    """Returns Spark's error with its condition, SQLSTATE and place."""
    if error.condition is None:
        return Cause("SqlExecutionException", _message(error))
    return Cause(_SPARK_ERROR, _message(error))


def _message(error: OperationError) -> str:
    text = error.message or str(error.reason)
    if error.condition is not None and not text.startswith("["):
        text = f"[{error.condition}] {text}"
    if error.sql_state is not None and f"SQLSTATE: {error.sql_state}" not in text:
        text = f"{text} SQLSTATE: {error.sql_state}"
    if error.line is not None:
        text = f"{text} (line {error.line}, position {error.position})"
    return text


def _chain(causes: Sequence[Cause]) -> str:
    links = (f"{cause.name}: {_unmarked(cause.message)}{_FRAME}" for cause in causes)
    return "\nCaused by: ".join(links) + "\n"


def _unmarked(message: str) -> str:
    return re.sub(r"\tat ", " at ", message).replace("Caused by: ", "caused by: ")


def _status_of(problem: Problem) -> int:
    """500 where the released server has the same failure, what HTTP has for it elsewhere."""
    match problem:
        case Problem.NOT_READY:
            return 503
        case Problem.QUEUE_FULL | Problem.TOO_MANY_OPERATIONS:
            return 429
        case Problem.NOT_ALLOWED:
            return 403
        case Problem.INVALID:
            return 400
        case (
            Problem.TOO_MANY_SESSIONS
            | Problem.UNKNOWN_SESSION
            | Problem.UNKNOWN_OPERATION
            | Problem.ILLEGAL_TRANSITION
            | Problem.NO_RESULT
        ):
            return 500
