"""Tables and temporary views `USING kafka`: what their options and their columns mean.

Spark gives such a table the columns of a Kafka record, and refuses any other. Here a table may declare the columns of the
record's value instead, with `value.format`; docs/kafka.md is the contract with its users.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sparksql.gateway.changelog.source import ROW_KIND, SEQ
from sparksql.gateway.spark.scala import elements, option
from sparksql.gateway.sql import kafka_options
from sparksql.gateway.sql.errors import StatementError, refusal
from sparksql.wire.control import ErrorReason
from sparksql.wire.driver import SqlPolicy

PROVIDER = "kafka"
OP = "_op"
_OWN_PREFIXES = ("value.", "key.", "changelog.")


class ValueFormat(StrEnum):
    """Names what `value.format` may be. RAW: no declared columns, Spark's own."""

    RAW = "raw"
    JSON = "json"
    AVRO = "avro"
    DEBEZIUM = "debezium"


class ParseMode(StrEnum):
    """Names what becomes of a record whose value is not what the table declares."""

    FAILFAST = "FAILFAST"
    DROPMALFORMED = "DROPMALFORMED"
    PERMISSIVE = "PERMISSIVE"


class ChangelogRows(StrEnum):
    """Names what the rows of a table of changes are. LATEST: one for each change; ALL: what goes and what comes."""

    LATEST = "latest"
    ALL = "all"


FORMAT, MODE, AVRO_SCHEMA, KEY_COLUMN = "value.format", "value.mode", "value.avro.schema", "key.column"
CHANGELOG_ROWS, CHANGELOG_KEY = "changelog.rows", "changelog.key"
_OWN = frozenset({FORMAT, MODE, AVRO_SCHEMA, KEY_COLUMN, CHANGELOG_ROWS, CHANGELOG_KEY})
# Columns of a table with the rows of changes that are not of the value, and their types.
CHANGELOG_COLUMNS: Mapping[str, str] = {ROW_KIND: "string", SEQ: "struct<partition:int,offset:bigint,half:int>"}
# Columns of these names are filled from the record, not from its value: Kafka's column, and the types they may be declared with.
RECORD_COLUMNS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "_key": ("key", ("string", "binary")),
    "_topic": ("topic", ("string",)),
    "_partition": ("partition", ("int",)),
    "_offset": ("offset", ("bigint",)),
    "_timestamp": ("timestamp", ("timestamp",)),
    "_headers": ("headers", ("array<struct<key:string,value:binary>>",)),
}
_WRITABLE = frozenset({"_key", "_headers"})
_STARTS = frozenset({"startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"})
ENDS = frozenset({"endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"})
# What the sink's producer is given where the table says nothing. One request at a time: with more, a partition that is being
# created takes the second batch and refuses the first from then on (KAFKA-15591, mended in Kafka 4.5). Batches of 128 KiB
# make up for it: 1 million records of 100 bytes to a local broker took 2.2 s, with Kafka's own two defaults 2.9 s.
_PRODUCER = {"kafka.max.in.flight.requests.per.connection": "1", "kafka.batch.size": "131072"}
# What the source's consumers are given where the table says nothing. A consumer asks for more once it has what a batch reads,
# and the next batch waits for that answer: until another record comes, or Kafka's default of 500 ms is over. Only in mode
# RealTime is a consumer asked all the time, and then asks its broker 50 times a second for a partition to which nothing comes.
_CONSUMER = {"kafka.fetch.max.wait.ms": "20"}
# Options that say the same in different ways: one that a query gives puts out all of the table's.
_RIVALS = (frozenset({"subscribe", "subscribepattern", "assign"}), _STARTS, ENDS)


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
    def has_all_changes(self) -> bool:
        """Returns whether the table has the rows of changes. Raises StatementError for an option that is not known."""
        text = self.option(CHANGELOG_ROWS)
        try:
            return ChangelogRows((text or ChangelogRows.LATEST).lower()) is ChangelogRows.ALL
        except ValueError:
            known = ", ".join(ChangelogRows)
            raise self.invalid(f"option {CHANGELOG_ROWS!r} is {text!r}: it must be one of {known}") from None

    @property
    def changelog_key(self) -> tuple[str, ...]:
        """Returns the columns that tell the rows of the changed table apart, none when they are not given."""
        return tuple(name.strip() for name in (self.option(CHANGELOG_KEY) or "").split(",") if name.strip())

    @property
    def value_columns(self) -> tuple[KafkaColumn, ...]:
        """Returns the declared columns that are in the value."""
        has_operation = self.format is ValueFormat.DEBEZIUM
        if self.has_all_changes:
            return tuple(c for c in self.columns if c.name.lower() not in CHANGELOG_COLUMNS)
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
        given = {key: value for key, value in self.options.items() if not key.lower().startswith(_OWN_PREFIXES)}
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
    for name, default in ((FORMAT, ValueFormat.RAW), (CHANGELOG_ROWS, ChangelogRows.LATEST), (CHANGELOG_KEY, "")):
        declared = next((value for key, value in own.items() if key.lower() == name), default)
        if (table.option(name) or default).lower() != declared.lower():
            raise table.invalid(f"option {name!r} belongs to the table and its columns: a query cannot change it")
    _check_changes(table)
    check_options(table, policy)
    return table


def columns_of(schema: Any) -> tuple[KafkaColumn, ...]:
    """Returns the columns of a StructType."""
    return tuple(KafkaColumn(str(f.name()), f.dataType()) for f in (schema.apply(i) for i in range(schema.length())))


def check_options(table: KafkaTable, policy: SqlPolicy) -> None:
    """Raises StatementError for options of Kafka's clients that SQL may not give, whoever wrote them into the catalog."""
    problem = kafka_options.problem(table.options, policy.conf_allow)
    if problem is not None:
        raise refusal(ErrorReason.NOT_ALLOWED, f"Kafka table {table.name}: {problem}")


def check_table(table: KafkaTable, policy: SqlPolicy) -> None:
    """Raises StatementError for a definition that could not be read, or that SQL may not give."""
    check_options(table, policy)
    for key in table.options:
        if key.lower().startswith(_OWN_PREFIXES) and key.lower() not in _OWN:
            raise table.invalid(f"option {key!r} is not known: there are {', '.join(sorted(_OWN))}")
    if table.format is ValueFormat.RAW:
        _check_raw(table)
    else:
        _check_declared(table)


def _check_raw(table: KafkaTable) -> None:
    if table.columns:
        message = f"columns are declared, so option {FORMAT!r} must say what the value is: json, avro or debezium"
        raise table.invalid(message)
    for name in (MODE, AVRO_SCHEMA, KEY_COLUMN, CHANGELOG_ROWS, CHANGELOG_KEY):
        if table.option(name) is not None:
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
    if (table.format is ValueFormat.AVRO) != (table.option(AVRO_SCHEMA) is not None):
        raise table.invalid(
            f"option {AVRO_SCHEMA!r}, the Avro schema as JSON, goes with {FORMAT!r} = 'avro', each needs the other"
        )
    if table.format is ValueFormat.AVRO and table.mode is ParseMode.DROPMALFORMED:
        raise table.invalid(f"option {MODE!r} can be FAILFAST or PERMISSIVE with avro, not DROPMALFORMED")
    _check_key(table)
    _check_changes(table)


def _check_changes(table: KafkaTable) -> None:
    """Raises StatementError for rows of changes that could not be taken back as they came."""
    if not table.has_all_changes:
        if table.changelog_key:
            raise table.invalid(f"option {CHANGELOG_KEY!r} goes with {CHANGELOG_ROWS!r} = {str(ChangelogRows.ALL)!r}")
        return
    where = f"with {CHANGELOG_ROWS!r} = {str(ChangelogRows.ALL)!r}"
    if table.format is not ValueFormat.DEBEZIUM:
        raise table.invalid(f"option {FORMAT!r} is {table.format}: {where} it must be {ValueFormat.DEBEZIUM}")
    if table.mode is not ParseMode.FAILFAST:
        raise table.invalid(
            f"option {MODE!r} is {table.mode}: {where} no change may be left out, it must be {ParseMode.FAILFAST}"
        )
    for column in table.columns:
        wanted = CHANGELOG_COLUMNS.get(column.name.lower())
        if wanted is not None and column.type_name != wanted:
            raise table.invalid(f"column {column.name} must be {wanted.upper()}: leave it out, the table gets it")
        if "collate" in column.type_name.lower():
            raise table.invalid(f"column {column.name} has a COLLATE: {where} equal texts must be the same texts")
        if column.is_of_record or column.is_operation:
            message = f"column {column.name} is of a change, not of a row that comes and goes: {where} leave it out, {SEQ} has the place"
            raise table.invalid(message)
    names = {column.name.lower() for column in table.value_columns}
    for name in table.changelog_key:
        if name.lower() not in names:
            raise table.invalid(f"option {CHANGELOG_KEY!r} names {name!r}, which is not a declared column of the value")


def _check_key(table: KafkaTable) -> None:
    key = table.option(KEY_COLUMN)
    if key is None:
        return
    if key.lower() not in {column.name.lower() for column in table.value_columns}:
        raise table.invalid(f"option {KEY_COLUMN!r} is {key!r}, which is not a declared column of the value")
    if any(column.name.lower() == "_key" for column in table.columns):
        raise table.invalid(f"the key is written from column _key or from option {KEY_COLUMN!r}: take one of them away")


def _is_op(table: KafkaTable, column: KafkaColumn) -> bool:
    return table.format is ValueFormat.DEBEZIUM and column.is_operation


def _merged(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    taken = {key.lower() for key in given}
    taken |= {name for rivals in _RIVALS if rivals & taken for name in rivals}
    return {**{key: value for key, value in own.items() if key.lower() not in taken}, **given}
