"""What the scripted gateway answers with: bodies, refusals, and the one result that every statement has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from aiohttp import web

from sparksql.wire.control import (
    Column,
    Event,
    InitFailure,
    OperationError,
    ResultSummary,
    SubmitRequest,
)
from sparksql.wire.model import WireModel
from sparksql.wire.session_state import SessionState


class Refused(Exception):
    """Ends a request with `status`."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status


def answer(model: WireModel) -> web.Response:
    return web.Response(text=model.to_json(), content_type="application/json")


def result(request: SubmitRequest, *, wide: bool) -> ResultSummary:
    columns = tuple(Column(name=f"column_{i:05}_{'x' * 100}", type="int") for i in range(2000)) if wide else (
        Column(name="1", type="int"),
    )  # fmt: skip
    return ResultSummary(
        columns=columns,
        row_count=1,
        preview=(tuple("1" for _ in columns),) if request.result.preview_rows else (),
        bytes=4,
        expiration_time=datetime.now(UTC) + timedelta(seconds=request.result.retention_seconds),
    )


def init_failure(sql: str, message: str) -> InitFailure:
    error = OperationError(condition="PARSE_SYNTAX_ERROR", message=message)
    return InitFailure(position=1, statement=sql[:200], error=error)


def kept_state(boot_id: str, texts: Sequence[str]) -> SessionState:
    """What brings back what these statements have made."""
    requests = (SubmitRequest(boot_id=boot_id, namespace="n", name="prepared", sql=text) for text in texts)
    return SessionState(statements=tuple(requests), digest=f"of {len(texts)}")


def of_later_version(event: Event) -> list[str]:
    """The event's line with fields that nobody knows here, between a line of another kind and, for a statement that runs, one with
    a state that there is not."""
    line = json.loads(event.to_json())
    operation = line.get("operation", {})
    for part in (line, operation, line.get("info", {})):
        part["isNew"] = {"since": ["later"]}
    lines = [{"kind": "weather", "bootId": event.boot_id, "isNew": True}, line]
    if operation.get("state") == "Running":
        lines.insert(1, {**line, "operation": {**operation, "state": "Simmering"}})
    return [json.dumps(each) for each in lines]
