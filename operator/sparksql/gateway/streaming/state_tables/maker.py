"""Makes savepoints whose state a query gives: for a repair, or to begin with what a batch has computed.

Such a savepoint is a copy of another one, or of the checkpoint, with the values of one aggregation replaced by the rows of the
query: the offsets, the watermark and what other operators keep are those of the copy, and so is the description, with which the
start of a statement compares its text. The rows are checked before they are written: each key is there once, and nothing is NULL
that an aggregate counts. They are written by Spark's own node, read again and compared; the manifest comes after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparksql.gateway.operations.operation import Operation
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.scala import elements, scala_object, simple_name
from sparksql.gateway.spark.shapes import Dataset, JvmSession, LogicalPlan
from sparksql.gateway.sql.errors import StatementError, refusal
from sparksql.gateway.streaming.checkpoints.batch_files import is_state_of, whole_state
from sparksql.gateway.streaming.checkpoints.savepoint import Manifest, Owner, SavepointError, Savepoints
from sparksql.gateway.streaming.rewriting import spark_state
from sparksql.gateway.streaming.rewriting.spark_state import StateForm, UnknownSparkError
from sparksql.gateway.streaming.rewriting.writer import checksum
from sparksql.gateway.streaming.state.description import AGGREGATE
from sparksql.gateway.streaming.state_tables.checkpoint import described, kept_columns, noted_operators
from sparksql.gateway.streaming.state_tables.columns import Layout, layout
from sparksql.gateway.streaming.state_tables.filling import Filling, Given, MisfitError, Value, fillings
from sparksql.gateway.streaming.state_tables.operators import StateTable, state_tables
from sparksql.gateway.windowing.marks import alias
from sparksql.wire.control import ErrorReason
from sparksql.wire.savepoints import SavepointRequest, StateQuery

_SCRATCH = "_made"  # in the copy, until what is in it has its name
_METADATA = "/_metadata/"  # of a state: its types, which the query's rows have as well
_FORMAT = "spark.sql.streaming.aggregation.stateFormatVersion"
_FORMAT_VERSION = "2"  # in the first one the keys stand among the values as well


@dataclass(frozen=True)
class _Field:
    """A column of the state: its type, as Spark's object and in SQL, and whether it may be NULL."""

    type: Any
    sql: str
    nullable: bool


class StateMaker:
    """Makes savepoints of queries. Safe to use from several threads; all calls block."""

    def __init__(self, driver: SparkDriver, files: HadoopFiles) -> None:
        self._driver = driver
        self._files = files
        conf = driver.context._jsc.hadoopConfiguration()
        self._savepoints = Savepoints(driver.jvm, conf, str(driver.context.version))

    def make(
        self,
        operation: Operation,
        session: JvmSession,
        frame: Dataset,
        request: SavepointRequest,
        query: StateQuery,
        reads: frozenset[str],
    ) -> Manifest:
        """Makes the savepoint that is asked for, or finds that it is there; `reads` are the savepoints that the query names.

        Raises StatementError for rows that cannot be that state, SavepointError, OperationCancelledError, or what Spark raises.
        """
        base, sql_hash = self._base(request, query, reads)
        table = self._table(session, base, query)

        def is_cancelled() -> bool:
            operation.check()
            return False

        def complete(copy: str, batch: int) -> None:
            self._fill(operation, session, frame, table, copy, batch)

        return self._savepoints.take(
            base,
            request.target,
            Owner(request.uid, request.namespace, request.name),
            sql_hash=sql_hash,
            is_cancelled=is_cancelled,
            is_copied=lambda path: _METADATA in path or not is_state_of(path, (table.operator.operator_id,)),
            complete=complete,
        )

    def _base(self, request: SavepointRequest, query: StateQuery, reads: frozenset[str]) -> tuple[str, str | None]:
        """The checkpoint that is copied, and the hash of the text whose state it has."""
        own = [each for each in query.savepoints if each.name in reads and each.statement == query.statement]
        if len(own) > 1:
            names = ", ".join(each.name for each in own)
            raise _refused(
                f"the query reads several savepoints of statement {query.statement} ({names}), and the new one has the offsets of "
                "one: write the rows of the others into a table, and read that"
            )
        if own and own[0].location is not None:
            found = self._savepoints.inspect(own[0].location)
            return self._savepoints.checkpoint_in(own[0].location), found.sql_hash
        if request.checkpoint is None:
            raise _refused(
                f"statement {query.statement} has no state yet, whose offsets the savepoint would have: let it run its first batch, "
                "or read one of its savepoints"
            )
        return request.checkpoint, request.sql_hash

    def _table(self, session: JvmSession, base: str, query: StateQuery) -> StateTable:
        """The aggregation whose state is made. Raises StatementError."""
        tables = state_tables(noted_operators(self._driver.jvm, session, base), described(self._files, base))
        names = ", ".join(repr(each.name) for each in tables)
        if query.operator is None:
            found = [each for each in tables if each.described is not None and each.described.kind == AGGREGATE]
            if len(found) != 1:
                raise _refused(
                    f"spec.operator: name the aggregate that the rows belong to, as the state has {names or 'none'}"
                )
            return found[0]
        wanted = next((each for each in tables if each.name == query.operator), None)
        if wanted is None:
            raise _refused(f"spec.operator: the state has no operator {query.operator!r}; it has {names or 'none'}")
        if wanted.described is None or wanted.described.kind != AGGREGATE:
            raise _refused(
                f"spec.operator: the state of {wanted.name!r} cannot be made by a query, that of aggregates can; the state has {names}"
            )
        return wanted

    def _fill(
        self, operation: Operation, session: JvmSession, frame: Dataset, table: StateTable, copy: str, batch: int
    ) -> None:
        """Writes the rows into the copy of a checkpoint, as the state after its last batch."""
        offsets = self._files.read_text(f"{copy}/offsets/{batch}")
        if offsets is None:
            raise SavepointError(f"the copy lacks offsets/{batch}")
        operator = table.operator.operator_id
        try:
            with (
                spark_state.supported(),
                spark_state.session_of_state(self._driver, session, offsets) as of_state,
            ):
                self._check_form(of_state)
                state = spark_state.read_state(self._driver, of_state, copy, operator, batch)
                given = self._layout(table, copy, state)
                with self._checked(session, frame, given, _fields(state)) as rows:
                    operation.check()
                    self._write(of_state, rows, StateForm(operator, len(given.keys), int(_FORMAT_VERSION)), copy, batch)
        except UnknownSparkError as unknown:
            raise refusal(ErrorReason.NOT_IMPLEMENTED, str(unknown)) from unknown

    def _check_form(self, of_state: JvmSession) -> None:
        unknown = spark_state.unknown_form(of_state)
        if unknown is None and str(of_state.conf().get(_FORMAT)) != _FORMAT_VERSION:
            unknown = f"{_FORMAT} is {of_state.conf().get(_FORMAT)}"
        if unknown is not None:
            raise refusal(ErrorReason.NOT_IMPLEMENTED, f"the state cannot be made by a query, as {unknown}")

    def _layout(self, table: StateTable, copy: str, state: LogicalPlan) -> Layout:
        key, value = kept_columns(state)
        found = layout(table, described(self._files, copy), key, value)
        places = [place for part in (*found.keys, *found.values) for place in part.filled]
        if not found.is_told or len(found.keys) != len(key) or sorted(places) != list(range(len(key) + len(value))):
            raise refusal(
                ErrorReason.NOT_IMPLEMENTED,
                f"the state of {table.name!r} cannot be built from a query: its description does not name the stored columns "
                "(session windows, or a state of an earlier version)",
            )
        return found

    def _write(self, of_state: JvmSession, rows: Dataset, form: StateForm, copy: str, batch: int) -> None:
        jvm, plan = self._driver.jvm, rows.queryExecution().analyzed()
        columns = [alias(jvm, column, f"c{place}") for place, column in enumerate(elements(plan.output()))]
        spread = spark_state.partitioned(self._driver, of_state, columns, form.keys, plan)
        spark_state.write_state(self._driver, of_state, form, spread, f"{copy}/{_SCRATCH}")
        self._savepoints.move_state(f"{copy}/{_SCRATCH}", copy, lambda path: whole_state(path, batch + 1))
        self._files.delete(f"{copy}/{_SCRATCH}")
        written = spark_state.read_state(self._driver, of_state, copy, form.operator_id, batch)
        keys, values = spark_state.columns_by_place(jvm, written)
        found = checksum(self._driver, of_state, [*keys, *values], written)
        expected = checksum(self._driver, of_state, elements(plan.output()), plan)
        if found != expected:
            raise SavepointError(
                f"the state that was written does not have the rows of the query: {found[0]} groups of {expected[0]}"
            )

    def _checked(self, session: JvmSession, frame: Dataset, given: Layout, fields: Sequence[_Field]) -> _Rows:
        """The rows of the query as columns of the state, kept as long as the context lasts. Raises StatementError."""
        attributes = elements(frame.queryExecution().analyzed().output())
        try:
            filled = fillings(given, [Given(str(each.name()), _field_names(each.dataType())) for each in attributes])
        except MisfitError as misfit:
            raise _refused(str(misfit)) from misfit
        types = [each.dataType() for each in attributes]
        for filling, field in zip(filled, fields, strict=True):
            self._check_type(session, filling, types, field)
        to_seq = self._driver.jvm.PythonUtils.toSeq
        named = frame.toDF(to_seq([f"g{place}" for place in range(len(attributes))]))
        expressions = [_expression(filling, types, field) for filling, field in zip(filled, fields, strict=True)]
        columns = [f"{expression} AS c{place}" for place, expression in enumerate(expressions)]
        rows = _Rows(named.selectExpr(to_seq(columns)))
        rows.check(to_seq, len(given.keys), [each.told for each in filled], [each.nullable for each in fields])
        return rows

    def _check_type(self, session: JvmSession, filling: Filling, types: Sequence[Any], field: _Field) -> None:
        """Raises StatementError for a type whose values are not all those of the state's."""
        if filling.value is Value.IS_EMPTY:
            return
        there, wanted = _type_of(filling, types), field.type
        if filling.unscaled is not None:
            wanted = session.sessionState().sqlParser().parseDataType(filling.unscaled.sum_type)
        castable = scala_object(self._driver.jvm.org.apache.spark.sql.catalyst.expressions, "Cast")
        if not _has_fields_of(there, wanted) or not castable.canUpCast(there, wanted):
            raise _refused(
                f"column {filling.told} is {wanted.simpleString()} in the state, and {there.simpleString()} in the query: CAST it"
            )


class _Rows:
    """Rows that are computed once. Their columns are those of the state, its keys first."""

    def __init__(self, frame: Dataset) -> None:
        self._frame = frame.persist()

    def __enter__(self) -> Dataset:
        return self._frame

    def __exit__(self, *_: object) -> None:
        self._frame.unpersist()

    def check(self, to_seq: Any, keys: int, names: Sequence[str], nullable: Sequence[bool]) -> None:
        """Raises StatementError for a key that is there twice, and for a NULL where the state has none."""
        try:
            self._check(to_seq, keys, names, nullable)
        except BaseException:
            self._frame.unpersist()
            raise

    def _check(self, to_seq: Any, keys: int, names: Sequence[str], nullable: Sequence[bool]) -> None:
        never = [place for place, may_be in enumerate(nullable) if not may_be]
        key = ", ".join(f"c{place}" for place in range(keys)) or "0"
        counts = ["count(*)", f"count(DISTINCT struct({key}))", *(f"count_if(c{place} IS NULL)" for place in never)]
        row = self._frame.selectExpr(to_seq(counts)).head()
        total, groups, *nulls = (int(row.getLong(place)) for place in range(len(counts)))
        if not keys and total != 1:
            raise _refused(f"the query gives {total} rows, and an aggregate without GROUP BY has one")
        if total != groups:
            raise _refused(f"the query gives {total} rows for {groups} keys ({', '.join(names[:keys])}): each key once")
        for place, count in zip(never, nulls, strict=True):
            if count:
                raise _refused(
                    f"column {names[place]} is NULL in {count} rows, and never is in the state: use coalesce"
                )


def _fields(state: LogicalPlan) -> list[_Field]:
    structs = {str(column.name()): column.dataType() for column in elements(state.output())}
    found = [structs[part].apply(place) for part in ("key", "value") for place in range(int(structs[part].length()))]
    return [_Field(each.dataType(), str(each.dataType().sql()), bool(each.nullable())) for each in found]


def _field_names(data_type: Any) -> tuple[str, ...] | None:
    return tuple(map(str, data_type.fieldNames())) if simple_name(data_type) == "StructType" else None


def _type_of(filling: Filling, types: Sequence[Any]) -> Any:
    whole = types[filling.column]
    return whole if filling.field is None else whole.apply(filling.field).dataType()


def _has_fields_of(given: Any, wanted: Any) -> bool:
    """Whether a STRUCT has the names of the state's one in its order: a cast goes by their places."""
    of_given, of_wanted = _field_names(given), _field_names(wanted)
    if of_given is None or of_wanted is None:
        return True
    if [name.lower() for name in of_given] != [name.lower() for name in of_wanted]:
        return False
    pairs = ((given.apply(place).dataType(), wanted.apply(place).dataType()) for place in range(len(of_given)))
    return all(_has_fields_of(*pair) for pair in pairs)


def _expression(filling: Filling, types: Sequence[Any], field: _Field) -> str:
    name = f"g{filling.column}"
    if filling.field is not None:
        quoted = str(types[filling.column].apply(filling.field).name()).replace("`", "``")
        name = f"{name}.`{quoted}`"
    match filling.value:
        case Value.AS_GIVEN:
            return f"CAST({name} AS {field.sql})"
        case Value.TOTAL:
            return f"CAST(coalesce({name}, 0) AS {field.sql})"
        case Value.IS_EMPTY:
            return f"({name} IS NULL)"
        case Value.UNSCALED:
            assert filling.unscaled is not None
            sum_type, scale = filling.unscaled.sum_type, filling.unscaled.scale
            return f"CAST(CAST({name} AS {sum_type}) * CAST('1E{scale}' AS DECIMAL({scale + 1},0)) AS {field.sql})"


def _refused(message: str) -> StatementError:
    return refusal(ErrorReason.INVALID_SPEC, message)
