"""Which savepoints of a statement stay. Pure: savepoints, policy, time and references in, a decision on each out.

A savepoint stays if any rule keeps it. The calendar rules are restic's: the newest of each of the last hours, days or weeks that
have one at all, in UTC. Invariants: the newest completed one stays, and so does what somebody refers to, what a person made,
pinned or brought, and what is still being taken; those that failed take nobody's place and have a bound of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from sparksql.api.savepoint import SavepointPhase, SavepointSource, SavepointTrigger
from sparksql.api.streaming import Retention

KEPT_FAILURES = 3  # of the resource contract: enough to see what went wrong


class RetentionReason(StrEnum):
    """Tells why a savepoint stays, or goes."""

    UNFINISHED = "it is in progress"
    MANUAL = "it was asked for"
    EXISTING = "it was adopted"
    PINNED = "it is pinned"
    REFERENCED = "it is referred to"
    NEWEST = "it is the newest that is complete"
    NO_RULES = "the statement has no rules of retention"
    LAST = "keepLast"
    WITHIN = "keepWithinSeconds"
    HOURLY = "keepHourly"
    DAILY = "keepDaily"
    WEEKLY = "keepWeekly"
    RECENT_FAILURE = "it is one of the last that failed"
    NO_RULE_KEEPS_IT = "no rule keeps it"
    OLD_FAILURE = "it failed, and later ones did too"

    @property
    def keeps(self) -> bool:
        """Tells whether this is a reason to keep the savepoint."""
        return self not in (RetentionReason.NO_RULE_KEEPS_IT, RetentionReason.OLD_FAILURE)


@dataclass(frozen=True)
class Savepoint:
    """Holds what the decision needs of a SqlSavepoint.

    `ended` is its completion time, with a time zone; None while it is unfinished.
    """

    name: str
    phase: SavepointPhase
    ended: datetime | None
    trigger: SavepointTrigger = SavepointTrigger.PERIODIC
    source: SavepointSource = SavepointSource.COPY
    pinned: bool = False


@dataclass(frozen=True)
class RetentionDecision:
    """Tells whether the SqlSavepoint `name` stays, and why."""

    name: str
    reason: RetentionReason

    @property
    def keep(self) -> bool:
        """Tells whether the savepoint is kept."""
        return self.reason.keeps


def evaluate(
    savepoints: Iterable[Savepoint], policy: Retention, now: datetime, references: frozenset[str]
) -> tuple[RetentionDecision, ...]:
    """Decides on each savepoint of one statement, the newest first.

    `references` are names in a statement's status or `startFrom`, of an upgrade under way or of what it may go back to. Of the
    reasons to keep one, the first in the order of `RetentionReason` is told.
    """
    newest_first = sorted(savepoints, key=lambda s: (s.ended is None, s.ended or now, s.name), reverse=True)
    complete = [s for s in newest_first if s.phase is SavepointPhase.COMPLETED and s.ended is not None]
    failed = [s for s in newest_first if s.phase in (SavepointPhase.FAILED, SavepointPhase.ABANDONED)]
    by_rule = dict(_kept_by_rules([s for s in complete if _is_automatic(s)], policy, now))
    recent = {s.name for s in [s for s in failed if _is_automatic(s) and s.name not in references][:KEPT_FAILURES]}

    def reason_of(savepoint: Savepoint) -> RetentionReason:
        name = savepoint.name
        if not savepoint.phase.is_terminal or savepoint.ended is None:
            return RetentionReason.UNFINISHED
        if not _is_automatic(savepoint):
            return _of_a_person(savepoint)
        if name in references:
            return RetentionReason.REFERENCED
        if savepoint.phase is not SavepointPhase.COMPLETED:
            return RetentionReason.RECENT_FAILURE if name in recent else RetentionReason.OLD_FAILURE
        if name == complete[0].name:
            return RetentionReason.NEWEST
        return by_rule.get(name, RetentionReason.NO_RULE_KEEPS_IT)

    return tuple(RetentionDecision(savepoint.name, reason_of(savepoint)) for savepoint in newest_first)


def _is_automatic(savepoint: Savepoint) -> bool:
    """Whether retention may remove it at all."""
    return savepoint.source.owns_data and not savepoint.pinned and savepoint.trigger is not SavepointTrigger.MANUAL


def _of_a_person(savepoint: Savepoint) -> RetentionReason:
    if savepoint.source is SavepointSource.EXISTING:
        return RetentionReason.EXISTING
    return RetentionReason.PINNED if savepoint.pinned else RetentionReason.MANUAL


def _kept_by_rules(
    newest_first: Sequence[Savepoint], policy: Retention, now: datetime
) -> Iterator[tuple[str, RetentionReason]]:
    """Names that a rule keeps; of several rules the first of `RetentionReason` comes last."""
    calendar: tuple[tuple[int | None, Callable[[datetime], Hashable], RetentionReason], ...] = (
        (policy.keep_weekly, lambda time: time.isocalendar()[:2], RetentionReason.WEEKLY),
        (policy.keep_daily, datetime.date, RetentionReason.DAILY),
        (policy.keep_hourly, lambda time: (time.date(), time.hour), RetentionReason.HOURLY),
    )
    for count, period, reason in calendar:
        if count is not None:
            yield from ((name, reason) for name in _newest_of_each(newest_first, period, count))
    if policy.keep_within_seconds is not None:
        since = now - timedelta(seconds=policy.keep_within_seconds)
        yield from ((s.name, RetentionReason.WITHIN) for s in newest_first if s.ended is not None and s.ended >= since)
    if policy.keep_last is not None:
        yield from ((s.name, RetentionReason.LAST) for s in newest_first[: policy.keep_last])
    if policy == Retention():
        yield from ((s.name, RetentionReason.NO_RULES) for s in newest_first)


def _newest_of_each(
    newest_first: Sequence[Savepoint], period: Callable[[datetime], Hashable], count: int
) -> Iterator[str]:
    seen: set[Hashable] = set()
    for savepoint in newest_first:
        if savepoint.ended is None:
            continue
        this = period(savepoint.ended.astimezone(UTC))
        if this in seen:
            continue
        if len(seen) == count:
            return
        seen.add(this)
        yield savepoint.name
