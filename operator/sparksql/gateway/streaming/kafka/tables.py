"""Tables USING kafka as the catalog and a query give them, and what of their definition is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparksql.gateway.changelog.source import SEQ
from sparksql.gateway.spark.scala import elements, option
from sparksql.gateway.spark.types import has_collation
from sparksql.gateway.sql import kafka_options
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.streaming.kafka.options import (
    AVRO_HEADER,
    AVRO_SCHEMA,
    CHANGELOG_COLUMNS,
    CHANGELOG_ROWS,
    ENDS,
    FORMAT,
    KEY_COLUMN,
    KEY_COLUMNS,
    MODE,
    OWN,
    OWN_PREFIXES,
    PROTOBUF_DESCRIPTOR,
    PROTOBUF_MESSAGE,
    RECORD_COLUMNS,
    WRITERS_SCHEMA,
    AvroHeader,
    ChangelogRows,
    KafkaColumn,
    KafkaTable,
    ParseMode,
    ValueFormat,
    columns_of,
)
from sparksql.wire.control import ErrorReason
from sparksql.wire.driver import SqlPolicy

_AVRO_PREFIX, _PROTOBUF_PREFIX = "value.avro.", "value.protobuf."
_STARTS = frozenset({"startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"})
# Options that say the same in different ways: one that a query gives puts out all of the table's.
_RIVALS = (frozenset({"subscribe", "subscribepattern", "assign"}), _STARTS, ENDS)


def kafka_table(metadata: Any, given: Mapping[str, str], policy: SqlPolicy, *, streaming: bool) -> KafkaTable:
    """Returns the table of a CatalogTable, with the options that a query gives it. Raises StatementError.

    The query's options win over the table's. Of the table's own options, those that are meant for the other kind of
    query are left out: a stream knows nothing of an end, and a batch cannot begin at the end.
    """
    own: dict[str, str] = {}
    for pair in elements(metadata.storage().properties()):
        key, value = str(pair._1()), str(pair._2())
        begins_at_end = key.lower() == "startingoffsets" and value.strip().lower() == "latest"
        if (key.lower() in ENDS) if streaming else begins_at_end:
            continue
        own[key] = value
    identifier = metadata.identifier()
    names = [option(identifier.database()), identifier.table()]
    table = KafkaTable(
        name=".".join(str(name) for name in names if name),
        columns=columns_of(metadata.schema()),
        options=_merged(own, given),
    )
    for name, default in ((FORMAT, ValueFormat.RAW), (CHANGELOG_ROWS, ChangelogRows.LATEST)):
        declared = next((value for key, value in own.items() if key.lower() == name), default)
        if (table.option(name) or default).lower() != declared.lower():
            raise table.invalid(f"option {name!r} belongs to the table and its columns: a query cannot change it")
    check_options(table, policy)
    _check_avro(table)  # what the query gives
    _check_protobuf(table)
    _check_key(table)
    _check_changes(table)
    return table


def check_options(table: KafkaTable, policy: SqlPolicy) -> None:
    """Raises StatementError for options of Kafka's clients that SQL may not give, whoever wrote them into the catalog."""
    problem = kafka_options.problem(table.options, policy.conf_allow)
    if problem is not None:
        raise refusal(ErrorReason.NOT_ALLOWED, f"Kafka table {table.name}: {problem}")


def check_table(table: KafkaTable, policy: SqlPolicy) -> None:
    """Raises StatementError for a definition that could not be read, or that SQL may not give."""
    check_options(table, policy)
    for key in table.options:
        if key.lower().startswith(OWN_PREFIXES) and not _is_own(key.lower()):
            raise table.invalid(f"option {key!r} is not known: there are {', '.join(sorted(OWN))}, {AVRO_SCHEMA}.ID")
    if table.format is ValueFormat.RAW:
        _check_raw(table)
    else:
        _check_declared(table)


def _check_raw(table: KafkaTable) -> None:
    if table.columns:
        formats = ", ".join(each for each in ValueFormat if each is not ValueFormat.RAW)
        message = f"columns are declared, so option {FORMAT!r} must say what the value is, one of {formats}"
        raise table.invalid(message)
    for name in table.options:
        if _is_own(name.lower()) and name.lower() != FORMAT:
            raise table.invalid(f"option {name!r} needs declared columns and option {FORMAT!r}")


def _check_declared(table: KafkaTable) -> None:
    if not table.value_columns:
        raise table.invalid(
            f"option {FORMAT!r} is {table.format}: declare the columns of the value, CREATE TABLE t (id BIGINT, ...)"
        )
    for column in table.columns:
        types = ("string",) if _is_op(table, column) else RECORD_COLUMNS.get(column.name.lower(), ("", ()))[1]
        if types and column.type_name not in types:
            raise table.invalid(f"column {column.name} is of the record and must be {' or '.join(types).upper()}")
    _check_avro(table)
    _check_protobuf(table)
    _check_key(table)
    _check_changes(table)


def _check_changes(table: KafkaTable) -> None:
    """Raises StatementError for rows of changes that could not be taken back as they came."""
    if not table.has_all_changes:
        return
    where = f"with {CHANGELOG_ROWS!r} = {str(ChangelogRows.ALL)!r}"
    if not table.format.has_old_rows:
        known = " or ".join(each for each in ValueFormat if each.has_old_rows)
        raise table.invalid(f"option {FORMAT!r} is {table.format}: {where} it must be {known}")
    if table.mode is not ParseMode.FAILFAST:
        raise table.invalid(
            f"option {MODE!r} is {table.mode}: {where} no change may be left out, it must be {ParseMode.FAILFAST}"
        )
    for column in table.columns:
        wanted = CHANGELOG_COLUMNS.get(column.name.lower())
        if wanted is not None and column.type_name != wanted:
            raise table.invalid(f"column {column.name} must be {wanted.upper()}: leave it out, the table gets it")
        if has_collation(column.type):
            raise table.invalid(f"column {column.name} has a COLLATE: {where} equal texts must be the same texts")
        if column.is_of_record or column.is_operation:
            message = f"column {column.name} is of a change, not of a row that comes and goes: {where} leave it out, {SEQ} has the place"
            raise table.invalid(message)


def _check_avro(table: KafkaTable) -> None:
    given = [name for name in table.options if name.lower().startswith(_AVRO_PREFIX)]
    if not table.format.is_avro:
        if given:
            raise table.invalid(f"option {given[0]!r} goes with {FORMAT!r} = 'avro' or 'debezium-avro': leave it out")
        return
    if table.option(AVRO_SCHEMA) is None:
        raise table.invalid(f"{FORMAT!r} = {str(table.format)!r} needs option {AVRO_SCHEMA!r}, the Avro schema as JSON")
    header, schemas = table.avro_header, table.writers_schemas
    if schemas and header is AvroHeader.NONE:
        raise table.invalid(
            f"option {AVRO_SCHEMA}.{min(schemas)} is for an id in a header: set {AVRO_HEADER!r} to confluent or apicurio"
        )
    for number in schemas:
        if number >= 1 << (8 * header.id_bytes - 1):
            raise table.invalid(
                f"option {AVRO_SCHEMA}.{number}: an id of {header} has {header.id_bytes} bytes, take a smaller one"
            )


def _check_protobuf(table: KafkaTable) -> None:
    given = [name for name in table.options if name.lower().startswith(_PROTOBUF_PREFIX)]
    if not table.format.is_protobuf:
        if given:
            raise table.invalid(
                f"option {given[0]!r} goes with {FORMAT!r} = 'protobuf' or 'debezium-protobuf': leave it out"
            )
        return
    for name, what in (
        (
            PROTOBUF_DESCRIPTOR,
            "the Base64 of a FileDescriptorSet, as protoc --include_imports --descriptor_set_out writes it",
        ),
        (PROTOBUF_MESSAGE, "the message's name with its package"),
    ):
        if table.option(name) is None:
            raise table.invalid(f"{FORMAT!r} = {str(table.format)!r} needs option {name!r}, {what}")
    _ = table.protobuf_header  # one that is not known is refused


def _check_key(table: KafkaTable) -> None:
    column = table.option(KEY_COLUMN)
    known = {column.name.lower() for column in table.value_columns}
    for key in (*table.keys, *([] if column is None else [column])):
        if key.lower() not in known:
            name = KEY_COLUMN if key == column else KEY_COLUMNS
            raise table.invalid(f"option {name!r} has {key!r}, which is not a declared column of the value")
    if column is not None and any(each.name.lower() == "_key" for each in table.columns):
        raise table.invalid(f"the key is written from column _key or from option {KEY_COLUMN!r}: take one of them away")


def _is_own(name: str) -> bool:
    return name in OWN or WRITERS_SCHEMA.fullmatch(name) is not None


def _is_op(table: KafkaTable, column: KafkaColumn) -> bool:
    return table.format.has_changes and column.is_operation


def _merged(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    taken = {key.lower() for key in given}
    taken |= {name for rivals in _RIVALS if rivals & taken for name in rivals}
    return {**{key: value for key, value in own.items() if key.lower() not in taken}, **given}
