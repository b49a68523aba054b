"""A suspended streaming statement and its session: given back, made again, or lost for good. Pure."""

from __future__ import annotations

from sparksql.api.statement import StatementDesiredState as DesiredState
from sparksql.domain.statement.decision import Command, CreateSession, DeleteSession
from sparksql.domain.statement.snapshot import Snapshot
from sparksql.domain.statement.stream.facts import StreamFacts
from sparksql.domain.statement.stream.savepoints import is_open
from sparksql.domain.statement.stream.spec import streaming_of


def suspended_session_commands(s: Snapshot) -> tuple[Command, ...]:
    """Gives back a session of the statement's own: the state is in the storage.

    A savepoint that is to be made needs a driver, and so the session, again.
    """
    if s.statement.spec.session is None:
        return ()
    has_state = streaming_of(s.statement).committed_batch_id is not None
    if has_state and any(is_open(savepoint) and not savepoint.deleting for savepoint in s.savepoints):
        return own_session_commands(s)
    return (DeleteSession(),)


def own_session_commands(s: Snapshot) -> tuple[Command, ...]:
    """Makes the session of the statement's own again that was given back."""
    return (CreateSession(),) if s.statement.spec.session is not None and s.session is None else ()


def session_loss(s: Snapshot, facts: StreamFacts) -> str | None:
    """Returns why a Stopped statement has lost its session for good, if it has.

    A session that has closed by its own rules is not in use, so the statement stays suspended until it is to run there;
    a session of its own is made again when it resumes.
    """
    spec, session = s.statement.spec, s.session
    if session is None or not session.is_closing or spec.session is not None:
        return None
    if spec.desired_state is DesiredState.CANCELED or not (session.deleting or _is_to_resume(s, facts)):
        return None
    state = streaming_of(s.statement).checkpoint_location
    kept = f"; its state remains in {state}, which a SqlSavepoint (source: Existing) adopts" if state else ""
    return f"session {session.name} is closed{kept}"


def _is_to_resume(s: Snapshot, facts: StreamFacts) -> bool:
    """Tells whether the statement is wanted to run, and is not stalled for what has not changed."""
    if s.statement.spec.desired_state is not DesiredState.RUNNING:
        return False
    return facts.change is not None or facts.start_blocker is None
