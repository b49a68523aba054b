"""What a session's spec, class and age ask for: readings of a snapshot that the decisions share."""

from __future__ import annotations

import hashlib
import json

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionDesiredState, SqlSessionSpec
from sparksql.api.settings import Idle, IdleAction
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


def idle_left(s: Snapshot) -> float | None:
    """Returns the seconds until the idle timeout closes the session; None while it is busy or need not be closed.

    A client's open session is use: the gateway ends those that are not used, by a timeout of their own.
    """
    settings = _idle(s)
    if not settings.timeout_seconds or settings.action is not IdleAction.CLOSE or is_used(s):
        return None
    seen = [t for t in (s.session.status.last_activity_time, s.session.status.phase_since) if t is not None]
    if s.gateway is not None and s.gateway.last_activity_time is not None:
        seen.append(s.gateway.last_activity_time)
    if not seen or was_used(s.session.status):
        return float(settings.timeout_seconds)
    return max(0.0, settings.timeout_seconds - (s.now - max(seen)).total_seconds())


def idle_conditions(s: Snapshot) -> tuple[Condition, ...]:
    """Says so while `Hibernate` behaves as staying up."""
    settings = _idle(s)
    if settings.action is not IdleAction.HIBERNATE or not settings.timeout_seconds:
        return ()
    message = "idle.action Hibernate is not implemented yet: an idle session stays up. Use Close to end it"
    return (
        Condition(
            type=ConditionType.HIBERNATION,
            status=ConditionStatus.FALSE,
            reason=Reason.HIBERNATE_NOT_IMPLEMENTED,
            message=message,
        ),
    )


def state_lost_conditions(s: Snapshot) -> tuple[Condition, ...]:
    """Says so when the driver that is gone held what statements had made of its session."""
    if s.gateway is None or not s.gateway.has_session_state:
        return ()
    message = "temporary views, settings and variables made by statements died with the driver; use spec.init for what must survive"
    return (
        Condition(
            type=ConditionType.SESSION_STATE_LOST,
            status=ConditionStatus.TRUE,
            reason=Reason.SESSION_STATE_LOST,
            message=message,
        ),
    )
