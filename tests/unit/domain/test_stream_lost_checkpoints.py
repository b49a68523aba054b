"""A checkpoint that is not the one that its query has written: the driver is told what it must have, and such a stream is parked."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.api.statement import StatementDesiredState as DesiredState
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.snapshot import Inputs
from sparksql.wire.control import CheckpointContent, ErrorReason, OperationError, OperationState, OperationView
from tests.unit.domain.builders.conditions import PARKED, message, told
from tests.unit.domain.builders.objects import with_status
from tests.unit.domain.builders.statements import SQL
from tests.unit.domain.builders.streams import (
    LOCATION,
    resting,
    running,
    shown,
    stream,
    stream_snapshot,
    streaming_of,
    submitted,
    telling,
)

LOST = OperationError(reason=ErrorReason.CHECKPOINT_LOST, message="its file metadata is not there")


SOURCE_LOST = OperationError(reason=ErrorReason.SOURCE_LOST, message="the topic was deleted and made anew")


def lost(error: OperationError = LOST) -> OperationView:
    """The driver's answer to a start that it has refused."""
    return telling(OperationState.ERROR, error=error, start_time=None, progress=None)


@pytest.mark.parametrize(
    ("streaming", "known"),
    [
        ({"queryId": "q", "committedBatchId": 2}, CheckpointContent(query_id="q", committed_batch_id=2)),
        ({"queryId": "q", "committedBatchId": 0}, CheckpointContent(query_id="q", committed_batch_id=0)),
        ({"queryId": "q"}, None),
        ({}, None),
    ],
)
def test_a_start_names_what_the_checkpoint_must_have(
    streaming: dict[str, Any], known: CheckpointContent | None
) -> None:
    of = stream(running(streaming=streaming))
    first = decide(stream_snapshot(of, operation=telling(OperationState.CLOSED, progress=None), inputs=Inputs(SQL)))
    second = decide(stream_snapshot(with_status(of, first), inputs=Inputs(SQL)))
    options = submitted(second).request.streaming
    assert options is not None and (options.checkpoint, options.known) == (LOCATION, known)


@pytest.mark.parametrize(
    "spec", [{}, {"onIncompatible": "StartFresh"}, {"upgradeMode": "Stateless"}, {"upgradeMode": "Rebuild"}]
)
def test_a_stream_whose_checkpoint_is_lost_is_parked_whatever_its_upgrade_mode(spec: dict[str, Any]) -> None:
    of = stream(resting("Pending", streaming={"queryId": "q", "committedBatchId": 2}), streaming=spec)
    decision = decide(stream_snapshot(of, operation=lost()))
    assert told(decision) == ("Stopped", "CheckpointLost")
    assert (shown(decision), message(decision)) == (PARKED, LOST.message)
    assert (streaming_of(decision).checkpoint_location, streaming_of(decision).committed_batch_id) == (LOCATION, 2)


def test_a_parked_stream_starts_again_after_it_was_stopped_by_its_user() -> None:
    of = stream(resting("Pending", streaming={"queryId": "q", "committedBatchId": 2}))
    of = with_status(of, decide(stream_snapshot(of, operation=lost())))
    assert told(decide(stream_snapshot(of))) == ("Stopped", "CheckpointLost")
    stopping = of.model_copy(update={"spec": of.spec.model_copy(update={"desired_state": DesiredState.STOPPED})})
    stopped = with_status(stopping, decide(stream_snapshot(stopping)))
    assert stopped.status.phase == "Stopped" and stopped.status.error is None
    asked = stopped.model_copy(update={"spec": of.spec})
    assert told(decide(stream_snapshot(asked)))[0] == "Initialized"


@pytest.mark.parametrize("spec", [{}, {"onIncompatible": "StartFresh"}, {"upgradeMode": "Stateless"}])
@pytest.mark.parametrize("known", [{"queryId": "q", "committedBatchId": 2}, {"queryId": "q"}, {}])
def test_a_stream_whose_source_is_lost_is_parked_whatever_is_known_of_it(
    spec: dict[str, Any], known: dict[str, Any]
) -> None:
    of = stream(resting("Pending", streaming=known), streaming=spec)
    decision = decide(stream_snapshot(of, operation=lost(SOURCE_LOST)))
    assert told(decision) == ("Stopped", "SourceLost")
    assert (shown(decision), message(decision)) == (PARKED, SOURCE_LOST.message)


def test_a_running_stream_whose_source_has_lost_rows_is_parked_without_a_restart() -> None:
    of = stream(running(streaming={"queryId": "q", "committedBatchId": 2}))
    ended = telling(OperationState.ERROR, error=SOURCE_LOST)
    assert told(decide(stream_snapshot(of, operation=ended))) == ("Stopped", "SourceLost")
