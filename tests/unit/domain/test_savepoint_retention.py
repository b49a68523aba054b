"""Retention of savepoints: each invariant as a property, the rules by example."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.savepoint import SavepointPhase, SavepointSource, SavepointTrigger
from sparksql.api.streaming import Retention
from sparksql.domain.savepoint.retention import KEPT_FAILURES, RetentionDecision, RetentionReason, Savepoint, evaluate

NOW = datetime(2026, 3, 4, 12, 30, tzinfo=UTC)  # a Wednesday
FAILED = (SavepointPhase.FAILED, SavepointPhase.ABANDONED)

ages = st.integers(-3600, 60 * 86_400).map(lambda seconds: timedelta(seconds=seconds))
zones = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-8))])


@st.composite
def savepoint_lists(draw: st.DrawFn) -> list[Savepoint]:
    found: list[Savepoint] = []
    for number in range(draw(st.integers(0, 14))):
        phase = draw(st.sampled_from([*SavepointPhase, SavepointPhase.COMPLETED, SavepointPhase.COMPLETED]))
        ended = (NOW - draw(ages)).astimezone(draw(zones)) if phase.is_terminal else None
        found.append(
            Savepoint(
                name=f"s{number}",
                phase=phase,
                ended=ended,
                trigger=draw(st.sampled_from([*SavepointTrigger, SavepointTrigger.PERIODIC])),
                source=draw(st.sampled_from([SavepointSource.COPY, SavepointSource.COPY, SavepointSource.EXISTING])),
                pinned=draw(st.integers(0, 5)) == 0,
            )
        )
    return found


counts = st.none() | st.integers(1, 6)
policies = st.builds(
    Retention,
    keep_last=counts,
    keep_within_seconds=st.none() | st.integers(0, 30 * 86_400),
    keep_hourly=counts,
    keep_daily=counts,
    keep_weekly=counts,
)
references = st.frozensets(st.integers(0, 13).map(lambda number: f"s{number}"), max_size=4)


def removed(verdicts: tuple[RetentionDecision, ...]) -> set[str]:
    return {verdict.name for verdict in verdicts if not verdict.keep}


@given(savepoint_lists(), policies, references)
def test_each_savepoint_has_one_verdict(saved: list[Savepoint], policy: Retention, used: frozenset[str]) -> None:
    verdicts = evaluate(saved, policy, NOW, used)
    assert sorted(verdict.name for verdict in verdicts) == sorted(savepoint.name for savepoint in saved)


@given(savepoint_lists(), policies, references)
def test_the_newest_that_is_complete_stays(saved: list[Savepoint], policy: Retention, used: frozenset[str]) -> None:
    complete = [s for s in saved if s.phase is SavepointPhase.COMPLETED]
    if complete:
        newest = max(complete, key=lambda s: (s.ended or NOW, s.name))
        assert newest.name not in removed(evaluate(saved, policy, NOW, used))


@given(savepoint_lists(), policies, references)
def test_retention_keeps_savepoints_that_statements_refer_to(
    saved: list[Savepoint], policy: Retention, used: frozenset[str]
) -> None:
    assert not removed(evaluate(saved, policy, NOW, used)) & used


@given(savepoint_lists(), policies, references)
def test_retention_keeps_manual_pinned_existing_and_unfinished_savepoints(
    saved: list[Savepoint], policy: Retention, used: frozenset[str]
) -> None:
    gone = removed(evaluate(saved, policy, NOW, used))
    for savepoint in saved:
        if savepoint.name in gone:
            assert savepoint.phase.is_terminal
            assert not savepoint.pinned
            assert savepoint.source is SavepointSource.COPY
            assert savepoint.trigger is not SavepointTrigger.MANUAL


@given(savepoint_lists(), policies, references)
def test_failures_take_nobodys_place_and_have_a_bound(
    saved: list[Savepoint], policy: Retention, used: frozenset[str]
) -> None:
    verdicts = evaluate(saved, policy, NOW, used)
    others = [savepoint for savepoint in saved if savepoint.phase not in FAILED]
    names = {savepoint.name for savepoint in others}
    assert evaluate(others, policy, NOW, used) == tuple(v for v in verdicts if v.name in names)
    assert [verdict.reason for verdict in verdicts].count(RetentionReason.RECENT_FAILURE) <= KEPT_FAILURES


@given(savepoint_lists(), policies)
def test_retention_removes_only_savepoints_that_no_rule_keeps(saved: list[Savepoint], policy: Retention) -> None:
    gone = removed(evaluate(saved, policy, NOW, frozenset()))
    given_rules = policy.model_dump(exclude_none=True)
    for field, value in given_rules.items():
        alone = evaluate(saved, Retention.model_validate({field: value}), NOW, frozenset())
        assert gone <= removed(alone), field
    by_each = [
        removed(evaluate(saved, Retention.model_validate({f: v}), NOW, frozenset())) for f, v in given_rules.items()
    ]
    assert not by_each or gone == set.intersection(*by_each)


@given(savepoint_lists(), policies, references)
def test_a_second_look_removes_nothing_more(saved: list[Savepoint], policy: Retention, used: frozenset[str]) -> None:
    gone = removed(evaluate(saved, policy, NOW, used))
    rest = [savepoint for savepoint in saved if savepoint.name not in gone]
    assert not removed(evaluate(rest, policy, NOW, used))


@given(savepoint_lists(), policies, references, ages)
def test_time_alone_brings_nothing_back(
    saved: list[Savepoint], policy: Retention, used: frozenset[str], later: timedelta
) -> None:
    first, second = (removed(evaluate(saved, policy, now, used)) for now in (NOW, NOW + abs(later)))
    assert first <= second


@given(savepoint_lists(), policies, references)
def test_the_order_of_the_list_does_not_matter(saved: list[Savepoint], policy: Retention, used: frozenset[str]) -> None:
    assert evaluate(saved, policy, NOW, used) == evaluate(reversed(saved), policy, NOW, used)


def periodic(*hours_ago: float) -> list[Savepoint]:
    return [Savepoint(f"h{hours:g}", SavepointPhase.COMPLETED, NOW - timedelta(hours=hours)) for hours in hours_ago]


def reasons(saved: list[Savepoint], policy: Retention, *used: str) -> dict[str, RetentionReason]:
    return {verdict.name: verdict.reason for verdict in evaluate(saved, policy, NOW, frozenset(used))}


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (Retention(), {"h0", "h1", "h1.4", "h2", "h25", "h49", "h200"}),
        (Retention(keep_last=2), {"h0", "h1"}),
        (Retention(keep_within_seconds=2 * 3600), {"h0", "h1", "h1.4", "h2"}),
        (Retention(keep_hourly=3), {"h0", "h1", "h2"}),  # 12:30, 11:30 (not 11:06), 10:30
        (Retention(keep_daily=3), {"h0", "h25", "h49"}),
        (Retention(keep_weekly=2), {"h0", "h200"}),  # this week and the one that began on 23 February
        (Retention(keep_last=1, keep_weekly=2), {"h0", "h200"}),
    ],
)
def test_retention_rules_keep_the_last_recent_hourly_daily_or_weekly_savepoints(
    policy: Retention, kept: set[str]
) -> None:
    told = reasons(periodic(0, 1, 1.4, 2, 25, 49, 200), policy)
    assert {name for name, reason in told.items() if reason.keeps} == kept


def test_a_calendar_rule_passes_over_what_has_no_savepoint() -> None:
    assert reasons(periodic(0, 24 * 10, 24 * 40), Retention(keep_daily=3))["h960"] is RetentionReason.DAILY


def test_the_reason_that_is_told() -> None:
    saved = periodic(0, 1, 2, 3, 4, 5)
    saved[1] = replace(saved[1], trigger=SavepointTrigger.MANUAL)
    saved[2] = replace(saved[2], pinned=True)
    saved[3] = replace(saved[3], source=SavepointSource.EXISTING)
    failed = [Savepoint(f"f{n}", SavepointPhase.FAILED, NOW - timedelta(minutes=n)) for n in range(5)]
    running = Savepoint("now", SavepointPhase.IN_PROGRESS, None)
    assert reasons([*saved, *failed, running], Retention(keep_last=1), "h5", "f4") == {
        "now": RetentionReason.UNFINISHED,
        "h0": RetentionReason.NEWEST,
        "h1": RetentionReason.MANUAL,
        "h2": RetentionReason.PINNED,
        "h3": RetentionReason.EXISTING,
        "h4": RetentionReason.NO_RULE_KEEPS_IT,
        "h5": RetentionReason.REFERENCED,
        "f0": RetentionReason.RECENT_FAILURE,
        "f1": RetentionReason.RECENT_FAILURE,
        "f2": RetentionReason.RECENT_FAILURE,
        "f3": RetentionReason.OLD_FAILURE,
        "f4": RetentionReason.REFERENCED,
    }
