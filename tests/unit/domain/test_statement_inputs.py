"""ConfigMaps and Secrets are read for a decision that turns on them, and for no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparksql.domain.admission import Turn
from sparksql.domain.dependencies import Unmet
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import NeedsInputs
from sparksql.domain.statement.snapshot import Inputs, Snapshot, Unobserved
from sparksql.wire.control import OperationState
from tests.unit.domain.statement_samples import (
    READY,
    SQL,
    ended,
    handed_over,
    initialized,
    snapshot,
    statement,
    told,
    view,
)
from tests.unit.domain.stream_samples import OTHER, asked, known, resting, running, stream, telling

SOURCE = {"sqlFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
WAITING = statement(initialized(), **SOURCE)
HAS = statement(handed_over(), **SOURCE)
NEW_CONF = {"conf": {"spark.sql.ansi.enabled": "false"}}

READ: dict[str, Snapshot] = {
    "it goes now": snapshot(WAITING),
    "its hand-over did not arrive": snapshot(HAS, operation=Unobserved.UNKNOWN),
    "it was ended before it began": snapshot(HAS, operation=view(OperationState.CANCELED, start_time=None)),
    "a stream goes now": asked(stream(initialized(), **SOURCE)),
    "a stream could go but for its back-off": asked(stream(resting("Initialized"), **SOURCE)),
    "a stream is to go on": asked(stream(resting(), **SOURCE)),
    "a query has another configuration": asked(stream(running(), **NEW_CONF), operation=telling()),
    "a query has another text": asked(stream(running(), sql=OTHER), operation=telling()),
    "a query has stopped": asked(stream(running(), **SOURCE), operation=telling(OperationState.CANCELED)),
}
UNREAD: dict[str, Snapshot] = {
    "a new one is canceled": snapshot(statement(initialized(), desiredState="Canceled", **SOURCE)),
    "it waits for its turn": snapshot(WAITING, turn=Turn(granted=False, ahead=1)),
    "it waits for its session": snapshot(WAITING, session=replace(READY, driver=None)),
    "it waits for others": snapshot(WAITING, dependencies=Unmet((), ("x",), ())),
    "its class is not known": snapshot(WAITING, settings=None),
    "it runs": snapshot(statement(handed_over("Running"), **SOURCE), operation=view(OperationState.RUNNING)),
    "it is done": snapshot(statement(handed_over("Running"), **SOURCE), operation=view(OperationState.FINISHED)),
    "nobody answers": snapshot(HAS, operation=Unobserved.UNREACHABLE),
    "its driver is gone": snapshot(HAS, operation=Unobserved.DRIVER_GONE),
    "it has ended": snapshot(statement(ended(), **SOURCE)),
    "a query runs as its spec asks": asked(stream(running(), **SOURCE), operation=telling()),
    "a stream rests by wish": asked(stream(resting(), desiredState="Stopped", **SOURCE)),
    "a stream waits for its session": asked(stream(initialized(), **SOURCE), session=replace(READY, driver=None)),
}


@pytest.mark.parametrize("s", READ.values(), ids=READ)
def test_inputs_are_asked_for_once(s: Snapshot) -> None:
    assert decide(replace(s, inputs=None)) == NeedsInputs()
    assert decide(replace(s, inputs=Inputs(SQL))) != NeedsInputs()


@pytest.mark.parametrize("s", UNREAD.values(), ids=UNREAD)
def test_statement_inputs_are_not_read_when_the_decision_does_not_need_them(s: Snapshot) -> None:
    assert decide(replace(s, inputs=None)) == decide(replace(s, inputs=Inputs(SQL)))


@pytest.mark.parametrize("wish", ["Stopped", "Canceled"])
def test_stream_is_stopped_or_canceled_without_reading_its_text(wish: str) -> None:
    decided: Any = decide(
        asked(stream({**resting("Initialized"), "streaming": known()}, desiredState=wish, **SOURCE), inputs=None)
    )
    assert told(decided) == (wish, "StoppedByUser" if wish == "Stopped" else "CanceledByUser")
