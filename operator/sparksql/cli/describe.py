"""`kubectl sparksql describe`: what `kubectl describe` shows, without configuration and certificates, each message once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from sparksql.cli import render
from sparksql.cli.cells import printable
from sparksql.cli.console import Console
from sparksql.cli.errors import Exit
from sparksql.cli.kubectl import Kubectl, KubectlError
from sparksql.cli.objects import SESSIONS, STATEMENTS, Condition, Resource, Session, Statement
from sparksql.wire.model import WireModel

MAX_EVENTS = 10  # the newest


class Occurrence(WireModel):
    """Holds an Event about the object."""

    type: str = ""
    reason: str = ""
    message: str | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None

    @property
    def time(self) -> datetime | None:
        """Returns when it came last."""
        return self.last_timestamp or self.event_time


async def describe(kubectl: Kubectl, console: Console, name: str, *, is_session: bool) -> Exit:
    """Prints a statement, or a session. Events are left out, with a note, for a user who may not list them."""
    found: Session | Statement
    if is_session:
        found = Session.of(await kubectl.get(SESSIONS, name))
        text = session_text(found)
    else:
        found = Statement.of(await kubectl.get(STATEMENTS, name))
        text = statement_text(found)
    console.write(text)
    try:
        events = await _events(kubectl, found)
    except KubectlError as error:
        console.note(f"Events are not shown: {error}")
        return Exit.FINISHED
    console.write(events_text(events, text, datetime.now(UTC)))
    return Exit.FINISHED


async def _events(kubectl: Kubectl, about: Resource) -> list[Occurrence]:
    items = await kubectl.list("events", about.namespace, f"involvedObject.uid={about.metadata.uid}")
    events = [Occurrence.model_validate(item) for item in items]
    return sorted(events, key=lambda event: event.time or datetime.min.replace(tzinfo=UTC))[-MAX_EVENTS:]


def session_text(session: Session) -> str:
    """Renders a session."""
    status = session.status
    told = _Told()
    rows = [
        ("Session", f"{session.namespace}/{session.name}"),
        ("Class", status.class_name or session.spec.class_name or "(the default class, not resolved yet)"),
        ("Phase", _phase(status.phase, session.reason)),
        ("Message", told.once(session.ready.message)),
        ("Driver", status.driver.pod_name),
        ("Executors", told.once(status.executors.message if status.executors else "")),
        ("Endpoints", ", ".join(sorted(session.open_endpoints))),
        ("Front", status.front or ""),
        ("Statements", f"{status.statements.running} running, {status.statements.queued} queued"),
        ("Clients", str(status.clients.sessions)),
    ]
    more = f"{len(status.configuration)} values: kubectl sparksql config {session.name}" if status.configuration else ""
    return _fields([*rows, ("Configuration", more)]) + _conditions(status.conditions, told)


def statement_text(statement: Statement) -> str:
    """Renders a statement, with its error's place in the text, or how many rows it has."""
    status, told = statement.status, _Told()
    rows = [
        ("Statement", f"{statement.namespace}/{statement.name}"),
        ("Session", _session_of(statement)),
        ("Phase", _phase(status.phase, statement.why.reason)),
        ("Mode", statement.spec.mode.value),
        ("Type", status.statement_type or ""),
        ("Progress", "" if statement.has_ended else render.counts(statement)),
        ("Duration", "" if status.duration_millis is None else render.duration(status.duration_millis / 1000)),
        ("Message", "" if status.error is not None else told.once(statement.why.message)),
    ]
    if status.result is not None and status.result.columns:
        rows.append(("Result", f"{status.result.row_count} rows: kubectl sparksql results {statement.name}"))
    text = _fields(rows)
    if status.error is not None:
        told.once(status.error.message)
        text += "\n" + render.failure(statement)
    return text + _conditions(status.conditions, told)


def events_text(events: Iterable[Occurrence], before: str, now: datetime) -> str:
    """Renders Events, without a message that stands in the text before them already; empty for none."""
    told = _Told(before)
    rows = []
    for event in events:
        age = "" if event.time is None else render.duration(max(0.0, (now - event.time).total_seconds()))
        rows.append([age, event.type, event.reason, told.once(event.message or "")])
    return "\n" + render.grid(("AGE", "EVENT", "REASON", "MESSAGE"), rows) if rows else ""


class _Told:
    """Messages that are shown already. Conditions and Events repeat the object's own."""

    def __init__(self, text: str = "") -> None:
        self._text = _words(text)

    def once(self, message: str) -> str:
        """Returns the message on one line, or nothing if it was told before."""
        words = _words(message)
        if not words or words in self._text:
            return ""
        self._text += "\n" + words
        return words


def _words(text: str) -> str:
    return " ".join(printable(text, keep="\n\t").split())


def _phase(phase: str, reason: str) -> str:
    return f"{phase or 'new'} ({reason})" if reason and reason != phase else phase or "new"


def _session_of(statement: Statement) -> str:
    own = " (its own)" if statement.is_dedicated else ""
    return f"{statement.session_name or '(not made yet)'}{own}"


def _fields(rows: Iterable[tuple[str, str]]) -> str:
    return "".join(f"{name + ':':<15}{printable(value)}\n" for name, value in rows if value)


def _conditions(conditions: Iterable[Condition], told: _Told) -> str:
    rows = [[each.type, each.status, each.reason, told.once(each.message)] for each in _sorted(conditions)]
    return "\n" + render.grid(("CONDITION", "STATUS", "REASON", "MESSAGE"), rows) if rows else ""


def _sorted(conditions: Iterable[Condition]) -> Iterator[Condition]:
    yield from sorted(conditions, key=lambda each: each.type != "Ready")
