"""The chains of rules that decide about statements: their order is what is promised, and each of them has an answer."""

from __future__ import annotations

from types import NoneType
from typing import get_args, get_type_hints

import pytest

from sparksql.api.statement import SqlStatementStatus
from sparksql.api.streaming import StreamingStatus
from sparksql.domain.statement.chain import Chain, first_answer
from sparksql.domain.statement.status import StatusUpdate
from sparksql.domain.statement.stream.facts import StreamFacts
from sparksql.domain.statement.stream.run import ATTEMPT_OVER, SUSPENDED
from sparksql.domain.statement.stream.status import StreamingUpdate
from sparksql.domain.statement.waiting import INITIALIZED
from sparksql.wire.control import StreamProgress
from tests.unit.domain.builders.statements import statement, statement_snapshot

CHAINS: dict[str, tuple[Chain, str]] = {
    "Initialized": (
        INITIALIZED,
        "stop_with_savepoint cancel_on_request read_changed_text reject_unusable_spec close_with_session "
        "save_before_change restore_before_change apply_spec_change wait_for_savepoint reject_full_queue "
        "reject_failed_dependency wait_for_dependencies wait_for_backoff wait_for_driver wait_for_class "
        "wait_for_turn wait_for_state wait_for_references reject_changed_text submit",
    ),
    "attempt over": (
        ATTEMPT_OVER,
        "end_with_query cancel_on_request close_with_session stop_with_savepoint save_before_change "
        "restore_before_change refuse_blocked_start start_with_change park_lost_rows follow_misfit stall_unrunnable "
        "suspend_canceled resume_after_shutdown restart_after_failure",
    ),
    "Stopped": (
        SUSPENDED,
        "read_inputs read_for_validation close_with_lost_session cancel_on_request stay_stopped save_before_change "
        "restore_before_change refuse_blocked_start start_with_change resume_on_request",
    ),
}


@pytest.mark.parametrize(("chain", "names"), CHAINS.values(), ids=CHAINS)
def test_chain_has_its_rules_in_their_order(chain: Chain, names: str) -> None:
    assert [rule.__name__ for rule in chain] == names.split()


@pytest.mark.parametrize("chain", [chain for chain, _ in CHAINS.values()], ids=CHAINS)
def test_only_the_last_rule_of_a_chain_must_have_an_answer(chain: Chain) -> None:
    may_pass = [NoneType in get_args(get_type_hints(rule)["return"]) for rule in chain]
    assert may_pass == [*[True] * (len(chain) - 1), False]


def test_chain_without_an_answer_is_an_error() -> None:
    with pytest.raises(ValueError, match="must have an answer"):
        first_answer(INITIALIZED[:1], statement_snapshot(statement()), StreamFacts())


def test_updates_name_fields_that_the_status_has() -> None:
    assert StatusUpdate.__annotations__.keys() <= SqlStatementStatus.model_fields.keys()
    assert StreamingUpdate.__annotations__.keys() <= StreamingStatus.model_fields.keys()


def test_every_field_of_a_report_has_a_place_in_the_status() -> None:
    in_result = {"rows_written"}
    assert StreamProgress.model_fields.keys() - in_result <= StreamingUpdate.__annotations__.keys()
