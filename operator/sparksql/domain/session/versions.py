"""What a session says while its driver is of another version than the operator. Pure.

Nothing is restarted or failed for that: drivers go on with the image that they have while the operator is upgraded. One that does
not understand the operator, or is not understood by it, is handed nothing more, and what it runs goes on.
"""

from __future__ import annotations

from typing import assert_never

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType, find_condition
from sparksql.api.reasons import Reason
from sparksql.domain.event import Event
from sparksql.domain.public_text import Message, compose
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
    difference = _difference(s)
    if difference is None:
        return ()
    reason, message = difference
    return (Condition(type=ConditionType.VERSION_SKEW, status=ConditionStatus.TRUE, reason=reason, message=message),)


def skew_events(s: Snapshot) -> tuple[Event, ...]:
    """Returns an Event of a difference that the status does not tell of yet."""
    known = find_condition(s.session.status.conditions, ConditionType.VERSION_SKEW)
    difference = _difference(s)
    if difference is None or (known is not None and known.message == difference[1]):
        return ()
    reason, message = difference
    return (Event.of("Warning" if reason is Reason.INCOMPATIBLE_DRIVER else "Normal", reason, message),)


def _difference(s: Snapshot) -> tuple[Reason, Message] | None:
    """The reason and message of a driver of another version that has said which one it has."""
    if s.gateway is None:
        return None
    skew = skew_of(s.gateway.protocol_version, s.gateway.oldest_operator_version)
    return None if skew is None else _told(skew, s.gateway)


def _told(skew: Skew, gateway: GatewayInfo) -> tuple[Reason, Message]:
    theirs = compose("the driver is of version {version} of the control protocol", version=gateway.protocol_version)
    waits = compose("it gets no new statements; what runs continues")
    match skew:
        case Skew.OLDER:
            remedy = compose("what is newer needs the next driver: change spec.restartNonce when it suits")
            return Reason.OLDER_DRIVER, compose(
                "{theirs}, older than the operator's {ours}: everything continues, {remedy}",
                theirs=theirs,
                ours=PROTOCOL_VERSION,
                remedy=remedy,
            )
        case Skew.NEWER:
            remedy = compose("what is newer needs an upgrade of the operator")
            return Reason.NEWER_DRIVER, compose(
                "{theirs}, newer than the operator's {ours}: everything continues, {remedy}",
                theirs=theirs,
                ours=PROTOCOL_VERSION,
                remedy=remedy,
            )
        case Skew.TOO_OLD:
            message = compose(
                "{theirs}, and the operator understands {oldest} and newer: {waits}; change spec.restartNonce",
                theirs=theirs,
                oldest=OLDEST_GATEWAY,
                waits=waits,
            )
            return Reason.INCOMPATIBLE_DRIVER, message
        case Skew.TOO_NEW:
            needed = compose(
                "works with operators of {oldest} and newer, this one has {ours}",
                oldest=gateway.oldest_operator_version,
                ours=PROTOCOL_VERSION,
            )
            return Reason.INCOMPATIBLE_DRIVER, compose(
                "{theirs} and {needed}: {waits}; upgrade the operator", theirs=theirs, needed=needed, waits=waits
            )
        case other:
            assert_never(other)
