"""ConfigMaps and Secrets are read for a decision that turns on them, and for no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparksql.domain.admission import Turn
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import NeedsInputs
from sparksql.domain.statement.dependencies import Unmet
from sparksql.domain.statement.snapshot import Inputs, Snapshot, Unobserved
from sparksql.wire.control import OperationState
from tests.unit.domain.builders.conditions import told
from tests.unit.domain.builders.statements import (
    READY,
    SQL,
    ended,
    handed_over,
    initialized,
    statement,
    statement_snapshot,
    view,
)
from tests.unit.domain.builders.streams import OTHER, known, resting, running, stream, stream_snapshot, telling

SOURCE = {"sqlFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
WAITING = statement(initialized(), **SOURCE)
HAS = statement(handed_over(), **SOURCE)
NEW_CONF = {"conf": {"spark.sql.ansi.enabled": "false"}}

READ: dict[str, Snapshot] = {
    "it goes now": statement_snapshot(WAITING),
    "its hand-over did not arrive": statement_snapshot(HAS, operation=Unobserved.UNKNOWN),
    "it was ended before it began": statement_snapshot(HAS, operation=view(OperationState.CANCELED, start_time=None)),
    "a stream goes now": stream_snapshot(stream(initialized(), **SOURCE)),
    "a stream could go but for its back-off": stream_snapshot(stream(resting("Initialized"), **SOURCE)),
    "a stream is to go on": stream_snapshot(stream(resting(), **SOURCE)),
    "a query has another configuration": stream_snapshot(stream(running(), **NEW_CONF), operation=telling()),
    "a query has another text": stream_snapshot(stream(running(), sql=OTHER), operation=telling()),
    "a query has stopped": stream_snapshot(stream(running(), **SOURCE), operation=telling(OperationState.CANCELED)),
}
UNREAD: dict[str, Snapshot] = {
    "a new one is canceled": statement_snapshot(statement(initialized(), desiredState="Canceled", **SOURCE)),
    "it waits for its turn": statement_snapshot(WAITING, turn=Turn(granted=False, ahead=1)),
    "it waits for its session": statement_snapshot(WAITING, session=replace(READY, driver=None)),
    "it waits for others": statement_snapshot(WAITING, dependencies=Unmet((), ("x",), ())),
    "its class is not known": statement_snapshot(WAITING, settings=None),
    "it runs": statement_snapshot(statement(handed_over("Running"), **SOURCE), operation=view(OperationState.RUNNING)),
    "it is done": statement_snapshot(
        statement(handed_over("Running"), **SOURCE), operation=view(OperationState.FINISHED)
    ),
    "nobody answers": statement_snapshot(HAS, operation=Unobserved.UNREACHABLE),
    "its driver is gone": statement_snapshot(HAS, operation=Unobserved.DRIVER_GONE),
    "it has ended": statement_snapshot(statement(ended(), **SOURCE)),
    "a query runs as its spec asks": stream_snapshot(stream(running(), **SOURCE), operation=telling()),
    "a stream rests by wish": stream_snapshot(stream(resting(), desiredState="Stopped", **SOURCE)),
    "a stream waits for its session": stream_snapshot(
        stream(initialized(), **SOURCE), session=replace(READY, driver=None)
    ),
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
        stream_snapshot(
            stream({**resting("Initialized"), "streaming": known()}, desiredState=wish, **SOURCE), inputs=None
        )
    )
    assert told(decided) == (wish, "StoppedByUser" if wish == "Stopped" else "CanceledByUser")
