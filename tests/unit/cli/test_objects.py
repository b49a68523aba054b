from __future__ import annotations

from typing import Any

import pytest

from sparksql.cli.errors import CliError, Exit
from sparksql.cli.objects import Session, Statement

# (Ready, Reconciling, Stalled, Finished) of the contract's table of conditions
CONDITIONS = {
    "Initialized": ("False", "True", "False", "False"),
    "Pending": ("False", "True", "False", "False"),
    "Running": ("False", "True", "False", "False"),
    "Finished": ("True", "False", "False", "True"),
    "Canceled": ("True", "False", "False", "True"),
    "Closed": ("False", "False", "True", "True"),
    "Error": ("False", "False", "True", "True"),
    "TimedOut": ("False", "False", "True", "True"),
}


def statement(
    phase: str, conditions: tuple[str, ...] = (), *, generation: int = 1, spec: Any = None, deleted: bool = False
) -> Statement:
    kinds = ("Ready", "Reconciling", "Stalled", "Finished")
    states = zip(kinds, conditions or CONDITIONS[phase], strict=True)
    document = {
        "metadata": {"name": "s", "namespace": "n", "uid": "u", "generation": generation},
        "spec": spec or {"sql": "SELECT 1", "sessionRef": {"name": "a"}},
        "status": {
            "observedGeneration": 1,
            "phase": phase,
            "conditions": [{"type": kind, "status": state, "reason": f"{phase}Reason"} for kind, state in states],
        },
    }
    return Statement.of(document).model_copy(update={"deleted": deleted})


@pytest.mark.parametrize(
    ("phase", "ended", "code"),
    [
        ("Initialized", False, None),
        ("Pending", False, None),
        ("Running", False, None),
        ("Finished", True, 0),
        ("Error", True, 1),
        ("TimedOut", True, 3),
        ("Closed", True, 4),
        ("Canceled", True, 130),
    ],
)
def test_each_terminal_phase_of_a_statement_has_its_own_exit_code(phase: str, ended: bool, code: int | None) -> None:
    seen = statement(phase)
    assert seen.has_ended is ended
    assert seen.is_settled is ended
    if code is not None:
        assert seen.exit_code == code


def test_a_new_object_has_not_ended() -> None:
    new = Statement.of({
        "metadata": {"name": "s", "namespace": "n", "generation": 1},
        "spec": {"sql": "SELECT 1"},
        "status": {"observedGeneration": -1},
    })  # fmt: skip
    assert not new.has_ended
    assert new.why.reason == ""


def test_an_old_end_is_no_end_of_a_new_run() -> None:
    assert not statement("Finished", generation=2).has_ended


STREAM = {"sql": "INSERT INTO t SELECT * FROM STREAM s", "sessionRef": {"name": "a"}, "streaming": {}}


@pytest.mark.parametrize(
    ("phase", "conditions", "settled", "code"),
    [
        ("Running", ("False", "True", "False", "False"), False, None),
        ("Running", ("True", "False", "False", "False"), True, Exit.FINISHED),
        ("Running", ("False", "False", "True", "False"), True, Exit.ERROR),
        ("Stopped", ("True", "False", "False", "False"), True, Exit.FINISHED),
        ("Stopped", ("False", "False", "True", "False"), True, Exit.ERROR),
        ("Error", ("False", "False", "True", "True"), True, Exit.ERROR),
    ],
)
def test_a_stream_is_settled_once_it_runs_well_or_stopped(
    phase: str, conditions: tuple[str, ...], settled: bool, code: Exit | None
) -> None:
    seen = statement(phase, conditions, spec=STREAM)
    assert seen.is_settled is settled
    if code is not None:
        assert seen.exit_code is code


@pytest.mark.parametrize(("phase", "code"), [("Running", Exit.ERROR), ("Finished", Exit.FINISHED)])
def test_statement_deleted_before_its_end_has_the_exit_code_of_an_error(phase: str, code: Exit) -> None:
    assert statement(phase, deleted=True).exit_code is code


def test_an_object_of_an_unknown_shape_is_a_clear_error_that_repeats_no_values() -> None:
    with pytest.raises(CliError, match=r"has a version that this plugin does not support: spec\.sql") as caught:
        Statement.of({"metadata": {"name": "s", "namespace": "n"}, "spec": {"sql": {"secret": "x"}}})
    assert "secret" not in str(caught.value)


def test_session_without_status_reads_as_empty_fields() -> None:
    session = Session.of({"metadata": {"name": "a", "namespace": "n"}})
    assert (session.status.phase, session.status.driver.pod_name, session.reason) == ("", "", "")
