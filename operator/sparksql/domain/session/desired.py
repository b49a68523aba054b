"""What a session's spec, class and age ask for: readings of a snapshot that the decisions share."""

from __future__ import annotations

import hashlib
import json

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType
from sparksql.api.names import ANNOTATION_WAKE
from sparksql.api.reasons import Reason
from sparksql.api.session import WAKE_CHARS, KeptState, SessionDesiredState, SqlSessionSpec
from sparksql.api.settings import Idle, IdleAction
from sparksql.domain.public_text import Message, compose
from sparksql.domain.session.counters import is_used, was_used
from sparksql.domain.session.resolve import Resolved
from sparksql.domain.session.snapshot import Snapshot

_NOT_THE_DRIVERS = (
    "desiredState",
    "idle",
    "maxLifetimeSeconds",
    "maxQueuedStatements",
    "statementTimeouts",
    "restartNonce",
)


def driver_spec_hash(spec: SqlSessionSpec) -> str:
    """Returns the hash of the part of the spec that a running driver cannot take over: a change of it needs a new driver."""
    relevant = {key: value for key, value in spec.to_dict().items() if key not in _NOT_THE_DRIVERS}
    return hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()[:16]


def wants_stop(s: Snapshot) -> bool:
    """Tells whether the driver must end and the object stay."""
    return s.session.spec.desired_state is SessionDesiredState.STOPPED


def wants_restart(s: Snapshot) -> bool:
    """Tells whether the spec asks for another driver than the one that was started."""
    return driver_spec_hash(s.session.spec) != s.session.status.config_hash


def phase_age(s: Snapshot) -> float:
    """Returns the seconds since the current phase began."""
    since = s.session.status.phase_since
    return (s.now - since).total_seconds() if since is not None else 0.0


def lifetime_left(s: Snapshot) -> float | None:
    """Returns the seconds until `maxLifetimeSeconds` closes the session, None without a limit."""
    limit = s.resolution.settings.max_lifetime_seconds if isinstance(s.resolution, Resolved) else 0
    created = s.session.metadata.creation_timestamp
    if not limit or created is None:
        return None
    return max(0.0, limit - (s.now - created).total_seconds())


def _idle(s: Snapshot) -> Idle:
    return (s.resolution.settings.idle if isinstance(s.resolution, Resolved) else None) or Idle()


def idle_action(s: Snapshot) -> IdleAction | None:
    """Returns what becomes of the session when it has not been used for its idle time; None without such a time."""
    settings = _idle(s)
    return settings.action if settings.timeout_seconds else None


def idle_left(s: Snapshot) -> float | None:
    """Returns the seconds until the idle timeout takes the driver; None while it is busy, need not go or must stay.

    A client's open session is use: the gateway ends those that are not used, by a timeout of their own.
    """
    settings = _idle(s)
    if not settings.timeout_seconds or is_used(s):
        return None
    if settings.action is IdleAction.HIBERNATE and (s.gateway is None or held_state(s) is not None):
        return None
    seen = [t for t in (s.session.status.last_activity_time, s.session.status.phase_since) if t is not None]
    if s.gateway is not None and s.gateway.last_activity_time is not None:
        seen.append(s.gateway.last_activity_time)
    if not seen or was_used(s.session.status):
        return float(settings.timeout_seconds)
    return max(0.0, settings.timeout_seconds - (s.now - max(seen)).total_seconds())


def held_state(s: Snapshot) -> str | None:
    """Says what a driver that ends would take with it for good, and what to do; None if nothing.

    The contract: a session that holds such state is not hibernated.
    """
    if s.gateway is None or not s.gateway.has_session_state:
        return None
    held = "statements have made temporary views, settings or variables, which would be lost"
    if not _idle(s).restore_state:
        return f"{held}: set idle.restoreState to have these statements run again at the wake, or move them into init"
    if s.gateway.state_obstacle is not None:
        return f"{held}: {s.gateway.state_obstacle}; restart the session (restartNonce) to give them up"
    if not s.gateway.restorable_statements:
        return f"{held}: the driver is of an earlier version, which keeps no statements; change restartNonce"
    return None


def kept_state(s: Snapshot) -> KeptState | None:
    """Returns what the next driver can begin with, None if there is nothing to bring back or it cannot be."""
    if s.gateway is None or not s.gateway.has_session_state or held_state(s) is not None:
        return None
    return KeptState(statements=s.gateway.restorable_statements, incarnation=s.gateway.incarnation)


def wake_wish(s: Snapshot) -> str:
    """Returns what the session's annotation `sparksql.dev/wake` says now, empty without one."""
    return s.session.metadata.annotations.get(ANNOTATION_WAKE, "")[:WAKE_CHARS]


def hibernation_conditions(s: Snapshot) -> tuple[Condition, ...]:
    """Says beforehand whether a session that is Ready would hibernate, and with what."""
    settings = _idle(s)
    if idle_action(s) is not IdleAction.HIBERNATE:
        return ()
    held, kept = held_state(s), kept_state(s)
    if held is not None:
        return (_hibernation(ConditionStatus.FALSE, Reason.HOLDS_SESSION_STATE, f"stays up: {held}"),)
    message = f"hibernates after {settings.timeout_seconds} s without use"
    if kept is not None:
        message += f"; {counted_statements(kept)} run again at the wake"
    return (_hibernation(ConditionStatus.TRUE, Reason.HIBERNATES_WHEN_IDLE, message),)


def hibernated_conditions(kept: KeptState | None) -> tuple[Condition, ...]:
    """Says that a session hibernates, and with what."""
    message = f"{counted_statements(kept)} run again at the wake" if kept is not None else ""
    return (_hibernation(ConditionStatus.TRUE, Reason.HIBERNATED, message),)


def counted_statements(kept: KeptState) -> Message:
    """Returns the number of kept statements in words."""
    return compose("1 statement") if kept.statements == 1 else compose("{count} statements", count=kept.statements)


def _hibernation(status: ConditionStatus, reason: Reason, message: str) -> Condition:
    return Condition(type=ConditionType.HIBERNATION, status=status, reason=reason, message=message)


def state_lost_conditions(s: Snapshot) -> tuple[Condition, ...]:
    """Says so when the driver that is gone held what statements had made of its session."""
    if s.gateway is None or not s.gateway.has_session_state:
        return ()
    message = "temporary views, settings and variables made by statements died with the driver; use spec.init for what must survive"
    return (_state_lost(message),)


def not_restored_conditions(s: Snapshot) -> tuple[Condition, ...]:
    """Says so when the driver that is Ready has not all of the state that was kept for it."""
    if s.gateway is None or s.gateway.state_lost is None:
        return ()
    return (_state_lost(f"after the wake {s.gateway.state_lost}"),)


def _state_lost(message: str) -> Condition:
    return Condition(
        type=ConditionType.SESSION_STATE_LOST,
        status=ConditionStatus.TRUE,
        reason=Reason.SESSION_STATE_LOST,
        message=message,
    )
