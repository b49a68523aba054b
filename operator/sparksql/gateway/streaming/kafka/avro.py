"""Avro values of Kafka records: what stands before them, their schemas, and a parser that tells which of them are malformed."""

from __future__ import annotations

from typing import Any

from sparksql.gateway.spark.shapes import Jvm, JvmSession
from sparksql.gateway.streaming.kafka.options import AVRO_SCHEMA, AvroHeader, KafkaTable, ParseMode
from sparksql.gateway.streaming.kafka.records import RECORD

_CLASS = "org.apache.spark.sql.avro.functions"
# A record of one field is written as that field alone, so a schema may stand in such a record of our own.
_AROUND = '{{"type": "record", "name": "__sparksql_value", "fields": [{{"name": "{record}", "type": {schema}}}]}}'


def functions(jvm: Jvm, session: JvmSession, table: KafkaTable) -> Any:
    """Returns Spark's Avro functions. Raises StatementError where their jar is not there."""
    try:
        session.getClass().getClassLoader().loadClass(_CLASS)
    except Exception:
        message = f"value.format {table.format} needs Spark's jar spark-avro_2.13 in the session's image, of the image's Spark version"
        raise table.invalid(message) from None
    return jvm.org.apache.spark.sql.avro.functions


def parsed(jvm: Jvm, session: JvmSession, table: KafkaTable) -> Any:
    """Returns the column that reads a record's `value`: a struct whose field RECORD is NULL for a malformed one.

    With a header, its id says which schema the record was written with. Raises StatementError for a schema that is none.
    """
    own, column = functions(jvm, session, table), jvm.org.apache.spark.sql.functions.expr
    schema = _schema(jvm, table, AVRO_SCHEMA)
    permissive = {"mode": ParseMode.PERMISSIVE.value}
    payload = _payload(table.avro_header)
    if not table.writers_schemas:
        return own.from_avro(column(payload), schema, permissive)
    value: Any = None
    for number in sorted(table.writers_schemas):
        written = _schema(jvm, table, f"{AVRO_SCHEMA}.{number}")
        read = own.from_avro(column(payload), written, {**permissive, "avroSchema": schema})
        is_its = column(f"substring(value, 2, {table.avro_header.id_bytes}) = {_literal(number, table.avro_header)}")
        value = jvm.org.apache.spark.sql.functions.when(is_its, read) if value is None else value.when(is_its, read)
    return value


def _payload(header: AvroHeader) -> str:
    """SQL of the record itself: NULL where the header is not there."""
    if header is AvroHeader.NONE:
        return "value"
    size = 1 + header.id_bytes
    return f"CASE WHEN length(value) >= {size} AND substring(value, 1, 1) = X'00' THEN substring(value, {size + 1}) END"


def _literal(number: int, header: AvroHeader) -> str:
    return f"X'{number.to_bytes(header.id_bytes, 'big').hex()}'"


def _schema(jvm: Jvm, table: KafkaTable, name: str) -> str:
    """The schema in an option, within a record of our own. Raises StatementError for a text that is no schema."""
    text = table.option(name) or ""
    try:
        schema = jvm.org.apache.avro.Schema.Parser().parse(text)
    except Exception as exception:
        raise table.invalid(f"option {name!r} is not an Avro schema: {_reason(exception)}") from None
    return _AROUND.format(record=RECORD, schema=schema.toString())


def _reason(exception: Any) -> str:
    thrown = getattr(exception, "java_exception", None)
    return str(exception if thrown is None else thrown.getMessage())
