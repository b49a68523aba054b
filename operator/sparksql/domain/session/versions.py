"""What a session says while its driver is of another version than the operator. Pure.

Nothing is restarted or failed for that: drivers go on with the image that they have while the operator is upgraded. One that does
not understand the operator, or is not understood by it, is handed nothing more, and what it runs goes on.
"""

from __future__ import annotations

from typing import assert_never

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType, find_condition
from sparksql.api.reasons import Reason
from sparksql.domain.event import Event
from sparksql.domain.session.snapshot import Snapshot
from sparksql.wire.control import GatewayInfo
from sparksql.wire.versions import OLDEST_GATEWAY, PROTOCOL_VERSION, Skew, skew_of


def incompatibility(gateway: GatewayInfo) -> str | None:
    """Tells why a driver can be handed nothing, and what to do; None if it can."""
    skew = skew_of(gateway.protocol_version, gateway.oldest_operator_version)
    return None if skew is None or skew.is_understood else _told(skew, gateway)[1]


def skew_conditions(s: Snapshot) -> tuple[Condition, ...]:
    """Says so while the driver is of another version; until the driver has said which one it has, what was known holds."""
    if s.gateway is None:
        known = find_condition(s.session.status.conditions, ConditionType.VERSION_SKEW)
        return (known,) if known is not None else ()
    skew = skew_of(s.gateway.protocol_version, s.gateway.oldest_operator_version)
    if skew is None:
        return ()
    reason, message = _told(skew, s.gateway)
    return (Condition(type=ConditionType.VERSION_SKEW, status=ConditionStatus.TRUE, reason=reason, message=message),)


def skew_events(s: Snapshot) -> tuple[Event, ...]:
    """Returns an Event of a difference that the status does not tell of yet."""
    known = find_condition(s.session.status.conditions, ConditionType.VERSION_SKEW)
    said = known.message if known is not None else None
    return tuple(
        Event("Warning" if c.reason == Reason.INCOMPATIBLE_DRIVER else "Normal", Reason(c.reason), c.message)
        for c in skew_conditions(s)
        if c.message != said
    )


def _told(skew: Skew, gateway: GatewayInfo) -> tuple[Reason, str]:
    theirs = f"the driver is of version {gateway.protocol_version} of the control protocol"
    waits = "it is handed no new statements, and what it runs goes on"
    match skew:
        case Skew.OLDER:
            remedy = "what is newer needs the next driver: change spec.restartNonce when it suits"
            return Reason.OLDER_DRIVER, f"{theirs}, older than the operator's {PROTOCOL_VERSION}: all goes on, {remedy}"
        case Skew.NEWER:
            remedy = "what is newer needs an upgrade of the operator"
            return Reason.NEWER_DRIVER, f"{theirs}, newer than the operator's {PROTOCOL_VERSION}: all goes on, {remedy}"
        case Skew.TOO_OLD:
            message = (
                f"{theirs}, and the operator understands {OLDEST_GATEWAY} and newer: {waits}; change spec.restartNonce"
            )
            return Reason.INCOMPATIBLE_DRIVER, message
        case Skew.TOO_NEW:
            needed = (
                f"works with operators of {gateway.oldest_operator_version} and newer, this one has {PROTOCOL_VERSION}"
            )
            return Reason.INCOMPATIBLE_DRIVER, f"{theirs} and {needed}: {waits}; upgrade the operator"
        case other:
            assert_never(other)
