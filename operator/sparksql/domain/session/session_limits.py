"""Limits of sessions: of the operator, of a class, of a class in a namespace. Pure.

A place is taken by a session that has a driver or is about to get one; those that wait for a place get it in order of their
creation. One that waits for something else takes none and holds up nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.domain.violation import Violation

_HOLDING = frozenset({Phase.STARTING, Phase.READY, Phase.DRAINING})
_WAITING = frozenset({None, Phase.PENDING})


@dataclass(frozen=True)
class SessionQueueEntry:
    """Describes a session as the limits see it.

    `held_up`: it is Stalled for another reason than a limit; `wanted`: it is to have a driver.
    """

    namespace: str
    name: str
    created: str
    class_name: str
    phase: Phase | None
    held_up: bool = False
    wanted: bool = True

    @property
    def age(self) -> tuple[str, str, str]:
        """Sorts older ones first."""
        return (self.created, self.namespace, self.name)


@dataclass(frozen=True)
class SessionLimits:
    """Bounds the sessions of each kind; None = no limit."""

    of_operator: int | None = None
    of_class: int | None = None
    of_class_in_namespace: int | None = None


def limit_violation(
    session: SessionQueueEntry, others: Iterable[SessionQueueEntry], bounds: SessionLimits
) -> Violation | None:
    """Tells why there is no place for `session` among the others, naming the first limit that is reached."""
    before = [other for other in others if _goes_before(other, session)]
    of_class = [other for other in before if other.class_name == session.class_name]
    beside = [other for other in of_class if other.namespace == session.namespace]
    name = session.class_name
    checks = (
        (bounds.of_class_in_namespace, beside, f"class {name} (limits.sessionsPerNamespace)", "in one namespace"),
        (bounds.of_class, of_class, f"class {name} (limits.sessions)", "in all namespaces together"),
        (bounds.of_operator, before, "the operator (Helm value operator.limits.sessions)", "in all"),
    )
    for limit, taken, whose, where in checks:
        if limit is not None and len(taken) >= limit:
            return Violation(Reason.LIMIT_EXCEEDED, _message(limit, whose, where))
    return None


def _goes_before(other: SessionQueueEntry, session: SessionQueueEntry) -> bool:
    if (other.namespace, other.name) == (session.namespace, session.name):
        return False
    if other.phase in _HOLDING:
        return True
    return other.phase in _WAITING and other.wanted and not other.held_up and other.age < session.age


def _message(limit: int, whose: str, where: str) -> str:
    if limit == 0:
        return f"{whose} allows no sessions {where}"
    sessions = "1 session" if limit == 1 else f"{limit} sessions"
    remedy = "This one starts when there is a place: use another one, stop or delete one, or have the limit raised"
    return f"{whose} allows {sessions} {where}, and as many have a driver or wait longer. {remedy}"
