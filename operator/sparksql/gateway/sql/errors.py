"""Turns what Spark throws into the error of an operation: condition, SQLSTATE, message, and the place in the submitted text.

The outermost condition is Spark's word for an error. Only a failed execution, a type of its own, is passed over for the condition
that it wraps: TASK_WRITE_FAILED names no reason. Messages are shown without plans, stack traces and Spark's own excerpt of the
text (its positions are those of a fragment, ours are in fields), and without secret values.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from sparksql.gateway.spark.names import REFLECTION_FUNCTIONS
from sparksql.gateway.spark.shapes import Throwable
from sparksql.gateway.sql.conditions import Condition, at_statement, condition_for, own_error
from sparksql.gateway.sql.masking import Masker
from sparksql.gateway.sql.script import Fragment, locate, offset_of
from sparksql.gateway.sql.syntax_hints import syntax_hint
from sparksql.wire.control import ErrorReason, OperationError
from sparksql.wire.failure import throwables
from sparksql.wire.failure.kind import FailureKind

MAX_MESSAGE_CHARS = 4000
MAX_FRAGMENT_CHARS = 200
_MAX_CAUSES = 32
# What Spark throws when tasks, jobs or streams fail, for whatever reason.
_FAILURES = frozenset({throwables.SPARK_EXCEPTION, "org.apache.spark.sql.streaming.StreamingQueryException"})
_TOO_DEEP = (
    "the statement, with the views that it reads, is nested too deeply or has too long a chain of operators or UNIONs for "
    "Spark's stack; divide it, nest fewer views, or store inner parts in tables"
)
_UNKNOWN_ROUTINE = frozenset({"UNRESOLVED_ROUTINE", "ROUTINE_NOT_FOUND"})  # by its name, and by IDENTIFIER(...)
_UNCLOSED_COMMENT = "UNCLOSED_BRACKETED_COMMENT"
# How TaskSetManager.canFetchMoreResults of Spark 4.1 aborts a job, with neither condition nor cause. What rows or a statement
# put into the failure of a job comes behind other words of Spark's.
_RESULT_TOO_LARGE = re.compile(r"Job aborted due to stage failure: Total size of serialized results of \d+ tasks? \(")
_SYNTAX_ERROR = "PARSE_SYNTAX_ERROR"
_OUT_OF_MEMORY = (
    "the heap of {jvm} is exhausted ({said}): raise {field}, which the class must allow, or process less data at a time"
)
_TAILS = (
    "\n== SQL",
    "\n=== Streaming Query ===",
    "\n\n\n\nThe API gave the following container statuses:",
    "\nDriver stacktrace:",
    "\n\tat ",
    ";\n'",
    ";\n+-",
    ";\nProject",
    ";\nAggregate",
    "JVM stacktrace:",
)
# What `AnalysisException.getSimpleMessage` puts behind a message, the position only if there is one, and what parsers write.
# Looked for in so many last characters: a message may hold what a statement has computed.
_PLACE = re.compile(r"(?P<line>line \d{1,10})\Z|\(?line \d{1,10},? pos(?:ition)? \d{1,10}\)?\Z")
_PLACE_CHARS = 64


class StatementError(Exception):
    """A statement cannot go on; carries what its status will show (not masked yet)."""

    def __init__(self, error: OperationError) -> None:
        super().__init__(error.message)
        self.error = error


class RefusedError(StatementError):
    """The gateway itself refuses a statement; its place, if it has none, is the statement's."""


def refusal(reason: ErrorReason, message: str) -> RefusedError:
    """Returns the error of an end that the gateway itself decides, before Spark sees the statement."""
    return own_refusal(condition_for(reason), message)


def own_refusal(condition: Condition, message: str) -> RefusedError:
    """Returns the error of a refusal that has a condition of its own."""
    return RefusedError(own_error(condition, message))


class PlacedError(Exception):
    """A refusal of a part of a statement: `span` is the half-open range of the text that Spark has read, None if unknown."""

    def __init__(
        self,
        message: str,
        span: tuple[int, int] | None = None,
        *,
        condition: Condition = Condition.INVALID_STATEMENT,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.condition = condition


@dataclass(frozen=True)
class Thrown:
    """Holds what one throwable of the chain of causes says. `span` is the half-open range in the fragment's text.

    `is_failure` is true for the types that Spark throws when an execution fails. `types` are its type and its supertypes, and
    `status` is the HTTP status of a service's answer: what `failure.throwables` decides by.
    """

    class_name: str
    message: str
    condition: str | None = None
    sql_state: str | None = None
    span: tuple[int, int] | None = None
    parameters: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    is_failure: bool = False
    types: tuple[str, ...] = ()
    status: int | None = None

    def is_a(self, name: str) -> bool:
        """Tells whether it is of a Java type, or of a subtype of that."""
        return name in self.types


def operation_error(exception: BaseException, fragment: Fragment, sql: str) -> OperationError:
    """Returns the error of a statement whose text is a fragment of `sql`, not `bounded` yet.

    Any exception is told, none is raised.
    """
    if isinstance(exception, RefusedError):
        return at_statement(exception.error, fragment, sql)
    if isinstance(exception, StatementError):
        return exception.error
    if isinstance(exception, PlacedError):
        line, position, shown = _place(exception.span, fragment, sql)
        error = own_error(exception.condition, exception.message)
        placed = error.model_copy(update={"line": line, "position": position, "fragment": shown})
        return at_statement(placed, fragment, sql)
    throwable = _java_throwable(exception)
    if throwable is None:
        # Without its JVM the driver ends, and another one goes on.
        cause = FailureKind.ENVIRONMENT if isinstance(exception, Py4JNetworkError) else None
        return OperationError(message=f"{type(exception).__name__}: {exception}", cause=cause)
    return describe(_chain(throwable, fragment.parsed_text), fragment, sql)


def describe(chain: list[Thrown], fragment: Fragment, sql: str) -> OperationError:
    """Picks, without Spark, the throwable that names the reason and places it in the submitted text."""
    chosen = _confined(chain) or _with_condition(chain) or _with_sql_state(chain)
    cause = throwables.verdict_of_causes([throwables.Thrown(each.types, each.status) for each in chain if each.types])
    if chosen is None and any(thrown.is_a(throwables.STACK_OVERFLOW) for thrown in chain):
        return at_statement(own_error(Condition.STATEMENT_TOO_LARGE, _TOO_DEEP), fragment, sql)
    if chosen is None and (exhausted := _out_of_memory(chain)) is not None:
        error = own_error(Condition.HEAP_EXHAUSTED, exhausted)
        return error.model_copy(update={"cause": FailureKind.ENVIRONMENT})
    chosen = chosen or next((thrown for thrown in reversed(chain) if thrown.message), chain[0])
    span = next((thrown.span for thrown in reversed(chain) if thrown.span is not None), None)
    line, position, shown = _place(span, fragment, sql)
    error = OperationError(
        reason=_reason(chosen, chain),
        condition=chosen.condition,
        sql_state=chosen.sql_state,
        message=_unbound_parameter(chosen)
        or _reflection(chosen)
        or _unparsed(chosen, span, fragment)
        or chosen.class_name,
        line=line,
        position=position,
        fragment=shown,
        cause=None if cause is None else cause.kind,
    )
    if error.condition is not None or error.reason is ErrorReason.SQL_ERROR:
        return error
    own = condition_for(error.reason)  # Spark has none for what its file system or its scheduler refuses here
    return at_statement(error.model_copy(update={"condition": own.label, "sql_state": own.sql_state}), fragment, sql)


def _out_of_memory(chain: list[Thrown]) -> str | None:
    """Returns whose heap is used up and what to do, None for another error. Below a failed job it is an executor's."""
    error = next((position for position, thrown in enumerate(chain) if thrown.is_a(throwables.OUT_OF_MEMORY)), None)
    if error is None:
        return None
    is_executor = any(thrown.is_failure for thrown in chain[:error])
    jvm, field = ("an executor", "spec.executors.memory") if is_executor else ("the driver", "spec.driver.memory")
    return _OUT_OF_MEMORY.format(jvm=jvm, field=f"{field} of the session", said=clean_message(chain[error].message))


def _unbound_parameter(thrown: Thrown) -> str | None:
    """Returns what to do about a parameter without a value, None for another error: Spark advises to fix its own `args`."""
    if thrown.condition != "UNBOUND_SQL_PARAMETER":
        return None
    name = dict(thrown.parameters).get("name", "").strip("`")
    return (
        f"[UNBOUND_SQL_PARAMETER] parameter :{name} has no value: give it one in spec.parameters of the SqlStatement, or "
        "in the parameters that the client sends"
    )


def _reflection(thrown: Thrown) -> str | None:
    """Returns what to do in place of a function that the session does not have, None for another error."""
    routine = _unknown_routine(thrown)
    if routine not in REFLECTION_FUNCTIONS:
        return None
    return f"[{thrown.condition}] function {routine} calls any Java method and is not allowed: compute it with functions of SQL"


def _unparsed(thrown: Thrown, span: tuple[int, int] | None, fragment: Fragment) -> str:
    """Returns the message of an error, of a text that cannot be parsed with what to do about it."""
    message = clean_message(thrown.message)
    if thrown.condition != _SYNTAX_ERROR or span is None:
        return message
    hint = syntax_hint(fragment.text, fragment.original(span[0]))
    return f"{message.rstrip('.')}; {hint}" if hint else message


def _unknown_routine(thrown: Thrown) -> str:
    """Returns the name of the function that Spark does not find, empty for another error."""
    if thrown.condition not in _UNKNOWN_ROUTINE:
        return ""
    return dict(thrown.parameters).get("routineName", "").strip("`").rpartition(".")[2].strip("`").lower()


def _confined(chain: list[Thrown]) -> Thrown | None:
    return next((thrown for thrown in reversed(chain) if thrown.is_a(throwables.CONFINED)), None)


def _with_condition(chain: list[Thrown]) -> Thrown | None:
    """The outermost throwable with a condition that is not a failure for the reason of another one."""
    for position, thrown in enumerate(chain):
        if thrown.condition is not None and not _wraps(thrown, chain[position + 1 :]):
            return thrown
    return None


def _wraps(thrown: Thrown, causes: list[Thrown]) -> bool:
    """Whether a throwable is a failure whose cause, behind failures without a condition, has a condition."""
    if not thrown.is_failure:
        return False
    cause = next((cause for cause in causes if cause.condition is not None or not cause.is_failure), None)
    return cause is not None and cause.condition is not None


def _with_sql_state(chain: list[Thrown]) -> Thrown | None:
    """What the driver of a database throws, whose exceptions come in batches around the one that names the reason."""
    return next((thrown for thrown in reversed(chain) if thrown.sql_state is not None), None)


def _place(span: tuple[int, int] | None, fragment: Fragment, sql: str) -> tuple[int | None, int | None, str | None]:
    """The line and position in `sql` of a range of the text that Spark has read, and what the user wrote there."""
    if span is None:
        return None, None, None
    begin, end = fragment.original(span[0]), fragment.original(span[1])
    line, position = locate(sql, fragment.offset + begin)
    return line, position, fragment.text[begin:end] or None


def clean_message(message: str) -> str:
    """Returns a message without plan, stack trace, Spark's excerpt of the text and its position in it."""
    text = message.strip()
    for tail in _TAILS:
        text = text.split(tail, 1)[0]
    return _without_place(text.rstrip()).strip()


def _without_place(text: str) -> str:
    """A text without the place at its end, and without the mark that joins the place to it."""
    found = _PLACE.search(text, max(0, len(text) - _PLACE_CHARS))
    if found is None:
        return text
    before = text[: found.start()].rstrip()
    if found["line"] is None:
        return before[:-1] if before.endswith((";", ",")) else before
    return before[:-1] if before.endswith(";") else text


def condition_of(exception: BaseException) -> str | None:
    """Returns Spark's condition of an exception itself, without its causes."""
    throwable = _java_throwable(exception)
    condition = None if throwable is None else _ask(throwable, "getCondition")
    return None if condition is None else str(condition)


def name_of(exception: BaseException) -> str:
    """Returns what a log may say of an exception, whose message can quote SQL: Spark's condition, else the class."""
    throwable = _java_throwable(exception)
    if throwable is None:
        return type(exception).__name__
    return condition_of(exception) or str(throwable.getClass().getName())


def masked(error: OperationError, masker: Masker) -> OperationError:
    """Returns the error without secret values. To be cut only then: of a part of a value less can be found."""
    return error.model_copy(
        update={"message": masker.mask(error.message), "fragment": masker.mask_optional(error.fragment)}
    )


def bounded(error: OperationError) -> OperationError:
    """Returns as much of an error as is kept and shown, without invisible characters.

    These are named only here, behind `masked`, which finds secret values as they are.
    """
    fragment = error.fragment and _visible_start(error.fragment, MAX_FRAGMENT_CHARS)
    return error.model_copy(update={"message": _visible_start(error.message, MAX_MESSAGE_CHARS), "fragment": fragment})


def _visible_start(text: str, most: int) -> str:
    """The first characters of a text, at most so many. A named one takes more, so that no later one is looked at."""
    return visible(text[:most])[:most]


def visible(text: str) -> str:
    """Returns a text in which invisible characters are named by their code points, as U+00A0 for a no-break space."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"U+{ord(char):04X}" if _is_invisible(char) else char for char in text)


def _is_invisible(char: str) -> bool:
    """Tells whether a character looks like a blank or like nothing; line ends and tabs are the layout of a message."""
    return char not in " \n\r\t" and unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"}


def _reason(chosen: Thrown, chain: list[Thrown]) -> ErrorReason:
    if any(_is_result_too_large(thrown) for thrown in chain[-1:]):
        return ErrorReason.RESULT_TOO_LARGE
    if chosen.is_a(throwables.CONFINED):
        return ErrorReason.NOT_ALLOWED
    if _unknown_routine(chosen) in REFLECTION_FUNCTIONS:
        return ErrorReason.NOT_ALLOWED
    return ErrorReason.SQL_ERROR


def _is_result_too_large(thrown: Thrown) -> bool:
    """Tells whether a throwable without a cause is how Spark ends a job whose result is too large."""
    return thrown.is_failure and thrown.condition is None and _RESULT_TOO_LARGE.match(thrown.message) is not None


def _java_throwable(exception: BaseException) -> Any | None:
    if isinstance(exception, Py4JJavaError):
        return exception.java_exception
    return getattr(exception, "_origin", None)  # pyspark's converted exceptions keep the JVM's


def _chain(throwable: Throwable, text: str) -> list[Thrown]:
    chain: list[Thrown] = []
    while throwable is not None and len(chain) < _MAX_CAUSES:
        chain.append(_thrown(throwable, text))
        throwable = throwable.getCause()
    return chain


def _thrown(throwable: Throwable, text: str) -> Thrown:
    types = _types(throwable)
    return Thrown(
        class_name=str(throwable.getClass().getSimpleName()),
        message=str(_ask(throwable, "getSimpleMessage") or _ask(throwable, "getMessage") or ""),
        condition=_ask(throwable, "getCondition"),
        sql_state=_ask(throwable, "getSqlState") or _ask(throwable, "getSQLState"),
        span=_context_span(throwable, text) or _parser_span(throwable, text),
        parameters=_parameters(throwable),
        is_failure=not _FAILURES.isdisjoint(types),
        types=types,
        status=int(throwable.statusCode()) if throwables.SERVICE_ANSWER in types else None,
    )


def _types(throwable: Throwable) -> tuple[str, ...]:
    """The names of its type and of its supertypes, from the nearest on."""
    names: list[str] = []
    type_ = throwable.getClass()
    while type_ is not None:
        names.append(str(type_.getName()))
        type_ = type_.getSuperclass()
    return tuple(names)


def _ask(throwable: Throwable, method: str) -> Any | None:
    """Calls a getter that only some throwables have."""
    try:
        return getattr(throwable, method)()
    except (Py4JError, TypeError):
        return None


def _parameters(throwable: Throwable) -> tuple[tuple[str, str], ...]:
    parameters = _ask(throwable, "getMessageParameters")
    return () if parameters is None else tuple((str(key), str(parameters[key])) for key in parameters)


def _context_span(throwable: Throwable, text: str) -> tuple[int, int] | None:
    for context in _ask(throwable, "getQueryContext") or ():
        # Inside a view the offsets are those of the view's text, and inside a window those of ours: nobody submitted them.
        if str(context.contextType()) == "SQL" and not context.objectType() and int(context.startIndex()) >= 0:
            span = int(context.startIndex()), int(context.stopIndex()) + 1
            if _excerpt(text, span) == str(context.fragment()):
                return span
    return None


def _excerpt(text: str, span: tuple[int, int]) -> str:
    """What the JVM cuts out of a text there; it counts in units of UTF-16."""
    units = text.encode("utf-16-le")
    return units[2 * span[0] : 2 * span[1]].decode("utf-16-le", errors="replace")


def _parser_span(throwable: Throwable, text: str) -> tuple[int, int] | None:
    line, column = _ask(throwable, "line"), _ask(throwable, "startPosition")
    if line is None or column is None or not line.isDefined():
        return None
    if _ask(throwable, "getCondition") == _UNCLOSED_COMMENT:
        # Its line is where the comment begins in the text, in characters from 0 (UnclosedCommentProcessor of Spark 4.1).
        start = min(int(line.get()), len(text))
    elif column.isDefined():
        start = offset_of(text, int(line.get()), int(column.get()))
    else:
        return None
    word = re.match(r"\S+", text[start:])
    return start, start + (len(word.group()) if word else 0)
