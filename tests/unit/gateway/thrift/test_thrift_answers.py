"""What clients are told: types, errors, listings, the properties they open sessions with, and who is let in."""

from __future__ import annotations

import pytest

from sparksql.gateway.catalog.catalog import FunctionEntry, SchemaEntry, TableEntry
from sparksql.gateway.catalog.columns import ColumnEntry
from sparksql.gateway.frontends.thrift import errors, listings
from sparksql.gateway.frontends.thrift.listings import Listing
from sparksql.gateway.frontends.thrift.types import HiveType, hive_type
from sparksql.gateway.sessions.model import ClientError, OperationInfo, OperationStatus, Problem
from sparksql.protocols.hiveserver2.messages import TOperationState, TStatusCode, TTypeId
from sparksql.protocols.hiveserver2.properties import Configuration, read_configuration, use_statement
from sparksql.protocols.hiveserver2.sasl import NegotiationError, Plain, parse_plain
from sparksql.wire.control import ErrorReason, OperationError


@pytest.mark.parametrize(
    ("spark", "hive"),
    [
        ("int", HiveType(TTypeId.INT_TYPE)),
        ("string", HiveType(TTypeId.STRING_TYPE)),
        ("string collate UTF8_LCASE", HiveType(TTypeId.STRING_TYPE)),
        ("decimal(10,2)", HiveType(TTypeId.DECIMAL_TYPE, precision=10, scale=2)),
        ("DECIMAL(38, 18)", HiveType(TTypeId.DECIMAL_TYPE, precision=38, scale=18)),
        ("varchar(20)", HiveType(TTypeId.VARCHAR_TYPE, length=20)),
        ("char(3)", HiveType(TTypeId.CHAR_TYPE, length=3)),
        ("timestamp", HiveType(TTypeId.TIMESTAMP_TYPE)),
        ("timestamp_ntz", HiveType(TTypeId.TIMESTAMP_TYPE)),
        ("void", HiveType(TTypeId.NULL_TYPE)),
        ("array<decimal(10,2)>", HiveType(TTypeId.ARRAY_TYPE)),
        ("map<string,int>", HiveType(TTypeId.MAP_TYPE)),
        ("struct<a:int>", HiveType(TTypeId.STRUCT_TYPE)),
        ("interval day to second", HiveType(TTypeId.STRING_TYPE)),
        ("interval", HiveType(TTypeId.STRING_TYPE)),
        ("variant", HiveType(TTypeId.STRING_TYPE)),
        ("time(6)", HiveType(TTypeId.STRING_TYPE)),
        ("", HiveType(TTypeId.STRING_TYPE)),
    ],
)
def test_spark_types_map_to_hive_types(spark: str, hive: HiveType) -> None:
    assert hive_type(spark) == hive


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (None, Configuration({})),
        ({"use:database": "default"}, Configuration({})),
        ({"use:database": "sales"}, Configuration({}, "sales")),
        ({"set:hiveconf:spark.sql.ansi.enabled": "true"}, Configuration({"spark.sql.ansi.enabled": "true"})),
        ({"set:hivevar:day": "2026-01-31"}, Configuration({"day": "2026-01-31"})),
        ({"set:spark.sql.x": "1", "my.key": "2"}, Configuration({"spark.sql.x": "1", "my.key": "2"})),
        ({"set:hiveconf:hive.fetch.size": "1", "hive.x": "2", "mapred.y": "3"}, Configuration({})),
    ],
)
def test_session_configuration_of_hive_clients_is_read(given: dict[str, str] | None, read: Configuration) -> None:
    assert read_configuration(given) == read


@pytest.mark.parametrize(
    ("database", "statement"),
    [("sales", "USE `sales`"), ("lake.sales", "USE `lake`.`sales`"), ("a`b; DROP", "USE `a``b; DROP`")],
)
def test_chosen_schema_becomes_a_use_statement(database: str, statement: str) -> None:
    assert use_statement(database) == statement


def ended(status: OperationStatus, error: OperationError | None = None) -> OperationInfo:
    return OperationInfo(handle="o", session="s", status=status, error=error)


PARSE_ERROR = OperationError(
    condition="PARSE_SYNTAX_ERROR", sql_state="42601", message="Syntax error at 'selec'.", line=2, position=5
)


@pytest.mark.parametrize(
    ("view", "sql_state", "message"),
    [
        (ended(OperationStatus.ERROR, PARSE_ERROR), "42601",
         "[PARSE_SYNTAX_ERROR] Syntax error at 'selec'. SQLSTATE: 42601 (line 2, position 5)"),
        (ended(OperationStatus.ERROR, OperationError(condition="A", sql_state="1", message="[A.B] x SQLSTATE: 1")), "1",
         "[A.B] x SQLSTATE: 1"),
        (ended(OperationStatus.ERROR, OperationError(message="boom")), "HY000", "boom"),
        (ended(OperationStatus.ERROR, OperationError(message="no", reason=ErrorReason.NOT_ALLOWED)), "42501", "no"),
        (ended(OperationStatus.ERROR), "HY000", "the statement failed"),
        (ended(OperationStatus.CANCELED), "HY008", "the statement was cancelled"),
        (ended(OperationStatus.TIMEOUT), "HYT00", "the statement ran into its time limit"),
        (ended(OperationStatus.TIMEOUT, OperationError(message="after 5 s", reason=ErrorReason.EXECUTION_TIMEOUT)),
         "HYT00", "after 5 s"),
    ],
)  # fmt: skip
def test_a_failed_statement_is_answered_with_sql_state_and_message(
    view: OperationInfo, sql_state: str, message: str
) -> None:
    status = errors.statement_failure(view)
    assert (status.status_code, status.sql_state, status.error_message) == (
        TStatusCode.ERROR_STATUS,
        sql_state,
        message,
    )


@pytest.mark.parametrize("problem", list(Problem))
def test_every_refusal_has_an_sql_state_and_says_why(problem: Problem) -> None:
    status = errors.client_refusal(ClientError(problem, "because"))
    assert status.status_code == TStatusCode.ERROR_STATUS
    assert len(status.sql_state or "") == 5
    assert status.error_message is not None and status.error_message.endswith("because")


def test_every_status_has_a_state() -> None:
    states = {status: errors.state_of(status) for status in OperationStatus}
    assert states[OperationStatus.TIMEOUT] is TOperationState.TIMEDOUT_STATE
    assert len(set(states.values())) == len(OperationStatus)


COLUMN = ColumnEntry("c", "s", "t", "price", "decimal(10,2)", False, 3, "in euros", "DECIMAL(10,2)")
LISTINGS = {
    "catalogs": listings.catalogs(["spark_catalog", "lake"]),
    "schemas": listings.schemas([SchemaEntry("lake", "sales")]),
    "tables": listings.tables([TableEntry("lake", "sales", "orders", "TABLE", "all orders")]),
    "columns": listings.columns([COLUMN]),
    "functions": listings.functions([FunctionEntry("", "", "abs", "a.b.Abs")]),
    "table types": listings.table_types(),
    "types": listings.type_info(),
    "primary keys": listings.primary_keys(),
    "cross reference": listings.cross_reference(),
}


@pytest.mark.parametrize("listing", LISTINGS.values(), ids=LISTINGS.keys())
def test_listings_are_tables_of_their_columns(listing: Listing) -> None:
    table = listing.table()
    assert table.column_names == [column.name for column in listing.columns]
    assert table.num_rows == len(listing.rows)
    assert [tuple(row.values()) for row in table.to_pylist()] == list(listing.rows)


def test_a_column_tells_its_type_as_jdbc_asks() -> None:
    (row,) = LISTINGS["columns"].table().to_pylist()
    assert {key: value for key, value in row.items() if value is not None} == {
        "TABLE_CAT": "c", "TABLE_SCHEM": "s", "TABLE_NAME": "t", "COLUMN_NAME": "price", "DATA_TYPE": 3,
        "TYPE_NAME": "DECIMAL(10,2)", "COLUMN_SIZE": 10, "DECIMAL_DIGITS": 2, "NUM_PREC_RADIX": 10, "NULLABLE": 0,
        "REMARKS": "in euros", "ORDINAL_POSITION": 3, "IS_NULLABLE": "NO", "IS_AUTO_INCREMENT": "NO",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spark", "jdbc", "size", "digits"),
    [
        ("int", 4, 10, 0), ("bigint", -5, 19, 0), ("double", 8, 15, 15), ("string", 12, 2**31 - 1, None),
        ("varchar(7)", 12, 7, None), ("char(2)", 1, 2, None), ("date", 91, 10, None), ("timestamp_ntz", 93, 26, 6),
        ("boolean", 16, 1, None), ("array<int>", 2003, None, None), ("interval year", 12, 2**31 - 1, None),
    ],
)  # fmt: skip
def test_listed_column_has_jdbc_type_size_and_digits(
    spark: str, jdbc: int, size: int | None, digits: int | None
) -> None:
    (row,) = listings.columns([ColumnEntry("", "", "t", "c", spark, True, 1, "", spark)]).table().to_pylist()
    assert (row["DATA_TYPE"], row["COLUMN_SIZE"], row["DECIMAL_DIGITS"]) == (jdbc, size, digits)


def test_type_info_knows_each_type_once() -> None:
    names = LISTINGS["types"].table()["TYPE_NAME"].to_pylist()
    assert len(names) == len(set(names))
    assert {"INT", "STRING", "DECIMAL", "TIMESTAMP_NTZ", "STRUCT"} <= set(names)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (None, None),
        ("", ""),
        ("%", "%"),
        (".*", "%"),
        ("*", "%"),
        ("ord.*", "ord%"),
        ("a.b", "a.b"),
        ("a\\_b", "a\\_b"),
    ],
)
def test_a_hive_name_pattern_is_read_as_a_jdbc_pattern(given: str | None, read: str | None) -> None:
    assert listings.jdbc_pattern(given) == read


TOKEN = "token-ä"


@pytest.mark.parametrize("name", ["ada", "", "ä b"])
def test_a_login_is_read_as_name_and_password(name: str) -> None:
    assert parse_plain(b"\0" + name.encode() + b"\0" + TOKEN.encode()) == Plain(name, TOKEN.encode())
    assert parse_plain(b"other\0" + name.encode() + b"\0" + TOKEN.encode()) == Plain(name, TOKEN.encode())


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"\0",
        b"ada",
        TOKEN.encode(),
        b"\0ada\0" + TOKEN.encode() + b"\0",
    ],
)
def test_a_login_of_another_form_is_refused_and_does_not_reveal_the_token(response: bytes) -> None:
    with pytest.raises(NegotiationError) as refusal:
        parse_plain(response)
    assert TOKEN not in str(refusal.value)
