"""Values of Kafka records as the columns that a table declares, and back.

A value that is not what the table declares must not become NULLs unless that was asked for: all are read with the parser's
permissive mode, which marks them, and what then happens to a marked one is said here, with its place in the topic.
"""

from __future__ import annotations

import re
from typing import Any

from sparksql.gateway.changelog.source import ROW_KIND, SEQ, guarded
from sparksql.gateway.spark.shapes import Jvm, JvmSession
from sparksql.gateway.streaming.kafka import avro, envelopes, protobuf
from sparksql.gateway.streaming.kafka.envelopes import CHANGED_ROW, CORRUPT, Envelope
from sparksql.gateway.streaming.kafka.options import (
    AVRO_SCHEMA,
    KEY_COLUMN,
    KEY_COLUMNS,
    OP,
    PROVIDER,
    RECORD_COLUMNS,
    KafkaColumn,
    KafkaTable,
    ParseMode,
    ValueFormat,
)
from sparksql.gateway.streaming.kafka.records import RECORD, check_columns, record_type
from sparksql.gateway.streaming.source_keys import mark

_ROW = "__row"
_UNSAFE = re.compile(r"[^\w.$ -]")  # what a name may not have inside a literal
_REMEDY = "value.mode DROPMALFORMED leaves such records out, value.mode PERMISSIVE gives NULLs for what cannot be read"
_PLACE = "concat('{problem}: topic ', topic, ', partition ', partition, ', offset ', offset, '. {remedy}')"


def read(jvm: Jvm, session: JvmSession, table: KafkaTable, *, streaming: bool) -> Any:
    """Returns a Dataset of a table's rows. Raises StatementError."""
    reader = (session.readStream() if streaming else session.read()).format(PROVIDER)
    for key, value in table.reading().items():
        reader = reader.option(key, value)
    frame = decoded(jvm, session, table, reader.load())
    if streaming:
        mark(jvm, frame, table.name, table.keys, f"name its key columns in option {KEY_COLUMNS!r} of the table")
    return frame


def decoded(jvm: Jvm, session: JvmSession, table: KafkaTable, records: Any) -> Any:
    """Returns a Dataset with the table's columns, of one with Kafka's own columns. Raises StatementError."""
    match table.format:
        case ValueFormat.RAW:
            return records
        case ValueFormat.JSON:
            return _selected(jvm, table, _parsed(jvm, table, records, _struct(jvm, table.value_columns)))
        case ValueFormat.DEBEZIUM:
            struct = envelopes.debezium_json(_struct(jvm, table.value_columns), _struct(jvm, ()))
            return _changes(jvm, table, records, _from_json(jvm, struct), envelopes.DEBEZIUM)
        case ValueFormat.MAXWELL:
            struct = envelopes.maxwell_json(_struct(jvm, table.value_columns), _struct(jvm, ()))
            return _changes(jvm, table, records, _from_json(jvm, struct), envelopes.MAXWELL)
        case ValueFormat.AVRO:
            problem = "a value is not an Avro record of the schema that the table declares"
            return _selected(jvm, table, _of_record(jvm, table, records, avro.parsed(jvm, session, table), problem))
        case ValueFormat.DEBEZIUM_AVRO:
            return _changes(jvm, table, records, avro.parsed(jvm, session, table), envelopes.DEBEZIUM_RECORD)
        case ValueFormat.PROTOBUF:
            problem = "a value is not a Protobuf message of the kind that the table declares"
            return _selected(jvm, table, _of_record(jvm, table, records, protobuf.parsed(jvm, table), problem))
        case ValueFormat.DEBEZIUM_PROTOBUF:
            return _changes(jvm, table, records, protobuf.parsed(jvm, table), envelopes.DEBEZIUM_RECORD)


def encoded(jvm: Jvm, session: JvmSession, table: KafkaTable, rows: Any) -> Any:
    """Returns a Dataset for Spark's Kafka sink, of one with the table's written columns."""
    functions, to_seq = jvm.org.apache.spark.sql.functions, jvm.PythonUtils.toSeq
    value = functions.struct(to_seq([_column(jvm, column.name) for column in table.value_columns]))
    if table.format is ValueFormat.AVRO:
        value = avro.functions(jvm, session, table).to_avro(value, table.option(AVRO_SCHEMA))
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
    bad = f"{_ROW} IS NULL OR {_ROW}.{CORRUPT} IS NOT NULL"
    return _treated(jvm, table, parsed, bad, "a value is not JSON with the columns that the table declares")


def _changes(jvm: Jvm, table: KafkaTable, records: Any, value: Any, envelope: Envelope) -> Any:
    """The changed rows with their operation, of records whose values are parsed by `value`.

    Tombstones are left out: they only tell the broker that it may forget a key.
    """
    records = records.where("value IS NOT NULL")
    if envelope.markers is None:
        parsed = _with_value(jvm, table, records, envelopes.VALUE, value)
    else:
        parsed = _computed_once(jvm, records, envelopes.VALUE, value).where(f"NOT ({envelope.markers})")
    if table.format.is_avro or table.format.is_protobuf:
        record = record_type(table, parsed.schema().apply(envelopes.VALUE).dataType())
        check_columns(table, envelopes.row_type(table, record), "before and after in ")
    parsed = parsed.withColumn(envelopes.CHANGE, _expression(jvm, envelope.change))
    if table.has_all_changes:
        return guarded(jvm, _selected(jvm, table, _halves(jvm, table, parsed, envelope)), table.name, table.keys)
    parsed = parsed.withColumn(_ROW, _expression(jvm, envelopes.ROW))
    bad = f"{envelope.unread} OR {_ROW}.{OP} IS NULL OR {_ROW}.{CHANGED_ROW} IS NULL"
    return _selected(jvm, table, _treated(jvm, table, parsed, bad, f"a value is not a change of {envelope.writer}"))


def _halves(jvm: Jvm, table: KafkaTable, parsed: Any, envelope: Envelope) -> Any:
    """The rows that go and come with each change, as `__row`."""
    parsed = parsed.withColumn(_ROW, _expression(jvm, envelopes.HALVES))
    bad = f"{envelope.unread} OR {_ROW} IS NULL OR exists({_ROW}, half -> half.{CHANGED_ROW} IS NULL)"
    problem = (
        "a value is not a change of Debezium (c, r, u or d) with the columns that the table declares (an update and a delete need "
        "the old row in before)"
    )
    treated = _treated(jvm, table, parsed, bad, problem)
    return treated.withColumn(_ROW, jvm.org.apache.spark.sql.functions.explode(_column(jvm, _ROW)))


def _of_record(jvm: Jvm, table: KafkaTable, records: Any, value: Any, problem: str) -> Any:
    """Records with their Avro record or Protobuf message as `__row`, treated as the mode says. A missing value is malformed."""
    parsed = _with_value(jvm, table, records, envelopes.VALUE, value)
    check_columns(table, record_type(table, parsed.schema().apply(envelopes.VALUE).dataType()))
    parsed = parsed.withColumn(_ROW, _expression(jvm, f"{envelopes.VALUE}.{RECORD}"))
    return _treated(jvm, table, parsed, f"{_ROW} IS NULL", problem)


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
            place = _PLACE.format(problem=f"Kafka table {name}: {problem}", remedy=_REMEDY)
            # Not a filter: one of the query's own could come before it, and leave the record out without a word.
            row = _expression(jvm, f"CASE WHEN {bad} THEN raise_error({place}) ELSE {_ROW} END")
            return _computed_once(jvm, parsed, _ROW, row)


def _selected(jvm: Jvm, table: KafkaTable, parsed: Any) -> Any:
    return parsed.select(jvm.PythonUtils.toSeq([_select(jvm, table, column) for column in table.columns]))


def _select(jvm: Jvm, table: KafkaTable, column: KafkaColumn) -> Any:
    if column.is_of_record:
        return _column(jvm, RECORD_COLUMNS[column.name.lower()][0]).cast(column.type).alias(column.name)
    row = _column(jvm, _ROW)
    if table.has_all_changes:
        return _half(jvm, row, column.name)
    if table.format.has_changes:
        row = row.getField(OP) if column.is_operation else row.getField(CHANGED_ROW).getField(column.name)
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
            return row.getField(CHANGED_ROW).getField(name).alias(name)


def _expression(jvm: Jvm, text: str) -> Any:
    return jvm.org.apache.spark.sql.functions.expr(text)


def _from_json(jvm: Jvm, struct: Any) -> Any:
    options = {"mode": ParseMode.PERMISSIVE.value, "columnNameOfCorruptRecord": CORRUPT}
    text = _column(jvm, "value").cast("string")
    return jvm.org.apache.spark.sql.functions.from_json(text, struct.add(CORRUPT, "string"), options)


def _struct(jvm: Jvm, columns: tuple[KafkaColumn, ...]) -> Any:
    struct = jvm.org.apache.spark.sql.types.StructType()
    for column in columns:
        struct = struct.add(column.name, column.type)
    return jvm.org.apache.spark.sql.catalyst.util.CharVarcharUtils.replaceCharVarcharWithStringInSchema(struct)


def _column(jvm: Jvm, name: str) -> Any:
    return jvm.org.apache.spark.sql.functions.col("`" + name.replace("`", "``") + "`")
