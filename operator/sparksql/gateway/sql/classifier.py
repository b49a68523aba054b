"""Reads a submitted text before anything runs: its statements, what each one is, and whether all of it is allowed.

Everything that can be refused without running is refused here, so a script with a forbidden last statement does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from sparksql.api.execution import StatementMode
from sparksql.gateway.spark.plans import span_of
from sparksql.gateway.spark.scala import elements, option, simple_name
from sparksql.gateway.spark.shapes import Jvm, JvmSession, LogicalPlan
from sparksql.gateway.sql import policy as rules
from sparksql.gateway.sql import source_options
from sparksql.gateway.sql.conditions import condition_for
from sparksql.gateway.sql.errors import (
    PlacedError,
    RefusedError,
    StatementError,
    condition_of,
    operation_error,
    refusal,
)
from sparksql.gateway.sql.identifiers import with_any_name
from sparksql.gateway.sql.immediate import immediate_plan, immediate_text
from sparksql.gateway.sql.kinds import MULTI_INSERT, SHOW_SETTINGS, Kind, kind_of, script_type
from sparksql.gateway.sql.lexer import Lexed
from sparksql.gateway.sql.local_queries import is_local
from sparksql.gateway.sql.masking import Masker
from sparksql.gateway.sql.parameters import ParameterBinder, check_unbindable, check_usage
from sparksql.gateway.sql.readers import check_wanted
from sparksql.gateway.sql.script import MAX_STATEMENTS, Fragment, ScriptTooLongError, split
from sparksql.gateway.sql.state_calls import may_read_state, state_calls
from sparksql.gateway.sql.stream_reads import executed_stream, may_read_stream, span_in
from sparksql.gateway.sql.text_bounds import check_parameters, check_text
from sparksql.gateway.sql.version_syntax import may_join_versions, version_edits
from sparksql.gateway.sql.window_calls import window_calls
from sparksql.gateway.sql.window_syntax import may_call, window_edits, with_edits
from sparksql.wire.control import ErrorReason, Parameter
from sparksql.wire.driver import SqlPolicy
from sparksql.wire.savepoints import STATE_FUNCTION

_NO_SUBSTITUTION = frozenset({"SET", "RESET", "ADD"})
_TRANSFORM_WORDS = ("TRANSFORM", "MAP", "REDUCE")
_MAX_NESTING = 8


@dataclass(frozen=True)
class Statement:
    """Represents one statement of the text.

    `names` are the parameters that it uses; `local` tells that it needs no executor, `windows` that it calls window table
    functions, `states` that it calls `savepoint_state`. `stream` is where the text that Spark reads has a STREAM that its
    execution would read, `reads_stream` that it has one.
    """

    fragment: Fragment
    kind: Kind
    names: frozenset[str] = frozenset()
    local: bool = False
    windows: bool = False
    states: bool = False
    reads_stream: bool = False
    stream: tuple[int, int] | None = None


@dataclass(frozen=True)
class Classified:
    """A text that may run. `masker` hides its secret parameters; `local` tells that it needs no executor."""

    statements: tuple[Statement, ...]
    read_only: bool
    exclusive: bool
    local: bool = False
    masker: Masker = field(default_factory=Masker)

    @property
    def statement_type(self) -> str:
        """Returns the type that status shows: SCRIPT for several statements."""
        return script_type(tuple(statement.kind.type for statement in self.statements))


@dataclass(frozen=True)
class _Asks:
    """What a text may ask for by its words; without them a plan need not be looked through."""

    transform: bool
    relations_options: bool
    windows: bool
    states: bool
    streams: bool


class Classifier:
    """Reads texts with the parser of one session. Safe to use from several threads.

    `checks_again` tells that what a text has become is checked once more when it runs, whatever the session's variables are then;
    `may_change_reading` that this holds for the settings by which it is read as well.
    """

    def __init__(
        self,
        jvm: Jvm,
        session: JvmSession,
        policy: SqlPolicy,
        *,
        checks_again: bool = False,
        may_change_reading: bool = False,
    ) -> None:
        self._jvm = jvm
        self._session = session
        self._policy = policy
        self._checks_again = checks_again
        self._may_change_reading = may_change_reading

    def fragments(self, sql: str) -> list[Fragment]:
        """Returns the statements of a text. Raises StatementError for one with too many."""
        return self._split(sql, Lexed(self._jvm, sql))

    def classify(self, sql: str, parameters: Sequence[Parameter], mode: StatementMode) -> Classified:
        """Reads a text into checked statements.

        Raises StatementError for a text that is too large, does not parse, is not allowed, or does not fit its mode.
        """
        check_parameters(len(parameters))
        check_text("\n".join((sql, *(parameter.type for parameter in parameters))))
        lexed = Lexed(self._jvm, sql) if parameters or ";" in sql else None
        markers = lexed.markers() if parameters and lexed is not None else []
        check_usage(parameters, [name for _, name in markers])
        # Spark itself tells of an empty text.
        fragments = (self._split(sql, lexed) if lexed is not None else []) or [self._edited(Fragment(sql, 0))]
        binder = ParameterBinder(self._jvm, self._session)
        literals = binder.literals(parameters)
        asks = self._asks(sql)
        statements: list[Statement] = []
        for fragment in fragments:
            check_wanted()
            end = fragment.offset + len(fragment.text)
            names = [name.strip("`") for at, name in markers if fragment.offset <= at < end]
            plan = self._parse(binder, literals, fragment, sql)
            kind = kind_of(simple_name(plan))
            if kind.type in _NO_SUBSTITUTION:
                check_unbindable(parameters, names, kind.type)
            may_change_reading = self._may_change_reading and len(fragments) == 1
            kind = self._check(plan, fragment, sql, asks=asks, may_change_reading=may_change_reading)
            local = _on_driver(self._jvm, plan, kind)
            windows = asks.windows and any(window_calls(plan))
            states = asks.states and any(state_calls(plan))
            stream = executed_stream(plan, kind) if asks.streams else None
            span = None if stream is None else span_in(stream, fragment.parsed_text)
            statements.append(
                Statement(fragment, kind, frozenset(names), local, windows, states, stream is not None, span)
            )
        try:
            check_mode(mode, [statement.kind for statement in statements])
        except RefusedError as refused:  # a script is one from its second statement on
            raise StatementError(operation_error(refused, fragments[:2][-1], sql)) from refused
        runs = mode is StatementMode.EXECUTE
        return Classified(
            statements=tuple(statements),
            read_only=not runs or all(statement.kind.read_only for statement in statements),
            exclusive=runs and any(statement.kind.exclusive for statement in statements),
            local=mode in (StatementMode.EXPLAIN, StatementMode.VALIDATE)
            or all(statement.local for statement in statements),
            masker=binder.masker(parameters, literals),
        )

    def check(self, plan: LogicalPlan, text: str) -> None:
        """Checks a plan of a text that has passed before: settings may have changed how it is read. Raises StatementError."""
        self._checked(plan, asks=self._asks(text), may_change_reading=True)

    def _asks(self, sql: str) -> _Asks:
        relations_options = source_options.may_give_relations_options(sql)
        return _Asks(
            self._may_transform(sql), relations_options, may_call(sql), may_read_state(sql), may_read_stream(sql)
        )

    def _may_transform(self, sql: str) -> bool:
        """Whether a keyword of TRANSFORM is among the tokens (upper case is what Spark's lexer sees, too)."""
        upper = sql.upper()
        return any(word in upper for word in _TRANSFORM_WORDS) and Lexed(self._jvm, sql).has_any(*_TRANSFORM_WORDS)

    def _split(self, sql: str, lexed: Lexed) -> list[Fragment]:
        parser = self._session.sessionState().sqlParser()

        def parses(text: str) -> bool:
            check_wanted()
            try:
                parser.parsePlan(self._edited(Fragment(text, 0)).parsed_text)
            except Exception as exception:
                return condition_of(exception) != "PARSE_SYNTAX_ERROR"  # a whole block may be refused for its content
            return True

        try:
            return [self._edited(fragment) for fragment in split(sql, lexed.sections(), parses)]
        except ScriptTooLongError:
            message = f"a script has at most {MAX_STATEMENTS} statements"
            raise refusal(ErrorReason.LIMIT_EXCEEDED, message) from None

    def _edited(self, fragment: Fragment) -> Fragment:
        """A statement with its calls of window table functions, and its versions by row, as Spark's parser takes them."""
        text = fragment.text
        has_calls, has_versions = may_call(text), may_join_versions(text)
        if not has_calls and not has_versions:
            return fragment
        words = Lexed(self._jvm, text).words()
        edits = window_edits(words) if has_calls else []
        return replace(
            fragment, edited=with_edits(text, [*edits, *(version_edits(text, words) if has_versions else ())])
        )

    def _parse(self, binder: ParameterBinder, literals: dict[str, Any], fragment: Fragment, sql: str) -> Any:
        try:
            return with_any_name(self._jvm, binder.parse(fragment.parsed_text, literals))
        except StatementError:
            raise
        except Exception as exception:
            raise StatementError(operation_error(exception, fragment, sql)) from exception

    def _check(self, plan: LogicalPlan, fragment: Fragment, sql: str, *, asks: _Asks, may_change_reading: bool) -> Kind:
        try:
            return self._checked(plan, asks=asks, may_change_reading=may_change_reading)
        except Exception as exception:
            raise StatementError(operation_error(exception, fragment, sql)) from exception

    def _checked(self, plan: LogicalPlan, *, asks: _Asks, nesting: int = 0, may_change_reading: bool = False) -> Kind:
        """The kind of a parsed plan after the policy has passed it and everything in it."""
        if nesting > _MAX_NESTING:
            raise rules.not_allowed("statements are nested too deeply to be checked")
        plan = with_any_name(self._jvm, plan)
        rules.check_plan(plan, self._policy)
        if not may_change_reading:
            rules.check_reading(plan, self._session)
        rules.check_transform(plan, has_keyword=asks.transform)
        source_options.check_plan(self._jvm, plan, self._policy, relations=asks.relations_options)
        name = simple_name(plan)
        match name:
            case "SetCommand" if not _assigns(plan):
                return SHOW_SETTINGS
            case "UnresolvedWith":
                inner = kind_of(simple_name(plan.child()))
                return _multi_insert(plan.child()) or inner
            case "Union":
                return _multi_insert(plan) or kind_of(name)
            case "ExplainCommand":
                inner = self._checked(plan.logicalPlan(), asks=asks, nesting=nesting + 1)
                return inner if inner.dynamic else kind_of(name)
            case "UnresolvedExecuteImmediate":
                text = immediate_text(plan)
                check_text(text)  # which in the outer one was a single word
                variables = self._checks_again and nesting == 0  # those of a block may change before
                inner_plan = immediate_plan(self._jvm, self._session, plan, variables=variables)
                _check_no_calls(inner_plan, asks)
                with _of_another_text():
                    inner = self._checked(inner_plan, asks=self._asks(text), nesting=nesting + 1)
                return replace(kind_of(name), of_query=inner.query or inner.of_query)
            case "CreateSQLFunctionCommand" | "CreateUserDefinedFunction":
                body = self._session.sessionState().sqlParser().parsePlan(rules.function_body(plan))
                _check_no_calls(body, asks)
                with _of_another_text():
                    self._checked(body, asks=asks, nesting=nesting + 1)
                return kind_of(name)
            case "CompoundBody":
                for inner_plan in rules.block_statements(plan):
                    _check_no_calls(inner_plan, asks)
                    with _placed(inner_plan):
                        self._checked(inner_plan, asks=asks, nesting=nesting + 1)
                return kind_of(name)
            case _:
                return kind_of(name)


def _check_no_calls(plan: LogicalPlan, asks: _Asks) -> None:
    """Raises PlacedError for a call in what Spark reads by itself: BEGIN ... END, EXECUTE IMMEDIATE, a function's body."""
    names = [name for _, name in window_calls(plan)] if asks.windows else []
    names += [STATE_FUNCTION for _ in state_calls(plan)] if asks.states else []
    for name in names:
        raise PlacedError(
            f"{name} cannot be called in BEGIN ... END, EXECUTE IMMEDIATE or the body of a function: write a statement of its own"
        )


@contextmanager
def _of_another_text() -> Iterator[None]:
    """Takes the place from a refusal within a text that is a literal, or a part, of the submitted one."""
    try:
        yield
    except PlacedError as refused:
        raise PlacedError(refused.message, condition=refused.condition) from refused


@contextmanager
def _placed(plan: LogicalPlan) -> Iterator[None]:
    """Places what is refused of a statement in a block at that statement."""
    try:
        yield
    except RefusedError as refused:
        condition = condition_for(refused.error.reason)
        raise PlacedError(refused.error.message, span_of(plan), condition=condition) from refused


def check_mode(mode: StatementMode, kinds: Sequence[Kind]) -> None:
    """Refuses what a mode that executes nothing cannot take. Raises StatementError."""
    if mode is StatementMode.EXECUTE:
        return
    if len(kinds) != 1:
        raise refusal(ErrorReason.INVALID_SPEC, f"mode {mode} takes one statement, not a script of {len(kinds)}")
    kind = kinds[0]
    if kind.dynamic:
        raise refusal(ErrorReason.INVALID_SPEC, f"mode {mode} cannot take {kind.type}: analysing it executes it")
    if mode is StatementMode.PREVIEW and not (kind.query or kind.type in ("INSERT", "CREATE TABLE AS SELECT")):
        message = f"mode Preview takes a query, or an INSERT or CREATE TABLE AS SELECT, not {kind.type}"
        raise refusal(ErrorReason.INVALID_SPEC, message)


def _on_driver(jvm: Jvm, plan: LogicalPlan, kind: Kind) -> bool:
    """Whether a statement needs no executor. A SET of a variable may hold a query."""
    if kind.query:
        return is_local(jvm, plan)
    return kind.on_driver and simple_name(plan) != "SetVariable"


def _assigns(plan: LogicalPlan) -> bool:
    pair = option(plan.kv())
    return pair is not None and bool(pair._2().isDefined())


def _multi_insert(plan: LogicalPlan) -> Kind | None:
    """INSERT for `FROM s INSERT INTO a ... INSERT INTO b ...`, which parses as a Union of INSERTs."""
    if simple_name(plan) != "Union":
        return None
    children = elements(plan.children())
    return MULTI_INSERT if any(kind_of(simple_name(child)).dml for child in children) else None
