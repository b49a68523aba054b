"""Values of Kafka records as the columns that a table declares, and back.

A value that is not what the table declares must not become NULLs unless that was asked for: all are read with the parser's
permissive mode, which marks them, and what then happens to a marked one is said here, with its place in the topic.
"""

from __future__ import annotations

import re
from typing import Any

from sparksql.gateway.changelog.source import ROW_KIND, SEQ, guarded
from sparksql.gateway.spark.shapes import Jvm, JvmSession
from sparksql.gateway.streaming.kafka.options import (
    AVRO_SCHEMA,
    KEY_COLUMN,
    OP,
    PROVIDER,
    RECORD_COLUMNS,
    KafkaColumn,
    KafkaTable,
    ParseMode,
    ValueFormat,
)

_VALUE, _CORRUPT, _ROW, _CHANGE = "__value", "__corrupt", "__row", "__change"
# Of a change of Debezium: its envelope, which stands in `payload` if the schema is in the value, and what `__row` has of it.
_ENVELOPE = (
    f"coalesce({_VALUE}.payload, named_struct('before', {_VALUE}.before, 'after', {_VALUE}.after, 'op', {_VALUE}.op))"
)
_CHANGED_ROW = "changed"
_CHANGED = (
    f"named_struct('{_CHANGED_ROW}', CASE WHEN {_CHANGE}.op = 'd' THEN {_CHANGE}.before ELSE {_CHANGE}.after END, "
    f"'{OP}', {_CHANGE}.op)"
)
# The same with both halves of an update, and which of them a row is.
_HALVES = (
    f"CASE {_CHANGE}.op WHEN 'd' THEN array({{goes}}) WHEN 'u' THEN array({{goes}}, {{comes}}) "
    f"WHEN 'c' THEN array({{comes}}) WHEN 'r' THEN array({{comes}}) END"
).format(
    goes=f"named_struct('{_CHANGED_ROW}', {_CHANGE}.before, 'kind', if({_CHANGE}.op = 'd', '-D', '-U'), 'half', 0)",
    comes=f"named_struct('{_CHANGED_ROW}', {_CHANGE}.after, 'kind', if({_CHANGE}.op = 'u', '+U', '+I'), 'half', 1)",
)
_AVRO_CLASS = "org.apache.spark.sql.avro.functions"
_UNSAFE = re.compile(r"[^\w.$ -]")  # what a name may not have inside a literal
_PLACE = "concat('{problem}: topic ', topic, ', partition ', partition, ', offset ', offset, '. {remedy}')"


def read(jvm: Jvm, session: JvmSession, table: KafkaTable, *, streaming: bool) -> Any:
    """Returns a Dataset of a table's rows. Raises StatementError."""
    reader = (session.readStream() if streaming else session.read()).format(PROVIDER)
    for key, value in table.reading().items():
        reader = reader.option(key, value)
    return decoded(jvm, session, table, reader.load())


def decoded(jvm: Jvm, session: JvmSession, table: KafkaTable, records: Any) -> Any:
    """Returns a Dataset with the table's columns, of one with Kafka's own columns. Raises StatementError."""
    match table.format:
        case ValueFormat.RAW:
            return records
        case ValueFormat.JSON:
            return _selected(jvm, table, _parsed(jvm, table, records, _struct(jvm, table.value_columns)))
        case ValueFormat.DEBEZIUM:
            if table.has_all_changes:
                return guarded(
                    jvm, _selected(jvm, table, _halves(jvm, table, records)), table.name, table.changelog_key
                )
            return _selected(jvm, table, _changes(jvm, table, records))
        case ValueFormat.AVRO:
            return _selected(jvm, table, _avro(jvm, session, table, records))


def encoded(jvm: Jvm, session: JvmSession, table: KafkaTable, rows: Any) -> Any:
    """Returns a Dataset for Spark's Kafka sink, of one with the table's written columns."""
    functions, to_seq = jvm.org.apache.spark.sql.functions, jvm.PythonUtils.toSeq
    value = functions.struct(to_seq([_column(jvm, column.name) for column in table.value_columns]))
    if table.format is ValueFormat.AVRO:
        value = _avro_functions(jvm, session, table).to_avro(value, table.option(AVRO_SCHEMA))
    else:
        value = functions.to_json(value)
    columns = [value.alias("value")]
    if (key := table.option(KEY_COLUMN)) is not None:
        columns.append(_column(jvm, key).cast("string").alias("key"))
    of_record = [column.name for column in table.written_columns if column.is_of_record]
    columns += [_column(jvm, name).alias(RECORD_COLUMNS[name.lower()][0]) for name in of_record]
    return rows.select(to_seq(columns))


def _parsed(jvm: Jvm, table: KafkaTable, records: Any, struct: Any) -> Any:
    """Records with the JSON of their values as `__row`, treated as the table's mode says. A missing value is malformed."""
    parsed = _with_value(jvm, table, records, _ROW, _from_json(jvm, struct))
    bad = f"{_ROW} IS NULL OR {_ROW}.{_CORRUPT} IS NOT NULL"
    return _treated(jvm, table, parsed, bad, "a value is not JSON with the columns that the table declares")


def _changes(jvm: Jvm, table: KafkaTable, records: Any) -> Any:
    """Returns records of Debezium, with or without their schema, as the changed row `__row` and its operation.

    Tombstones are left out: they only tell the broker that it may forget a key.
    """
    parsed = _envelopes(jvm, table, records).withColumn(_ROW, _expression(jvm, _CHANGED))
    bad = f"{_VALUE} IS NULL OR {_VALUE}.{_CORRUPT} IS NOT NULL OR {_ROW}.{OP} IS NULL OR {_ROW}.{_CHANGED_ROW} IS NULL"
    problem = "a value is not a change of Debezium with the columns that the table declares (a delete needs its row in before)"
    return _treated(jvm, table, parsed, bad, problem)


def _halves(jvm: Jvm, table: KafkaTable, records: Any) -> Any:
    """Returns records of Debezium as the rows `__row` that go and come with each."""
    parsed = _envelopes(jvm, table, records).withColumn(_ROW, _expression(jvm, _HALVES))
    bad = (
        f"{_VALUE} IS NULL OR {_VALUE}.{_CORRUPT} IS NOT NULL OR {_ROW} IS NULL OR "
        f"exists({_ROW}, half -> half.{_CHANGED_ROW} IS NULL)"
    )
    problem = (
        "a value is not a change of Debezium (c, r, u or d) with the columns that the table declares (an update and a delete need "
        "the old row in before)"
    )
    treated = _treated(jvm, table, parsed, bad, problem)
    return treated.withColumn(_ROW, jvm.org.apache.spark.sql.functions.explode(_column(jvm, _ROW)))


def _envelopes(jvm: Jvm, table: KafkaTable, records: Any) -> Any:
    """Records of Debezium with their change, as JSON tells it, as `__change`."""
    row = _struct(jvm, table.value_columns)
    types = jvm.org.apache.spark.sql.types
    envelope = types.StructType().add("before", row).add("after", row).add("op", "string")
    value = envelope.add("payload", envelope)
    records = records.where("value IS NOT NULL")
    parsed = _with_value(jvm, table, records, _VALUE, _from_json(jvm, value))
    return parsed.withColumn(_CHANGE, _expression(jvm, _ENVELOPE))


def _avro(jvm: Jvm, session: JvmSession, table: KafkaTable, records: Any) -> Any:
    mode = {"mode": table.mode.value}
    value = _avro_functions(jvm, session, table).from_avro(_column(jvm, "value"), table.option(AVRO_SCHEMA), mode)
    parsed = _with_value(jvm, table, records, _ROW, value)
    fields = parsed.schema().apply(_ROW).dataType()
    has = {str(name): fields.apply(name).dataType() for name in fields.fieldNames()}
    for column in table.value_columns:
        if column.name not in has:
            raise table.invalid(f"column {column.name} is not a field of the schema in {AVRO_SCHEMA!r}")
        if has[column.name].simpleString() != column.type_name:
            message = f"column {column.name} is {column.type_name.upper()}, the Avro schema makes it {has[column.name].sql()}: declare it so"
            raise table.invalid(message)
    return _treated(jvm, table, parsed, f"{_ROW} IS NULL", "a record has no value")


def _with_value(jvm: Jvm, table: KafkaTable, records: Any, name: str, value: Any) -> Any:
    """Records with what their values are parsed to. In mode FAILFAST the check that follows comes out of a generator."""
    return (
        records.withColumn(name, value)
        if table.mode is ParseMode.FAILFAST
        else _computed_once(jvm, records, name, value)
    )


def _computed_once(jvm: Jvm, records: Any, name: str, value: Any) -> Any:
    """Returns records with a column that is computed once for each, whatever is asked of it.

    Spark repeats what a filter and a projection both use, and leaves out what nobody uses, but does neither with what
    comes out of a generator.
    """
    functions = jvm.org.apache.spark.sql.functions
    return records.withColumn(name, functions.explode(functions.array(jvm.PythonUtils.toSeq([value]))))


def _treated(jvm: Jvm, table: KafkaTable, parsed: Any, bad: str, problem: str) -> Any:
    match table.mode:
        case ParseMode.PERMISSIVE:
            return parsed
        case ParseMode.DROPMALFORMED:
            return parsed.where(f"NOT ({bad})")
        case ParseMode.FAILFAST:
            name = _UNSAFE.sub("", table.name)
            place = _PLACE.format(problem=f"Kafka table {name}: {problem}", remedy=_remedy(table))
            # Not a filter: one of the query's own could come before it, and leave the record out without a word.
            row = _expression(jvm, f"CASE WHEN {bad} THEN raise_error({place}) ELSE {_ROW} END")
            return _computed_once(jvm, parsed, _ROW, row)


def _remedy(table: KafkaTable) -> str:
    if table.has_all_changes:
        return "No change may be left out of a changelog: have the connector write what the columns declare, and the old rows whole"
    drops = "" if table.format is ValueFormat.AVRO else "value.mode DROPMALFORMED leaves such records out, "
    return f"{drops}value.mode PERMISSIVE gives NULLs for what cannot be read"


def _selected(jvm: Jvm, table: KafkaTable, parsed: Any) -> Any:
    return parsed.select(jvm.PythonUtils.toSeq([_select(jvm, table, column) for column in table.columns]))


def _select(jvm: Jvm, table: KafkaTable, column: KafkaColumn) -> Any:
    if column.is_of_record:
        return _column(jvm, RECORD_COLUMNS[column.name.lower()][0]).cast(column.type).alias(column.name)
    row = _column(jvm, _ROW)
    if table.has_all_changes:
        return _half(jvm, row, column.name)
    if table.format is ValueFormat.DEBEZIUM:
        row = row.getField(OP) if column.is_operation else row.getField(_CHANGED_ROW).getField(column.name)
        return row.alias(column.name)
    return row.getField(column.name).alias(column.name)


def _half(jvm: Jvm, row: Any, name: str) -> Any:
    """A column of one half of a change. Both halves of one record are rows of one batch, the one that goes before the other."""
    match name.lower():
        case kind if kind == ROW_KIND:
            return row.getField("kind").alias(name)
        case place if place == SEQ:
            return _expression(jvm, f"struct(partition, offset, {_ROW}.half AS half)").alias(name)
        case _:
            return row.getField(_CHANGED_ROW).getField(name).alias(name)


def _expression(jvm: Jvm, text: str) -> Any:
    return jvm.org.apache.spark.sql.functions.expr(text)


def _from_json(jvm: Jvm, struct: Any) -> Any:
    options = {"mode": ParseMode.PERMISSIVE.value, "columnNameOfCorruptRecord": _CORRUPT}
    text = _column(jvm, "value").cast("string")
    return jvm.org.apache.spark.sql.functions.from_json(text, struct.add(_CORRUPT, "string"), options)


def _struct(jvm: Jvm, columns: tuple[KafkaColumn, ...]) -> Any:
    struct = jvm.org.apache.spark.sql.types.StructType()
    for column in columns:
        struct = struct.add(column.name, column.type)
    return jvm.org.apache.spark.sql.catalyst.util.CharVarcharUtils.replaceCharVarcharWithStringInSchema(struct)


def _column(jvm: Jvm, name: str) -> Any:
    return jvm.org.apache.spark.sql.functions.col("`" + name.replace("`", "``") + "`")


def _avro_functions(jvm: Jvm, session: JvmSession, table: KafkaTable) -> Any:
    """Spark's Avro functions. Raises StatementError where their jar is not there."""
    try:
        session.getClass().getClassLoader().loadClass(_AVRO_CLASS)
    except Exception:
        message = (
            "value.format avro needs Spark's jar spark-avro_2.13 in the session's image, of the image's Spark version"
        )
        raise table.invalid(message) from None
    return jvm.org.apache.spark.sql.avro.functions
