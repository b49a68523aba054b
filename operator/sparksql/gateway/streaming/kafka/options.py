"""Tables and temporary views `USING kafka`: what their options and their columns mean.

Spark gives such a table the columns of a Kafka record, and refuses any other. Here a table may declare the columns of the
record's value instead, with `value.format`; docs/kafka.md is the contract with its users.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sparksql.gateway.changelog.source import ROW_KIND, SEQ
from sparksql.gateway.sql.errors import StatementError, refusal
from sparksql.wire.control import ErrorReason

PROVIDER = "kafka"
OP = "_op"
OWN_PREFIXES = ("value.", "key.", "changelog.")


class ValueFormat(StrEnum):
    """Names what `value.format` may be. RAW: no declared columns, Spark's own."""

    RAW = "raw"
    JSON = "json"
    AVRO = "avro"
    DEBEZIUM = "debezium"
    DEBEZIUM_AVRO = "debezium-avro"
    PROTOBUF = "protobuf"
    DEBEZIUM_PROTOBUF = "debezium-protobuf"
    MAXWELL = "maxwell"

    @property
    def is_avro(self) -> bool:
        """Returns whether values are records of Avro."""
        return self in (ValueFormat.AVRO, ValueFormat.DEBEZIUM_AVRO)

    @property
    def is_protobuf(self) -> bool:
        """Returns whether values are messages of Protobuf."""
        return self in (ValueFormat.PROTOBUF, ValueFormat.DEBEZIUM_PROTOBUF)

    @property
    def has_changes(self) -> bool:
        """Returns whether a value is a change of a row: such a table has the column `_op`, and is read only."""
        return self is ValueFormat.MAXWELL or self.has_old_rows

    @property
    def has_old_rows(self) -> bool:
        """Returns whether a change tells the whole row that was before it."""
        return self in (ValueFormat.DEBEZIUM, ValueFormat.DEBEZIUM_AVRO, ValueFormat.DEBEZIUM_PROTOBUF)


class AvroHeader(StrEnum):
    """Names what stands before a record of Avro: the id that a registry of schemas knows the writer's schema by."""

    NONE = "none"
    CONFLUENT = "confluent"
    APICURIO = "apicurio"

    @property
    def id_bytes(self) -> int:
        """Returns the length of the id, big-endian behind a zero byte; 0 without a header.

        Sources: Confluent's wire format; Apicurio's DefaultIdHandler, which writes a long.
        """
        match self:
            case AvroHeader.NONE:
                return 0
            case AvroHeader.CONFLUENT:
                return 4
            case AvroHeader.APICURIO:
                return 8


class ProtobufHeader(StrEnum):
    """Names what stands before a message of Protobuf. Source of the second: Confluent's wire format."""

    NONE = "none"
    CONFLUENT = "confluent"


class ParseMode(StrEnum):
    """Names what becomes of a record whose value is not what the table declares."""

    FAILFAST = "FAILFAST"
    DROPMALFORMED = "DROPMALFORMED"
    PERMISSIVE = "PERMISSIVE"


class ChangelogRows(StrEnum):
    """Names what the rows of a table of changes are. LATEST: one for each change; ALL: what goes and what comes."""

    LATEST = "latest"
    ALL = "all"


FORMAT, MODE, AVRO_SCHEMA, AVRO_HEADER = "value.format", "value.mode", "value.avro.schema", "value.avro.header"
KEY_COLUMN, KEY_COLUMNS, CHANGELOG_ROWS = "key.column", "key.columns", "changelog.rows"
PROTOBUF_DESCRIPTOR, PROTOBUF_MESSAGE = "value.protobuf.descriptor", "value.protobuf.message"
PROTOBUF_HEADER = "value.protobuf.header"
_OF_PROTOBUF = (PROTOBUF_DESCRIPTOR, PROTOBUF_MESSAGE, PROTOBUF_HEADER)
OWN = (FORMAT, MODE, AVRO_SCHEMA, AVRO_HEADER, *_OF_PROTOBUF, KEY_COLUMN, KEY_COLUMNS, CHANGELOG_ROWS)
# The schema of records with this id in their header, where it is not the one of the table.
WRITERS_SCHEMA = re.compile(re.escape(AVRO_SCHEMA) + r"\.(\d{1,18})")
# Columns of these names are filled from the record, not from its value: Kafka's column, and the types they may be declared with.
RECORD_COLUMNS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "_key": ("key", ("string", "binary")),
    "_topic": ("topic", ("string",)),
    "_partition": ("partition", ("int",)),
    "_offset": ("offset", ("bigint",)),
    "_timestamp": ("timestamp", ("timestamp",)),
    "_headers": ("headers", ("array<struct<key:string,value:binary>>",)),
}
# Columns of a table with the rows of changes that are not of the value, and their types.
CHANGELOG_COLUMNS: Mapping[str, str] = {ROW_KIND: "string", SEQ: "struct<partition:int,offset:bigint,half:int>"}
_WRITABLE = frozenset({"_key", "_headers"})
ENDS = frozenset({"endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"})
# What the sink's producer is given where the table says nothing. One request at a time: with more, a partition that is being
# created takes the second batch and refuses the first from then on (KAFKA-15591, mended in Kafka 4.5). Batches of 128 KiB
# make up for it: 1 million records of 100 bytes to a local broker took 2.2 s, with Kafka's own two defaults 2.9 s.
_PRODUCER = {"kafka.max.in.flight.requests.per.connection": "1", "kafka.batch.size": "131072"}
# What the source's consumers are given where the table says nothing. A consumer asks for more once it has what a batch reads,
# and the next batch waits for that answer: until another record comes, or Kafka's default of 500 ms is over. Only in mode
# RealTime is a consumer asked all the time, and then asks its broker 50 times a second for a partition to which nothing comes.
_CONSUMER = {"kafka.fetch.max.wait.ms": "20"}


@dataclass(frozen=True)
class KafkaColumn:
    """A declared column; `type` is Spark's DataType."""

    name: str
    type: Any = field(repr=False)

    @property
    def type_name(self) -> str:
        """Returns Spark's simple string of the type."""
        return str(self.type.simpleString())

    @property
    def is_of_record(self) -> bool:
        """Returns whether the column is one of the record, beside its value."""
        return self.name.lower() in RECORD_COLUMNS

    @property
    def is_operation(self) -> bool:
        """Returns whether the column holds the operation of a changed row."""
        return self.name.lower() == OP


@dataclass(frozen=True)
class KafkaTable:
    """A table or temporary view as one query sees it. `options` keep the spelling of their keys, and may hold secrets."""

    name: str
    columns: tuple[KafkaColumn, ...]
    options: Mapping[str, str] = field(repr=False)

    @property
    def format(self) -> ValueFormat:
        """Returns the format of values. Raises StatementError for one that is not known."""
        text = self.option(FORMAT)
        try:
            return ValueFormat((text or ValueFormat.RAW).lower())
        except ValueError:
            raise self.invalid(f"option {FORMAT!r} is {text!r}: it must be one of {', '.join(ValueFormat)}") from None

    @property
    def mode(self) -> ParseMode:
        """Returns the mode of reading. Raises StatementError for one that is not known."""
        text = self.option(MODE)
        try:
            return ParseMode((text or ParseMode.FAILFAST).upper())
        except ValueError:
            raise self.invalid(f"option {MODE!r} is {text!r}: it must be one of {', '.join(ParseMode)}") from None

    @property
    def avro_header(self) -> AvroHeader:
        """Returns what stands before an Avro record. Raises StatementError for a header that is not known."""
        text = self.option(AVRO_HEADER)
        try:
            return AvroHeader((text or AvroHeader.NONE).lower())
        except ValueError:
            raise self.invalid(
                f"option {AVRO_HEADER!r} is {text!r}: it must be one of {', '.join(AvroHeader)}"
            ) from None

    @property
    def protobuf_header(self) -> ProtobufHeader:
        """Returns what stands before a Protobuf message. Raises StatementError for a header that is not known."""
        text = self.option(PROTOBUF_HEADER)
        try:
            return ProtobufHeader((text or ProtobufHeader.NONE).lower())
        except ValueError:
            raise self.invalid(
                f"option {PROTOBUF_HEADER!r} is {text!r}: it must be one of {', '.join(ProtobufHeader)}"
            ) from None

    @property
    def shape(self) -> str:
        """Returns what gives the values of Avro or Protobuf their fields, for people."""
        return f"the message in {PROTOBUF_MESSAGE!r}" if self.format.is_protobuf else f"the schema in {AVRO_SCHEMA!r}"

    @property
    def writers_schemas(self) -> dict[int, str]:
        """Returns the schemas that records were written with, by the id in their header.

        Empty where every record is of the one schema in `value.avro.schema`.
        """
        found = ((WRITERS_SCHEMA.fullmatch(key.lower()), value) for key, value in self.options.items())
        return {int(match[1]): schema for match, schema in found if match is not None}

    @property
    def keys(self) -> tuple[str, ...]:
        """Returns the columns that tell rows apart, as the table's options name them; none where they do not say."""
        column, columns = self.option(KEY_COLUMN), self.option(KEY_COLUMNS)
        if columns is not None:
            return tuple(part.strip() for part in columns.split(","))
        return () if column is None else (column,)

    @property
    def read_only(self) -> str | None:
        """Returns why no INSERT can write such values, None if one can."""
        if self.format.has_changes or self.format.is_protobuf:
            return f"{FORMAT} {self.format} is read only: write into a table with {FORMAT} json or avro"
        if self.format.is_avro and self.avro_header is not AvroHeader.NONE:
            return f"{AVRO_HEADER} {self.avro_header} is read only, no id of the schema is known: write into a table without it"
        return None

    @property
    def has_all_changes(self) -> bool:
        """Returns whether the table has the rows of changes. Raises StatementError for an option that is not known."""
        text = self.option(CHANGELOG_ROWS)
        try:
            return ChangelogRows((text or ChangelogRows.LATEST).lower()) is ChangelogRows.ALL
        except ValueError:
            known = ", ".join(ChangelogRows)
            raise self.invalid(f"option {CHANGELOG_ROWS!r} is {text!r}: it must be one of {known}") from None

    @property
    def value_columns(self) -> tuple[KafkaColumn, ...]:
        """Returns the declared columns that are in the value."""
        if self.has_all_changes:
            return tuple(c for c in self.columns if c.name.lower() not in CHANGELOG_COLUMNS)
        has_operation = self.format.has_changes
        return tuple(c for c in self.columns if not c.is_of_record and not (has_operation and c.is_operation))

    @property
    def written_columns(self) -> tuple[KafkaColumn, ...]:
        """Returns the declared columns that an INSERT gives: the broker fills the others of the record."""
        return tuple(c for c in self.columns if not c.is_of_record or c.name.lower() in _WRITABLE)

    def option(self, name: str) -> str | None:
        """Returns an option by its name in lower case, None when it is not given."""
        return next((value for key, value in self.options.items() if key.lower() == name), None)

    def reading(self) -> dict[str, str]:
        """Returns the options for Spark's Kafka source."""
        given = {key: value for key, value in self.options.items() if not key.lower().startswith(OWN_PREFIXES)}
        options = _with_defaults(_CONSUMER, given)
        if any(column.name.lower() == "_headers" for column in self.columns):
            options["includeHeaders"] = "true"
        return options

    def writing(self) -> dict[str, str]:
        """Returns the options for Spark's Kafka sink, but for the topic."""
        given = {key: value for key, value in self.options.items() if key.lower().startswith("kafka.")}
        return _with_defaults(_PRODUCER, given)

    def invalid(self, problem: str) -> StatementError:
        """Returns the error for a table that is not as it must be."""
        return refusal(ErrorReason.INVALID_SPEC, f"Kafka table {self.name}: {problem}")


def _with_defaults(defaults: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Returns given options, and the defaults of what they do not name."""
    named = {key.lower() for key in given}
    return {**{key: value for key, value in defaults.items() if key not in named}, **given}


def is_kafka(provider: object) -> bool:
    """Returns whether a table's provider is Kafka."""
    return str(provider or "").lower() == PROVIDER


def columns_of(schema: Any) -> tuple[KafkaColumn, ...]:
    """Returns the columns of a StructType."""
    return tuple(KafkaColumn(str(f.name()), f.dataType()) for f in (schema.apply(i) for i in range(schema.length())))
