"""Spark's classes by which a state is planned, read and written, in one place: none is an API, and versions of Spark differ.

Read from Spark 4.1.4. Where another version has a class elsewhere, or wants other arguments, `supported` raises
UnknownSparkError.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import elements, option, scala_object, simple_name
from sparksql.gateway.spark.shapes import Dataset, Expression, Jvm, JvmSession, LogicalPlan
from sparksql.gateway.streaming.batch_plan import Continued, output_mode, planned_batch
from sparksql.gateway.windowing.expressions import cast

PARTITIONS = "spark.sql.shuffle.partitions"
_STORE = "spark.sql.streaming.stateStore."
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
# Settings of a state that decide on the form of its files, and those of their values for which that is known.
_FORMS = {
    f"{_STORE}providerClass": {f"{_PROVIDERS}HDFSBackedStateStoreProvider", f"{_PROVIDERS}RocksDBStateStoreProvider"},
    f"{_STORE}checkpointFormatVersion": {"1"},
    f"{_STORE}encodingFormat": {"unsaferow"},
}
_AGGREGATION, _SESSIONS = "StateStoreSaveExec", "SessionWindowStateStoreSaveExec"
_WRAPPERS = frozenset({"WholeStageCodegenExec", "InputAdapter"})
_CHANGELOG = f"{_STORE}rocksdb.changelogCheckpointing.enabled"
# Of the writing: a state as a whole and not as changes, and the very partitions of the stream.
_CONF_OF_WRITING = {_CHANGELOG: "false", "spark.sql.adaptive.enabled": "false"}


class UnknownSparkError(Exception):
    """Says that the version of Spark does not have the classes that state is written with as they are known."""


@contextmanager
def supported() -> Iterator[None]:
    """Raises UnknownSparkError for what another version of Spark lacks."""
    try:
        yield
    except (TypeError, Py4JError) as unknown:
        if (
            isinstance(unknown, Py4JError) and type(unknown) is not Py4JError
        ):  # an exception of Spark's, or the JVM is gone
            raise
        raise UnknownSparkError("this version of Spark writes state by other classes than are known") from unknown


@dataclass(frozen=True)
class StateForm:
    """How the state of an aggregation is written: under which id, how many of its columns are keys, in which format of Spark."""

    operator_id: int
    keys: int
    format_version: int


@dataclass(frozen=True)
class Aggregation:
    """An aggregation as Spark keeps its state: `save` is the node that writes it, `functions` are in the order of its columns.

    Of session windows there are neither; these have a state of another form.
    """

    operator_id: int
    save: Any
    is_of_sessions: bool
    format_version: int
    functions: tuple[Expression, ...] = ()

    @property
    def form(self) -> StateForm:
        """Returns how its state is written."""
        return StateForm(self.operator_id, int(self.save.keyExpressions().size()), self.format_version)


@contextmanager
def session_of_state(driver: SparkDriver, session: JvmSession, offsets: str) -> Iterator[JvmSession]:
    """Gives a session with the settings of a state, by the text of the file of offsets of its last batch.

    Spark sets the number of the state's partitions under a name of its own, which only a query looks at.
    """
    other = session.cloneSession()
    checkpointing = driver.jvm.org.apache.spark.sql.execution.streaming.checkpointing
    metadata = scala_object(checkpointing, "OffsetSeqMetadata")
    text = offsets.splitlines()[1]
    metadata.setSessionConf(metadata.apply(text), other.sessionState().conf())
    partitions = str(json.loads(text)["conf"][PARTITIONS])
    for key, value in {**_CONF_OF_WRITING, PARTITIONS: partitions}.items():
        other.conf().set(key, value)
    driver.activate(other)
    try:
        yield other
    finally:
        driver.activate(session)
        driver.close_session(other)


@contextmanager
def whole_states(session: JvmSession) -> Iterator[None]:
    """Has queries of a session write each version of a state as a whole where that is a matter of settings."""
    conf = session.conf()
    before = option(conf.getOption(_CHANGELOG))
    conf.set(_CHANGELOG, "false")
    try:
        yield
    finally:
        conf.unset(_CHANGELOG) if before is None else conf.set(_CHANGELOG, before)


def unknown_form(session: JvmSession) -> str | None:
    """Returns the setting by which the files of a state have a form that is not known; None if they have a known one."""
    for key, known in _FORMS.items():
        value = str(session.conf().get(key))
        if value not in known:
            return f"{key} is {value}"
    return None


def aggregations(
    jvm: Jvm, session: JvmSession, analysed: LogicalPlan, mode: str, continued: Continued | None = None
) -> tuple[Aggregation, ...]:
    """Returns the aggregations with state of an analysed query, those first whose rows others take; see `planned_batch`."""
    plan = planned_batch(jvm, session, analysed, output_mode(jvm, mode), continued)
    return tuple(_aggregation(node) for node in _below_first(plan) if simple_name(node) in (_AGGREGATION, _SESSIONS))


def _below_first(plan: Any) -> Iterator[Any]:
    for child in elements(plan.children()):
        yield from _below_first(child)
    yield plan


def _aggregation(save: Any) -> Aggregation:
    info, version = option(save.stateInfo()), int(save.stateFormatVersion())
    assert info is not None
    if simple_name(save) == _SESSIONS:
        return Aggregation(int(info.operatorId()), save, True, version)
    node = save.child()
    while simple_name(node) in _WRAPPERS:
        node = node.child()
    functions = tuple(each.aggregateFunction() for each in elements(node.aggregateExpressions()))
    return Aggregation(int(info.operatorId()), save, False, version, functions)


def initial_values(jvm: Jvm, function: Expression) -> list[Any]:
    """Returns expressions of what a function begins with, one a column: 0 of a count, NULL of a sum.

    They are made in the JVM: a BIGINT that went through Python would come back as an INT.
    """
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    literal = scala_object(expressions, "Literal")
    columns = elements(function.aggBufferAttributes())

    def is_a(kind: str) -> bool:
        name = f"org.apache.spark.sql.catalyst.expressions.aggregate.{kind}"
        return bool(jvm.java.lang.Class.forName(name).isInstance(function))

    if is_a("DeclarativeAggregate"):
        return elements(function.initialValues())
    if is_a("TypedImperativeAggregate"):
        value = bytearray(function.serialize(function.createAggregationBuffer()))
        return [literal.create(value, columns[0].dataType())]
    row = expressions.SpecificInternalRow(jvm.PythonUtils.toSeq([column.dataType() for column in columns]))
    function.withNewMutableAggBufferOffset(0).initialize(row)
    if any(row.get(place, column.dataType()) != 0 for place, column in enumerate(columns)):
        raise UnknownSparkError(f"{simple_name(function)} begins with something that is not 0")
    return [literal.default(column.dataType()) for column in columns]


def read_state(
    driver: SparkDriver,
    session: JvmSession,
    checkpoint: str,
    operator_id: int,
    batch: int,
    *,
    side: str | None = None,
    variable: str | None = None,
) -> LogicalPlan:
    """Returns the plan of a state after a committed batch: columns `key` and `value`, both structs.

    `side` is left or right, of a join, `variable` the name of one of a function. The driver has what keeps count of states only
    once somebody has asked for it.
    """
    session.sessionState().streamingQueryManager().stateStoreCoordinator()
    reader = session.read().format("statestore").option("operatorId", str(operator_id)).option("batchId", str(batch))
    if side is not None:
        reader = reader.option("joinSide", side)
    if variable is not None:
        reader = reader.option("stateVarName", variable)
    return driver.of_rows(session, reader.load(checkpoint).logicalPlan()).queryExecution().analyzed()


def columns_by_place(jvm: Jvm, state: LogicalPlan) -> tuple[list[Any], list[Any]]:
    """Returns expressions of the columns of `key` and of `value`.

    Several columns of a state may have one name, and where the optimiser prunes columns of a table it finds a field by its
    name, the last one of a name for all. So both structs are cast to one whose fields are named by their places.
    """
    expressions, types = jvm.org.apache.spark.sql.catalyst.expressions, jvm.org.apache.spark.sql.types.DataTypes
    structs = {str(column.name()): column for column in elements(state.output())}

    def columns(struct: Any) -> list[Any]:
        fields = jvm.java.util.ArrayList()
        for place in range(int(struct.dataType().length())):
            field = struct.dataType().apply(place)
            fields.add(field.copy(f"c{place}", field.dataType(), field.nullable(), field.metadata()))
        named = cast(jvm, struct, types.createStructType(fields))
        return [
            expressions.GetStructField(named, place, jvm.scala.Option.apply(None)) for place in range(fields.size())
        ]

    return columns(structs["key"]), columns(structs["value"])


def write_state(driver: SparkDriver, session: JvmSession, form: StateForm, rows: Dataset, folder: str) -> int:
    """Writes rows, of keys and then of values, as the first version of a state below `folder`.

    Returns the number of rows. This is the node by which a query in mode Complete writes its state: it puts every row into
    the store, on the executors, and commits.
    """
    jvm = driver.jvm
    stateful = jvm.org.apache.spark.sql.execution.streaming.operators.stateful
    run, nothing = jvm.java.util.UUID.randomUUID(), jvm.scala.Option.apply(None)
    partitions = int(session.conf().get(PARTITIONS))
    info = stateful.StatefulOperatorStateInfo(folder, run, form.operator_id, 0, partitions, nothing, nothing)
    plan = rows.queryExecution().executedPlan()
    keys = elements(plan.output())[: form.keys]
    save = stateful.StateStoreSaveExec(
        jvm.PythonUtils.toSeq(keys),
        jvm.scala.Option.apply(info),
        jvm.scala.Option.apply(output_mode(jvm, "complete")),
        nothing,
        nothing,
        form.format_version,
        plan,
    )
    try:
        return int(save.execute().count())
    finally:  # executors keep stores open for the next batch of a query, which does not come
        session.sessionState().streamingQueryManager().stateStoreCoordinator().deactivateInstances(run)


def partitioned(
    driver: SparkDriver, session: JvmSession, columns: Sequence[Any], keys: int, child: LogicalPlan
) -> Dataset:
    """Returns the rows of a projection where the stream has them: by the hash of the first `keys` of its columns."""
    jvm = driver.jvm
    logical, to_seq = jvm.org.apache.spark.sql.catalyst.plans.logical, jvm.PythonUtils.toSeq
    project = logical.Project(to_seq(list(columns)), child)
    by = to_seq([column.toAttribute() for column in columns[:keys]])
    partitions = int(session.conf().get(PARTITIONS)) if keys else 1
    number, nothing = jvm.scala.Option.apply(partitions), jvm.scala.Option.apply(None)
    return driver.of_rows(session, logical.RepartitionByExpression(by, project, number, nothing))
