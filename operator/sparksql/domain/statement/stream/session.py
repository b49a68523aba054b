"""A streaming statement at rest and its session: when it gives back its own, needs it again, or loses one for good. Pure."""

from __future__ import annotations

from sparksql.api.statement import StatementDesiredState as DesiredState
from sparksql.domain.statement.decision import Command, CreateSession, DeleteSession
from sparksql.domain.statement.snapshot import Snapshot
from sparksql.domain.statement.stream.savepoints import is_open, unrestorable
from sparksql.domain.statement.stream.spec import change, obstacle, streaming_of, unreadable


def at_rest_commands(s: Snapshot) -> tuple[Command, ...]:
    """At rest it gives back a session of its own: its state is in the storage. A savepoint that is to be made needs a driver,
    and with that the session, again."""
    if s.statement.spec.session is None:
        return ()
    has_state = streaming_of(s.statement).committed_batch_id is not None
    if has_state and any(is_open(savepoint) and not savepoint.deleting for savepoint in s.savepoints):
        return own_session(s)
    return (DeleteSession(),)


def own_session(s: Snapshot) -> tuple[Command, ...]:
    """Makes the session of its own that it has given back."""
    return (CreateSession(),) if s.statement.spec.session is not None and s.session is None else ()


def closed_under_it(s: Snapshot) -> str | None:
    """Why one that is Stopped has lost its session for good. It does not use a session that has closed by its own rules, and
    stays at rest until it is to run there; a session of its own is made anew when it goes on."""
    spec, session = s.statement.spec, s.session
    if session is None or not session.is_closing or spec.session is not None:
        return None
    if spec.desired_state is DesiredState.CANCELED or not (session.deleting or _is_to_go_on(s)):
        return None
    state = streaming_of(s.statement).checkpoint_location
    kept = f"; its state is kept in {state}, which a SqlSavepoint (source: Existing) adopts" if state else ""
    return f"session {session.name} is closed{kept}"


def _is_to_go_on(s: Snapshot) -> bool:
    """Whether it is wanted to run, and is not parked for what has not changed."""
    if s.statement.spec.desired_state is not DesiredState.RUNNING:
        return False
    return change(s) is not None or (obstacle(s) or unreadable(s) or unrestorable(s)) is None
