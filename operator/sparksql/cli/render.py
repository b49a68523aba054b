"""What the user sees, as text: tables, CSV, JSON, errors with a caret, the progress line. Pure.

Everything that came from a cluster goes through `printable` here, so that no cell, message or name can drive a
terminal; CSV and JSON are the exception, their writers do so when they write to one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sparksql.cli.cells import Cell, cell_text, is_number, json_cell, json_text, printable, width
from sparksql.cli.objects import Session, Statement
from sparksql.wire.clients import ClientsView
from sparksql.wire.control import Column, ResultSummary

Row = Sequence[Cell]

_GUTTER = " | "


def aligned(text: str, columns: int, right: bool) -> str:
    """Text filled with spaces up to a width in terminal columns."""
    filling = " " * (columns - width(text))
    return filling + text if right else text + filling


def table(columns: Sequence[Column], rows: Iterable[Row]) -> str:
    """Renders a result as an aligned table; NULL is shown as such, a row takes one line. Empty for no columns.

    A single cell, such as a plan or a CREATE statement, is a text: it has its own lines.
    """
    if not columns:
        return ""
    cells = [["NULL" if (text := cell_text(value)) is None else text for value in row] for row in rows]
    if len(cells) == len(columns) == 1:
        cells = [[line] for line in cells[0][0].rstrip("\n").expandtabs().split("\n")]
    cells = [[printable(text) for text in row] for row in cells]
    names = [printable(column.name) for column in columns]
    sizes = [max([width(name), *(width(row[at]) for row in cells)]) for at, name in enumerate(names)]
    right = [is_number(column.type) for column in columns]
    head = _GUTTER.join(aligned(*pair, right=False) for pair in zip(names, sizes, strict=True))
    rule = "-+-".join("-" * size for size in sizes)
    body = [_GUTTER.join(aligned(*cell) for cell in zip(row, sizes, right, strict=True)) for row in cells]
    return "".join(line.rstrip() + "\n" for line in (head, rule, *body))


def fits(text: str, columns: int) -> bool:
    """Tells whether no line of a rendered text is wider than a terminal of so many columns."""
    return all(width(line) <= columns for line in text.split("\n"))


def expanded(columns: Sequence[Column], rows: Iterable[Row]) -> str:
    """Renders each row as a record, one line a column; a value of several lines keeps them. Empty for no columns."""
    if not columns:
        return ""
    names = [printable(column.name) for column in columns]
    size = max(map(width, names))
    margin = " " * size + _GUTTER
    lines = []
    for number, row in enumerate(rows, start=1):
        lines.append(f"-[ row {number} ]".ljust(size + len(_GUTTER), "-"))
        for name, value in zip(names, row, strict=True):
            text = "NULL" if (cell := cell_text(value)) is None else cell
            first, *rest = [printable(line) for line in text.rstrip("\n").expandtabs().split("\n")]
            lines.append((aligned(name, size, right=False) + _GUTTER + first).rstrip())
            lines += [(margin + line).rstrip() for line in rest]
    return "".join(line + "\n" for line in lines)


def csv_line(values: Iterable[str | None]) -> str:
    """Returns one CSV record: NULL is empty, an empty string is `""`, quotes where RFC 4180 wants them."""
    return ",".join(_csv_field(value) for value in values) + "\n"


def _csv_field(value: str | None) -> str:
    if value is None:
        return ""
    if value and value == value.strip() and not any(c in value for c in ',"\r\n'):
        return value
    return '"' + value.replace('"', '""') + '"'


def json_names(columns: Sequence[Column]) -> list[str]:
    """Keys of the rows' objects: column names, made unique (`a`, `a_2`) as SQL allows two columns of one name."""
    taken = {column.name for column in columns}
    names: dict[str, None] = {}
    for column in columns:
        name, count = column.name, 1
        while name in names or (count > 1 and name in taken):
            count += 1
            name = f"{column.name}_{count}"
        names[name] = None
    return list(names)


def json_row(names: Sequence[str], columns: Sequence[Column], row: Row, *, printable: bool = True) -> str:
    """Returns one row as a JSON object on one line."""
    values = (json_cell(value, column.type) for value, column in zip(row, columns, strict=True))
    return json_text(dict(zip(names, values, strict=True)), printable=printable)


def grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A list of objects in kubectl's own style."""
    cells = [[printable(cell) or "-" for cell in row] for row in (header, *rows)]
    sizes = [max(width(row[at]) for row in cells) for at in range(len(header))]
    lines = ("   ".join(aligned(*cell, right=False) for cell in zip(row, sizes, strict=True)) for row in cells)
    return "".join(line.rstrip() + "\n" for line in lines)


def duration(seconds: float) -> str:
    """`0.4s`, `12.0s`, `3m05s`, `2h07m`."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest:02}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}m"


def counts(statement: Statement) -> str:
    """Spark's progress as `statement 2/3  stages 1/2  tasks 10/12`; empty when there is none yet."""
    progress = statement.status.progress
    if progress is None:
        return ""
    pairs = (
        ("statement", progress.statement_index, progress.statement_count if progress.statement_count > 1 else 0),
        ("stages", progress.stages_done, progress.stages_total),
        ("tasks", progress.tasks_done, progress.tasks_total),
    )
    return "  ".join(f"{name} {done}/{total}" for name, done, total in pairs if total)


def phase(statement: Statement) -> str:
    """The phase, with what it waits for while it waits."""
    status = statement.status
    if not status.phase:
        return "Waiting for the operator"
    reason = statement.why.reason
    return f"{status.phase} ({reason})" if reason and reason != status.phase else status.phase


def waits_for(statement: Statement, session: Session | None) -> str:
    """Returns why a statement has not ended, on one line, with each message once; empty where there is none.

    That is its own message, that of its session while this is not ready, and why executors are missing.
    """
    messages = [statement.why.message]
    if session is not None:
        if session.status.phase and session.status.phase != "Ready" and session.ready.message:
            messages.append(f"session {session.name}: {session.reason}: {session.ready.message}")
        executors = session.status.executors
        if executors is not None and executors.message:
            messages.append(f"executors: {executors.message}")
    told: list[str] = []
    for message in (" ".join(message.split()) for message in messages):
        core = message.rpartition(": ")[2]
        if message and not any(core in each for each in told):
            told.append(message)
    return "; ".join(told)


def progress_line(
    statements: Sequence[Statement], total: int, elapsed: float, columns: int, session: Session | None = None
) -> str:
    """Renders the live line: the first statement that has not ended and why it waits, cut to the terminal's width.

    `session` is that of this statement, None if it is not known.
    """
    running = [statement for statement in statements if not statement.has_ended]
    parts = [f"{len(statements) - len(running)}/{total} ended"] if total > 1 else []
    if running:
        parts += [running[0].name, phase(running[0]), counts(running[0])]
    parts += [duration(elapsed), *(waits_for(each, session) for each in running[:1])]
    line = printable("  ".join(part for part in parts if part))
    return line if width(line) < columns else line[: max(columns - 2, 0)] + "…"


def failure(statement: Statement) -> str:
    """Returns why a statement did not finish: phase, condition, SQLSTATE, place, message, and the SQL line with a caret."""
    status, error = statement.status, statement.status.error
    why = statement.why
    if statement.deleted and not statement.has_ended:
        return f"{statement.name} was deleted before it ended\n"
    if error is None:
        parts = [f"{statement.name}: {phase(statement)}", why.message]
        return printable(": ".join(part for part in parts if part), keep="\n\t") + "\n"
    place = "" if error.line is None else f" at line {error.line}:{error.position or 1}"
    state = f" (SQLSTATE {error.sql_state})" if error.sql_state else ""
    title = f"{statement.name}: {status.phase}: {error.condition or why.reason or 'error'}{state}{place}"
    lines = [printable(title), printable(error.message.strip(), keep="\n\t"), *_excerpt(statement)]
    return "".join(line + "\n" for line in lines if line)


def _excerpt(statement: Statement) -> list[str]:
    """The line of the SQL text that the error is about, with a caret below; the fragment when the text is elsewhere."""
    error = statement.status.error
    if error is None or error.line is None:
        return []
    lines = (statement.spec.sql or "").split("\n")
    if not 1 <= error.line <= len(lines):
        return [f"  near: {printable(error.fragment)}"] if error.fragment else []
    text = lines[error.line - 1].replace("\t", " ")
    margin = f"  {error.line} | "
    before = width(printable(text[: max((error.position or 1) - 1, 0)]))
    return [margin + printable(text), " " * (len(margin) - 2) + "| " + " " * before + "^"]


def cut_note(result: ResultSummary, shown: int, because: str) -> str:
    """Returns what is missing of a result, empty when all of it was shown. `because` says why only the preview could be."""
    notes = []
    if shown < result.row_count:
        notes.append(f"Only {shown} of {result.row_count} rows are shown: {because}")
    if result.truncated:
        notes.append(f"The result was cut at {result.row_count} rows; the statement had more (spec.result.maxRows)")
    return "\n".join(notes)


def earlier_note(count: int) -> str:
    """Returns the beginning of a note about results of a script that are not printed."""
    many = "an earlier result" if count == 1 else f"{count} earlier results"
    return f"This is the last result of the script; {many} of it {'is' if count == 1 else 'are'} left out"


def fetched(result: ResultSummary, so_far: int) -> str:
    """The live line while rows are fetched."""
    return f"{so_far:,} of {result.row_count:,} rows"


def session_summary(session: Session) -> dict[str, Any]:
    """Returns what `status` tells of a session."""
    status = session.status
    return {
        "session": session.name,
        "phase": status.phase,
        "reason": session.reason,
        "running": status.statements.running,
        "queued": status.statements.queued,
        "clients": status.clients.sessions,
        "driver": status.driver.pod_name,
    }


def statement_summary(statement: Statement) -> dict[str, Any]:
    """Returns what `status` tells of a statement."""
    status = statement.status
    return {
        "statement": statement.name,
        "session": statement.session_name,
        "phase": status.phase,
        "reason": statement.why.reason,
        "type": status.statement_type or "",
        "progress": counts(statement),
        "durationMillis": status.duration_millis,
    }


def client_summaries(session: str, clients: ClientsView) -> list[dict[str, Any]]:
    """Returns what `status` tells of the sessions that clients have in a session."""
    return [
        {
            "client": client.user or client.name or client.handle,
            "user": client.user,
            "session": session,
            "door": str(client.protocol),
            "openTime": client.open_time.isoformat(),
            "lastUsedTime": client.last_used_time.isoformat(),
            "operations": client.operations,
        }
        for client in clients.sessions
    ]


def operation_summaries(session: str, clients: ClientsView) -> list[dict[str, Any]]:
    """Returns what `status` tells of clients' statements that have not ended."""
    names = {client.handle: client.user or client.name or client.handle for client in clients.sessions}
    return [
        {
            "operation": operation.operation_id,
            "session": session,
            "door": str(operation.protocol),
            "client": names.get(operation.session, operation.session),
            "type": operation.statement_type or "",
            "state": operation.state.value,
            "submittedTime": operation.submitted_time.isoformat() if operation.submitted_time else None,
        }
        for operation in clients.operations
    ]


def clients_text(clients: Sequence[Mapping[str, Any]], operations: Sequence[Mapping[str, Any]], now: datetime) -> str:
    """Clients and their statements below each other, times as ages; empty without any."""

    def age(time: str | None) -> str:
        return duration(max(0.0, (now - datetime.fromisoformat(time)).total_seconds())) if time else ""

    texts = []
    if clients:
        rows = [
            [c["client"], c["session"], c["door"], str(c["operations"]), age(c["openTime"]), age(c["lastUsedTime"])]
            for c in clients
        ]
        texts.append(grid(("CLIENT", "SESSION", "DOOR", "OPERATIONS", "AGE", "IDLE"), rows))
    if operations:
        rows = [
            [o["operation"], o["session"], o["door"], o["client"], o["type"], o["state"], age(o["submittedTime"])]
            for o in operations
        ]
        texts.append(grid(("OPERATION", "SESSION", "DOOR", "CLIENT", "TYPE", "STATE", "AGE"), rows))
    return "".join(f"\n{text}" for text in texts)


def status_text(sessions: Sequence[Session], statements: Sequence[Statement]) -> str:
    """Both lists below each other."""
    return grid(
        ("SESSION", "PHASE", "REASON", "RUNNING", "QUEUED", "CLIENTS", "DRIVER"),
        [[str(cell) for cell in session_summary(session).values()] for session in sessions],
    ) + "\n" + grid(
        ("STATEMENT", "SESSION", "PHASE", "REASON", "TYPE", "PROGRESS", "DURATION"),
        [_statement_row(statement) for statement in statements],
    )  # fmt: skip


def _statement_row(statement: Statement) -> list[str]:
    *cells, millis = statement_summary(statement).values()
    return [*cells, "" if millis is None else duration(millis / 1000)]


def footer(statement: Statement, rows: int) -> str:
    """`(3 rows, 1.2s)` below a result on a terminal; PostgreSQL's `INSERT 0 7 (1.2s)` after a write that has counted its rows.

    The zero stands for an object id, which an INSERT of PostgreSQL had once.
    """
    status = statement.status
    took = "" if status.duration_millis is None else duration(status.duration_millis / 1000)
    if status.result is not None and (tags := _tags(status.statement_type, status.result)):
        return "\n".join(tags) + (f" ({took})" if took else "")
    return f"({rows} row{'' if rows == 1 else 's'}{f', {took}' if took else ''})"


def _tags(statement_type: str | None, result: ResultSummary) -> list[str]:
    """One line for each write of a script whose rows are counted, in order, or the one of a single write."""
    if result.writes:
        counted = [(write.statement_type, write.rows_written) for write in result.writes]
    else:
        counted = [(statement_type or "rows written", result.rows_written)]
    return [f"{kind}{' 0' if kind == 'INSERT' else ''} {rows}" for kind, rows in counted if rows is not None]
