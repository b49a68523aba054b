"""Streams whose changed text fits once the state is made anew: they begin again in another checkpoint, as the same query."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparksql.api.execution import StatementMode
from sparksql.domain.event import Event
from sparksql.domain.public_text import PublicText
from sparksql.domain.statement.comparison import state_of
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import Decision
from sparksql.domain.statement.identity import sql_hash
from sparksql.domain.statement.snapshot import Inputs, SessionFacts, Snapshot, StateFacts
from sparksql.domain.statement.stream.changes import takes_in_change
from sparksql.domain.statement.stream.facts import stream_facts
from sparksql.domain.statement.stream.spec import settings_hash
from sparksql.wire.control import (
    COMPARISON,
    HISTORY_READ,
    OperationState,
    RestoreOptions,
    ResultSummary,
    StreamOptions,
)
from tests.unit.domain.builders.conditions import message, told
from tests.unit.domain.builders.objects import with_status
from tests.unit.domain.builders.statements import DRIVER, READY, SQL, statement, statement_snapshot, view
from tests.unit.domain.builders.streams import (
    LOCATION,
    OTHER,
    SAVED_AT,
    START,
    UNFIT,
    parked,
    running,
    stream,
    stream_snapshot,
    streaming_of,
    submitted,
    telling,
    unfit,
)

WORDS = "the state in the checkpoint is migrated for the query: aggregate: column m was added (max(v))"
REWRITABLE = UNFIT.model_copy(update={"message": WORDS, "rewritable": True})
NEW = LOCATION.replace("/1", "/1-1")


def misfit(status: dict[str, Any] | None = None, **spec: Any) -> Snapshot:
    """A stream whose attempt with the new text was refused, its state being rewritable."""
    of = stream(running(streaming={"queryId": "q", "committedBatchId": 7, "batchId": 8, **(status or {})}), **spec)
    told = telling(OperationState.ERROR, error=REWRITABLE, start_time=None, progress=None)
    return stream_snapshot(of, operation=told, inputs=Inputs(of.spec.sql or SQL))


def begun_again(s: Snapshot) -> tuple[Decision, Decision]:
    """The decision on the misfit, and the hand-over that follows."""
    first = decide(s)
    following = replace(s, statement=with_status(s.statement, first), operation=None)
    return first, decide(following)


@pytest.mark.parametrize(
    "streaming", [{}, {"onIncompatible": "StartFresh"}, {"upgradeMode": "Savepoint"}], ids=["park", "fresh", "saved"]
)
def test_a_stream_with_a_rewritable_state_begins_again_in_another_checkpoint(streaming: dict[str, Any]) -> None:
    first, second = begun_again(misfit(streaming=streaming))
    assert told(first) == ("Initialized", "Upgrading")
    kept = f"see status; the previous checkpoint remains in {LOCATION}"
    assert first.events == (Event("Normal", first.events[0].reason, PublicText(kept)),)
    assert message(first) == f"{WORDS}; the previous checkpoint remains in {LOCATION}"
    status = streaming_of(first)
    assert (status.checkpoint_location, status.rewritten_from, status.upgrades) == (None, LOCATION, 1)
    assert (status.query_id, status.committed_batch_id, first.status.attempt) == ("q", None, 2)
    options = submitted(second).request.streaming
    assert options is not None
    assert options.restore == RestoreOptions(location=LOCATION, query_id="q", rewrite=True)
    assert (options.checkpoint, options.rewrites) == (NEW, True)
    assert streaming_of(second).checkpoint_location == NEW


def test_a_fork_of_a_savepoint_with_other_aggregates_is_rewritten_from_what_was_restored() -> None:
    _, second = begun_again(misfit({"queryId": None, "restoredFrom": SAVED_AT}, streaming=START))
    options = submitted(second).request.streaming
    assert options is not None
    assert options.restore == RestoreOptions(location=LOCATION, query_id="", rewrite=True)
    assert streaming_of(second).restored_from is None


def test_a_rewritten_stream_is_handed_over_with_the_same_place_until_it_starts_fresh() -> None:
    status = running(streaming={"checkpointLocation": NEW, "rewrittenFrom": LOCATION, "upgrades": 1, "queryId": "q"})
    gone = stream_snapshot(stream(status), operation=telling(OperationState.CLOSED), inputs=Inputs(SQL))
    _, second = begun_again(gone)
    options = submitted(second).request.streaming
    assert options is not None and options.checkpoint == NEW
    assert options.restore == RestoreOptions(location=LOCATION, query_id="q", rewrite=True)
    refused = replace(gone, statement=stream(status, streaming={"onIncompatible": "StartFresh"}), operation=unfit())
    first, _ = begun_again(refused)
    assert (streaming_of(first).rewritten_from, streaming_of(first).upgrades) == (None, 2)


def test_a_running_stream_is_stopped_for_a_change_that_its_driver_would_rewrite_the_state_for() -> None:
    of = stream(running(streaming={"queryId": "q", "committedBatchId": 2}), sql=OTHER)
    session = SessionFacts("s", READY.phase, driver=replace(DRIVER, compares_states=True))
    answer = view(OperationState.FINISHED, result=ResultSummary(row_count=1))
    s = stream_snapshot(of, session=session, operation=telling(), inputs=Inputs(OTHER), answer=answer)
    assert takes_in_change(s, stream_facts(s))


@pytest.mark.parametrize(("cells", "columns"), [((), ""), (("m", "x"), " (m, x)")], ids=["no preview", "columns"])
def test_a_validation_says_for_which_columns_the_state_would_be_rewritten(cells: tuple[str, ...], columns: str) -> None:
    state = StateFacts("other", stream().spec.streaming, LOCATION)
    of = statement(
        {"phase": "Running", "operationId": "o", "attempt": 1, "run": 1},
        mode=StatementMode.VALIDATE.value,
        validateAgainst={"statementRef": {"name": "other"}},
    )
    preview = tuple(tuple(cell if name == "column" else "" for name in COMPARISON) for cell in cells)
    ended = view(OperationState.FINISHED, result=ResultSummary(row_count=2, preview=preview))
    decision = decide(statement_snapshot(of, operation=ended, state=state))
    assert message(decision) == (
        "the query is compatible with the state of SqlStatement other once that is rewritten, which its start does: the result has what "
        f"for{columns}"
    )


def test_a_parked_stream_tries_again_once_its_state_may_be_computed_anew() -> None:
    rebuild = {"upgradeMode": "Rebuild"}
    of = stream(parked(sqlHash=sql_hash(SQL)), streaming=rebuild)
    first, second = begun_again(stream_snapshot(of, inputs=Inputs(SQL)))
    assert told(first) == ("Initialized", "Upgrading")
    options = submitted(second).request.streaming
    assert options is not None and options.rebuilds
    refused = stream_snapshot(with_status(of, second), operation=unfit(), inputs=Inputs(SQL))
    again = decide(refused)
    assert told(again) == ("Stopped", "StateIncompatible")
    at_rest = decide(replace(refused, statement=with_status(of, again), operation=None))
    assert told(at_rest) == ("Stopped", "StateIncompatible")


def test_a_running_stream_is_not_stopped_for_another_upgrade_mode() -> None:
    for streaming in ({"upgradeMode": "Rebuild"}, {"upgradeMode": "LastState"}):
        for rebuilding in (False, True):
            settings = settings_hash(stream().spec, rebuilding=rebuilding)
            of = stream(running(streaming={"settingsHash": settings}, sqlHash=sql_hash(SQL)), streaming=streaming)
            assert stream_facts(stream_snapshot(of, inputs=Inputs(SQL))).change is None


def test_a_validation_says_from_what_the_state_would_be_computed_anew() -> None:
    streaming = stream(streaming={"upgradeMode": "Rebuild"}).spec.streaming
    of = statement(
        {"phase": "Running", "operationId": "o", "attempt": 1, "run": 1},
        mode=StatementMode.VALIDATE.value,
        validateAgainst={"statementRef": {"name": "other"}},
    )
    rows = (
        (HISTORY_READ, "source src", "", "", "31 files", ""),
        ("KeyAdded", "aggregate", "d", "", "d", "none is needed"),
    )
    ended = view(OperationState.FINISHED, result=ResultSummary(row_count=2, preview=rows))
    session = SessionFacts("s", READY.phase, driver=replace(DRIVER, compares_states=True))
    s = statement_snapshot(of, session=session, operation=ended, state=StateFacts("other", streaming, LOCATION))
    state = state_of(s)
    assert isinstance(state, StreamOptions) and state.rebuilds
    assert message(decide(s)) == (
        "the query is incompatible with the state of SqlStatement other; at its start the state is rebuilt from the history of the "
        "sources (upgradeMode Rebuild): source src 31 files"
    )
