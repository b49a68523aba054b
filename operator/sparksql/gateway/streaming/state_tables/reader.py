"""Makes calls of `savepoint_state` the tables that they stand for, read by Spark's own source of states.

Which savepoints there are, and where, says the operator with the statement; a text names no places. A savepoint does not change,
so neither do its tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.plans import rewritten, span_of
from sparksql.gateway.spark.scala import simple_name
from sparksql.gateway.spark.shapes import Dataset, JvmSession, LogicalPlan
from sparksql.gateway.sql.errors import PlacedError, refusal
from sparksql.gateway.sql.state_calls import is_state_call, state_calls
from sparksql.gateway.sql.stream_reads import declared
from sparksql.gateway.streaming.analysis import keeping_plan
from sparksql.gateway.streaming.checkpoints.savepoint import CHECKPOINT, Manifest, SavepointError, Savepoints
from sparksql.gateway.streaming.rewriting.spark_state import columns_by_place, read_state
from sparksql.gateway.streaming.state.description import Description
from sparksql.gateway.streaming.state_tables.call import StateCall, location_of, read_call
from sparksql.gateway.streaming.state_tables.checkpoint import described, kept_columns, noted_operators
from sparksql.gateway.streaming.state_tables.columns import Form, Layout, Part, Unscaled, layout
from sparksql.gateway.streaming.state_tables.operators import StateTable, state_tables
from sparksql.gateway.windowing.calls import KEPT_AS_TEXT
from sparksql.gateway.windowing.expressions import as_long, cast, project
from sparksql.gateway.windowing.marks import alias
from sparksql.gateway.windowing.statements import with_queries
from sparksql.wire.control import ErrorReason, SubmitRequest
from sparksql.wire.savepoints import STATE_FUNCTION

_JSON = "map('ignoreNullFields', 'false')"
_OPERATOR = "operator"
# What divides a sum of intervals for an average, by the type of the sum.
_DIVIDED = {"YearMonthIntervalType": "DivideYMInterval", "DayTimeIntervalType": "DivideDTInterval"}


class SavepointStates:
    """Reads states of savepoints. Safe to use from several threads; all calls block."""

    def __init__(self, driver: SparkDriver, files: HadoopFiles) -> None:
        self._driver = driver
        self._files = files
        conf = driver.context._jsc.hadoopConfiguration()
        self._savepoints = Savepoints(driver.jvm, conf, str(driver.context.version))

    def read(self, session: JvmSession, plan: LogicalPlan, request: SubmitRequest) -> Any:
        """Returns a parsed statement with tables for its calls. Raises PlacedError, or StatementError."""
        self._check(plan, request)
        jvm = self._driver.jvm

        def replaced(node: Any) -> Any | None:
            return self._replaced(session, node, request)

        plan = with_queries(jvm, plan, lambda query: rewritten(jvm, query, replaced))
        for node in state_calls(plan):
            raise PlacedError(
                f"{STATE_FUNCTION} cannot stand in a subquery of an expression or behind LATERAL: put it into a WITH and read that",
                span_of(node),
            )
        return keeping_plan(jvm, plan, STATE_FUNCTION) if simple_name(plan) == "CreateViewCommand" else plan

    def _check(self, plan: LogicalPlan, request: SubmitRequest) -> None:
        span = next((span_of(node) for node in state_calls(plan)), None)
        kind = simple_name(plan)
        if request.savepoints is None:
            message = (
                f"{STATE_FUNCTION} works only in a SqlStatement, whose driver gets the list of savepoints "
                "from the operator. Write CREATE TABLE ... AS SELECT in a SqlStatement to have the rows here"
            )
            raise refusal(ErrorReason.NOT_IMPLEMENTED, message)
        if kind in KEPT_AS_TEXT or (kind == "CreateViewCommand" and simple_name(plan.viewType()) == "PersistedView$"):
            kept = KEPT_AS_TEXT.get(kind, "view of the catalog")
            raise PlacedError(
                f"a {kept} cannot call {STATE_FUNCTION}, as it stores the query's text only: use CREATE TEMPORARY "
                "VIEW, or a table filled from the rows",
                span,
            )
        of_stream = (request.streaming, request.dry_run, request.validate_against, request.preview_from)
        if any(each is not None for each in of_stream) or declared(plan):
            raise PlacedError(
                f"{STATE_FUNCTION} cannot be read by a stream: write its rows into a table by a statement of its own, "
                "and join that",
                span,
            )

    def _replaced(self, session: JvmSession, node: LogicalPlan, request: SubmitRequest) -> Any | None:
        if simple_name(node) == "UnresolvedTVFAliases" and is_state_call(node.child()):
            names = self._driver.jvm.org.apache.spark.sql.catalyst.analysis.UnresolvedSubqueryColumnAliases
            return names(node.outputNames(), self._replaced(session, node.child(), request))
        if not is_state_call(node):
            return None
        call = read_call(node)
        if node.isStreaming():
            raise call.refusal("it is no STREAM: a savepoint does not change")
        location = location_of(call, request.savepoints or (), request.namespace)
        return self._table(session, call, location).logicalPlan()

    def _table(self, session: JvmSession, call: StateCall, location: str) -> Dataset:
        manifest = self._manifest(call, location)
        checkpoint = location if manifest.owner is None else f"{location}/{CHECKPOINT}"
        description = described(self._files, checkpoint)
        operators = noted_operators(self._driver.jvm, session, checkpoint)
        if not operators:
            raise call.refusal(
                f"savepoint {call.savepoint} has no state that could be read: its query keeps none, or a Spark before 4.0 wrote it"
            )
        tables = state_tables(operators, description)
        reader = _Reader(self._driver, session, checkpoint, manifest.batch_id, description, as_kept=call.as_kept)
        if call.operator is None:
            frame, *more = (reader.as_json(_readable(call, each)) for each in tables)
            for each in more:
                frame = frame.union(each)
            return frame
        wanted = next((each for each in tables if each.name == call.operator), None)
        if wanted is None:
            names = ", ".join(repr(each.name) for each in tables)
            raise call.refused_operator(f"savepoint {call.savepoint} has no operator {call.operator!r}; it has {names}")
        return reader.as_columns(_readable(call, wanted))

    def _manifest(self, call: StateCall, location: str) -> Manifest:
        try:
            manifest = self._savepoints.inspect(location)
        except SavepointError as failed:
            raise call.refusal(f"savepoint {call.savepoint} cannot be read: {failed}") from failed
        if manifest.spark_version is not None and _version(manifest.spark_version) > self._driver.version:
            raise call.refusal(
                f"savepoint {call.savepoint} was written by Spark {manifest.spark_version}, and this is "
                f"{self._driver.context.version}, which cannot read the format of later versions: use a session with that Spark"
            )
        return manifest


class _Reader:
    """Reads the tables of one state after one batch."""

    def __init__(
        self,
        driver: SparkDriver,
        session: JvmSession,
        checkpoint: str,
        batch: int,
        description: Description | None,
        *,
        as_kept: bool,
    ) -> None:
        self._driver = driver
        self._jvm = driver.jvm
        self._session = session
        self._checkpoint = checkpoint
        self._batch = batch
        self._description = description
        self._as_kept = as_kept

    def as_json(self, table: StateTable) -> Dataset:
        """Returns rows of the operator's name and of its keys and values, as JSON."""
        frame, given = self._by_place(table)
        parts = (("key", given.keys), ("value", given.values))
        columns = [f"to_json({_struct(part)}, {_JSON}) AS {name}" for name, part in parts]
        return frame.selectExpr(self._jvm.PythonUtils.toSeq([_OPERATOR, *columns]))

    def as_columns(self, table: StateTable) -> Dataset:
        """Returns the columns that the text names, or a key and a value where nothing is told of them."""
        frame, given = self._by_place(table)
        columns = [_named(each) for each in (*given.keys, *given.values)]
        if not given.is_told:
            columns = [f"{_struct(given.keys)} AS key", f"{_struct(given.values)} AS value"]
        return frame.selectExpr(self._jvm.PythonUtils.toSeq(columns))

    def _by_place(self, table: StateTable) -> tuple[Dataset, Layout]:
        """The state with columns that are named by their places, and how they are to be given."""
        jvm = self._jvm
        state = read_state(
            self._driver,
            self._session,
            self._checkpoint,
            table.operator.operator_id,
            self._batch,
            side=table.side,
            variable=table.variable,
        )
        given = layout(table, self._description, *kept_columns(state), as_kept=self._as_kept)
        of_key, of_value = columns_by_place(jvm, state)
        columns = [*of_key, *of_value]
        averages = [
            self._average(each, columns) for each in given.values if each.form is Form.AVERAGE and each.unscaled is None
        ]
        named = [alias(jvm, column, f"c{place}") for place, column in enumerate(columns)]
        literal = jvm.org.apache.spark.sql.catalyst.expressions.Literal
        operator = literal.create(table.name, jvm.org.apache.spark.sql.types.DataTypes.StringType)
        rows = project(jvm, [alias(jvm, operator, _OPERATOR), *named, *averages], state)
        return self._driver.of_rows(self._session, rows), given

    def _average(self, part: Part, columns: Sequence[Any]) -> Any:
        """The sum by the count as Spark divides them for an average, whose decimals SQL would round twice; NULL of nothing."""
        expressions, types = self._jvm.org.apache.spark.sql.catalyst.expressions, self._jvm.org.apache.spark.sql.types
        total, count = (columns[place] for place in part.places)
        if part.type == "double":
            by = expressions.Divide(total, cast(self._jvm, count, types.DataTypes.DoubleType))
        elif (divided := _DIVIDED.get(simple_name(total.dataType()))) is not None:
            by = getattr(expressions, divided)(total, count)
        else:
            to = self._session.sessionState().sqlParser().parseDataType(part.type)
            number = cast(self._jvm, count, types.DataTypes.createDecimalType(20, 0))
            by = expressions.DecimalDivideWithOverflowCheck(total, number, to, None, True)
        # Here and not in the SELECT above: which of its expressions Spark computes first is not known.
        is_empty = expressions.EqualTo(count, as_long(self._jvm, 0))
        mean = expressions.If(is_empty, expressions.Literal.create(None, by.dataType()), by)
        return alias(self._jvm, mean, _quotient(part))


def _readable(call: StateCall, table: StateTable) -> StateTable:
    """The table. Raises PlacedError for a state that is not one of keys and values."""
    if table.operator.variables == ():
        raise call.refused_operator(
            f"the state of operator {table.name!r} is stored in variables of a function, none of which has one value for each "
            "key, and cannot be read as a table; name another operator, if there is one"
        )
    return table


def _version(text: str) -> tuple[int, int]:
    major, minor, *_ = text.split(".")
    return int(major), int(minor)


def _struct(parts: Sequence[Part]) -> str:
    return f"struct({', '.join(map(_named, parts))})"


def _named(part: Part) -> str:
    return f"{_expression(part)} AS {_quoted(part.name)}"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _expression(part: Part) -> str:
    if part.unscaled is not None:
        return _scaled(part, part.unscaled)
    match part.form:
        case Form.VALUE:
            return f"c{part.places[0]}"
        case Form.SUM:
            total, is_empty = part.places
            return f"IF(c{is_empty}, NULL, c{total})"
        case Form.AVERAGE:
            return _quotient(part)
        case Form.AS_KEPT:
            return f"struct({', '.join(f'c{place} AS {_quoted(name)}' for place, name in zip(part.filled, part.kept, strict=True))})"


def _quotient(part: Part) -> str:
    """The name of the column that has the value of an average."""
    total, count = part.places
    return f"a{total}_{count}"


def _scaled(part: Part, decimals: Unscaled) -> str:
    """A sum or an average of decimals whose scale is not kept, as Spark gives it back to them."""
    if part.form is Form.VALUE:
        return _sum_of(f"c{part.places[0]}", decimals)
    total, count = (f"c{place}" for place in part.places)
    if part.form is Form.AVERAGE:
        mean = f"({total} / CAST({count} AS DOUBLE)) / {10**decimals.scale}D"
        return f"IF({count} = 0, NULL, CAST({mean} AS {decimals.mean_type}))"
    names = map(_quoted, part.kept)
    return f"struct({_sum_of(total, decimals)} AS {next(names)}, {count} AS {next(names)})"


def _sum_of(column: str, decimals: Unscaled) -> str:
    scale = f"CAST('1E-{decimals.scale}' AS DECIMAL({decimals.scale + 1},{decimals.scale}))"
    return f"CAST(CAST({column} AS DECIMAL({decimals.precision + 10},0)) * {scale} AS {decimals.sum_type})"
