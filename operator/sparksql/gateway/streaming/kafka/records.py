"""Records of Avro and messages of Protobuf, whose fields a schema beside the table gives: whether its columns are among them."""

from __future__ import annotations

from typing import Any

from sparksql.gateway.streaming.kafka.options import AVRO_SCHEMA, KafkaTable

# Spark gives a record of Avro that it cannot read NULL for each field. So each is read within a record of our own, whose one
# field is NULL for a malformed one, and a record whose own fields are all NULL is told from that.
RECORD = "record"


def record_type(table: KafkaTable, struct: Any) -> Any:
    """Returns Spark's type of a table's records, in the struct around them. Raises StatementError if it is no record."""
    found = struct.apply(RECORD).dataType()
    if str(found.typeName()) != "struct":
        raise table.invalid(f"option {AVRO_SCHEMA!r} is the schema of {found.sql()}, it must be that of a record")
    return found


def check_columns(table: KafkaTable, record: Any, where: str = "") -> None:
    """Raises StatementError for declared columns that are no fields of a record, or of another type; `where` is its place."""
    types = {str(name): record.apply(name).dataType() for name in record.fieldNames()}
    for column in table.value_columns:
        if column.name not in types:
            raise table.invalid(f"column {column.name} is not a field of {where}{table.shape}")
        if types[column.name].simpleString() != column.type_name:
            raise table.invalid(
                f"column {column.name} is {column.type_name.upper()}, {table.shape} makes it {types[column.name].sql()}: declare it so"
            )
