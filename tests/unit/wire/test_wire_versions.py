"""Answers of later versions are understood as far as they go, and each side knows how the other's version differs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from pydantic import TypeAdapter, ValidationError

from sparksql.wire import clients, control, savepoints, versions
from sparksql.wire.control import (
    ErrorReason,
    Event,
    GatewayInfo,
    GatewayState,
    OperationState,
    OperationView,
)
from sparksql.wire.model import WireModel
from sparksql.wire.savepoints import SavepointState, SavepointView
from sparksql.wire.versions import Skew, skew_of

# What a gateway answers; everything else of the protocol is asked, and may be refused.
ANSWERS: tuple[type[WireModel], ...] = (
    control.OperationView,
    control.GatewayInfo,
    control.Event,
    clients.ClientsView,
    control.ResultPage,
    control.ErrorBody,
    savepoints.SavepointView,
)
UNKNOWN = "OfALaterVersion"


def inside(annotation: Any) -> Iterator[Any]:
    """The types that an annotation is made of."""
    yield annotation
    for part in get_args(annotation):
        yield from inside(part)


def models(roots: tuple[type[WireModel], ...]) -> set[type[WireModel]]:
    """The models that answers are made of."""
    found: set[type[WireModel]] = set()
    waiting = list(roots)
    while waiting:
        model = waiting.pop()
        if model not in found:
            found.add(model)
            parts = [part for field in model.model_fields.values() for part in inside(field.annotation)]
            waiting += [part for part in parts if isinstance(part, type) and issubclass(part, WireModel)]
    return found


def choices() -> Iterator[tuple[type[WireModel], str]]:
    """Fields of answers that have one of some known values."""
    for model in sorted(models(ANSWERS), key=lambda each: each.__name__):
        for name, field in model.model_fields.items():
            parts = [*inside(field.annotation)]
            if any(get_origin(p) is Literal or (isinstance(p, type) and issubclass(p, Enum)) for p in parts):
                yield model, name


def test_choices_of_wire_models_are_found() -> None:
    assert (OperationView, "state") in {*choices()}
    assert (Event, "kind") in {*choices()}


@pytest.mark.parametrize(("model", "name"), [each for each in choices() if each != (OperationView, "state")])
def test_a_value_that_is_not_known_is_read_as_something(model: type[WireModel], name: str) -> None:
    field = model.model_fields[name]
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[(field.annotation, *field.metadata, "")])
    adapter.validate_json(json.dumps(UNKNOWN))


def answer(**fields: Any) -> str:
    return json.dumps({"operationId": "o", "bootId": "b", "seq": 1, "state": UNKNOWN, "isNew": {"a": [1]}, **fields})


@pytest.mark.parametrize(
    ("times", "state"),
    [
        ({}, OperationState.PENDING),
        ({"startTime": "2026-01-31T08:00:00Z"}, OperationState.RUNNING),
        ({"completionTime": "2026-01-31T08:00:00Z"}, OperationState.ERROR),
    ],
)
def test_a_state_that_is_not_known_is_told_by_the_times(times: dict[str, str], state: OperationState) -> None:
    view = OperationView.model_validate_json(answer(**times))
    assert view.state is state
    if state is OperationState.ERROR:
        assert view.error is not None and f"{UNKNOWN}: outcome unknown" in view.error.message


def test_a_state_that_is_known_stays_and_one_that_is_no_text_is_refused() -> None:
    assert OperationView.model_validate_json(answer(state="Closed")).state is OperationState.CLOSED
    with pytest.raises(ValidationError):
        OperationView.model_validate_json(answer(state=7))


def test_unknown_values_of_a_later_version_are_read_as_harmless_ones() -> None:
    """It takes no statements, ends nothing, and says no more than that somebody is there."""
    info = {"bootId": "b", "state": UNKNOWN, "startTime": "2026-01-31T08:00:00Z", "isNew": 1}
    assert GatewayInfo.model_validate_json(json.dumps(info)).state is GatewayState.STARTING
    line = {"kind": UNKNOWN, "bootId": "b", "isNew": {}}
    assert Event.model_validate_json(json.dumps(line)).kind == "heartbeat"
    error = OperationView.model_validate_json(answer(state="Error", error={"reason": UNKNOWN, "message": "m"})).error
    assert error is not None and (error.reason, error.message) == (ErrorReason.SQL_ERROR, "m")
    saved = {"attemptId": "a", "bootId": "b", "state": UNKNOWN}
    assert SavepointView.model_validate_json(json.dumps(saved)).state is SavepointState.RUNNING
    assert OperationView.model_validate_json(answer(state="Pending", door="front")).protocol == "front"


def test_gateway_info_without_a_version_is_read_as_the_first_version() -> None:
    """And not that of whoever reads it."""
    info = GatewayInfo.model_validate_json('{"bootId": "b", "state": "Ready", "startTime": "2026-01-31T08:00:00Z"}')
    assert (info.protocol_version, info.oldest_operator_version) == (1, 1)


@pytest.mark.parametrize(
    ("version", "oldest_operator", "skew"),
    [
        (5, 1, None),
        (5, 5, None),
        (4, 1, Skew.OLDER),
        (3, 1, Skew.OLDER),
        (2, 1, Skew.TOO_OLD),
        (6, 1, Skew.NEWER),
        (9, 5, Skew.NEWER),
        (9, 6, Skew.TOO_NEW),
    ],
)
def test_how_a_gateways_version_differs(
    monkeypatch: pytest.MonkeyPatch, version: int, oldest_operator: int, skew: Skew | None
) -> None:
    monkeypatch.setattr(versions, "PROTOCOL_VERSION", 5)
    monkeypatch.setattr(versions, "OLDEST_GATEWAY", 3)
    assert skew_of(version, oldest_operator) is skew


def test_operator_and_gateway_of_one_version_understand_each_other() -> None:
    assert skew_of(versions.PROTOCOL_VERSION, versions.OLDEST_OPERATOR) is None
    assert versions.FIRST_VERSION <= versions.OLDEST_GATEWAY <= versions.PROTOCOL_VERSION
    assert versions.FIRST_VERSION <= versions.OLDEST_OPERATOR <= versions.PROTOCOL_VERSION
