"""The query set that every client runs, and the rows that each must show.

Values are Python's, one class for each kind of Spark type, so that `printing` can tell how a client shows them. What an
operation without rows answers differs between protocols and is not compared.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, auto
from typing import Any

UTC = dt.UTC


class Struct(dict[str, Any]):
    """A struct by field name; a plain dict is a map."""


class Interval(str):
    """An interval as Spark's cast to a string shows it."""


class Variant(str):
    """A variant as JSON."""


class Need(Enum):
    """What a client or its way of showing rows cannot do by itself, whatever the server."""

    ARRAYS = auto()
    STRUCTS = auto()
    MAPS = auto()
    OTHER_KEYS = auto()  # maps whose keys are not strings
    CONTROL_CHARACTERS = auto()
    COMMENTS = auto()
    DUPLICATE_NAMES = auto()
    INTERVALS = auto()
    DATES = auto()  # and timestamps
    LONG_INTEGERS = auto()  # beyond 2 to the power of 53


@dataclass(frozen=True)
class Query:
    """`{db}` in `sql` is a database of the client's own. `rows` is None for what has none or others than these; `needs` names
    what a client must be able to show at all."""

    name: str
    sql: str
    columns: tuple[str, ...] = ()
    rows: Sequence[tuple[Any, ...]] | None = None
    needs: frozenset[Need] = frozenset()
    contains: str = ""  # some cell must contain it

    @property
    def reads(self) -> bool:
        """Whether a client reads rows after it."""
        return self.rows is not None or bool(self.contains)

    def text(self, database: str) -> str:
        return self.sql.replace("{db}", database)


@dataclass(frozen=True)
class Failure:
    """A statement that Spark refuses: what the client shows must contain each of `shows`."""

    name: str
    sql: str
    shows: tuple[str, ...]

    def text(self, database: str) -> str:
        return self.sql.replace("{db}", database)


@dataclass
class _Set:
    queries: list[Query] = field(default_factory=list)

    def rows(self, name: str, sql: str, columns: str, *rows: tuple[Any, ...], needs: Sequence[Need] = ()) -> None:
        self.queries.append(Query(name, sql, tuple(columns.split()), rows, frozenset(needs)))

    def done(self, name: str, sql: str) -> None:
        self.queries.append(Query(name, sql))

    def shows(self, name: str, sql: str, text: str) -> None:
        self.queries.append(Query(name, sql, contains=text))


PAGED_ROWS = 25_000
WIDE_COLUMNS = 120
LONG_TEXT = 40_000
DAY = dt.date(2024, 2, 29)
INSTANT = dt.datetime(2024, 2, 29, 12, 34, 56, 123456, tzinfo=UTC)


def _numbers_and_texts(add: _Set) -> None:
    add.rows("one", "SELECT 1 AS one", "one", (1,))
    add.rows(
        "integers",
        "SELECT CAST(-128 AS TINYINT) AS t, CAST(-32768 AS SMALLINT) AS s, 2147483647 AS i, 9007199254740991 AS b",
        "t s i b",
        (-128, -32768, 2147483647, 2**53 - 1),
    )
    add.rows(
        "long_integers",
        "SELECT 9223372036854775807 AS p, -9223372036854775807 AS n",
        "p n",
        (2**63 - 1, 1 - 2**63),
        needs=[Need.LONG_INTEGERS],
    )
    add.rows("floats", "SELECT CAST(1.5 AS FLOAT) AS f, CAST(-2.25 AS DOUBLE) AS d", "f d", (1.5, -2.25))
    add.rows(
        "special_doubles",
        "SELECT CAST('NaN' AS DOUBLE) AS n, CAST('Infinity' AS DOUBLE) AS p, CAST('-Infinity' AS DOUBLE) AS m",
        "n p m",
        (float("nan"), float("inf"), float("-inf")),
    )
    add.rows(
        "decimals",
        "SELECT CAST(12.3 AS DECIMAL(10,2)) AS d, CAST(-0.5 AS DECIMAL(38,18)) AS n, CAST(7 AS DECIMAL(20,0)) AS z",
        "d n z",
        (Decimal("12.30"), Decimal("-0.500000000000000000"), Decimal("7")),
    )
    add.rows("booleans", "SELECT true AS t, false AS f, CAST(NULL AS BOOLEAN) AS n", "t f n", (True, False, None))
    add.rows("strings", "SELECT '' AS e, 'a b' AS b, 'it''s \"so\"' AS q", "e b q", ("", "a b", 'it\'s "so"'))
    add.rows("unicode", "SELECT 'žluťoučký' AS l, '漢字' AS c, '😀' AS s", "l c s", ("žluťoučký", "漢字", "😀"))
    add.rows(
        "control_characters",
        "SELECT 'a\\tb\\nc' AS t, 'x\\\\y' AS b",
        "t b",
        ("a\tb\nc", "x\\y"),
        needs=[Need.CONTROL_CHARACTERS],
    )
    add.rows("semicolon", "SELECT 'a;b' AS s", "s", ("a;b",))
    add.rows("comments", "SELECT /* a; b */ 1 AS one", "one", (1,), needs=[Need.COMMENTS])


def _times_and_others(add: _Set) -> None:
    add.rows("binary", "SELECT X'00FF10' AS b, CAST(NULL AS BINARY) AS n", "b n", (b"\x00\xff\x10", None))
    add.rows("text_binary", "SELECT CAST('hello' AS BINARY) AS b", "b", (b"hello",))
    add.rows(
        "dates",
        "SELECT DATE'2024-02-29' AS d, DATE'9999-12-31' AS f",
        "d f",
        (DAY, dt.date(9999, 12, 31)),
        needs=[Need.DATES],
    )
    add.rows("old_dates", "SELECT DATE'0001-01-01' AS d", "d", (dt.date(1, 1, 1),), needs=[Need.DATES])
    add.rows(
        "timestamps",
        "SELECT TIMESTAMP'2024-02-29 12:34:56.123456' AS t, TIMESTAMP'1969-12-31 23:59:59' AS s",
        "t s",
        (INSTANT, dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        needs=[Need.DATES],
    )
    add.rows(
        "timestamps_ntz",
        "SELECT TIMESTAMP_NTZ'2024-02-29 12:34:56.123456' AS t",
        "t",
        (INSTANT.replace(tzinfo=None),),
        needs=[Need.DATES],
    )
    add.rows("nulls", "SELECT CAST(NULL AS INT) AS i, CAST(NULL AS STRING) AS s, CAST(NULL AS DATE) AS d, CAST(NULL AS TIMESTAMP) AS t, CAST(NULL AS DECIMAL(5,1)) AS n", "i s d t n", (None,) * 5)  # fmt: skip
    add.rows("void", "SELECT NULL AS n, 1 AS i", "n i", (None, 1))
    add.rows(
        "intervals",
        "SELECT INTERVAL '1-2' YEAR TO MONTH AS y, INTERVAL '1 02:03:04' DAY TO SECOND AS d",
        "y d",
        (Interval("INTERVAL '1-2' YEAR TO MONTH"), Interval("INTERVAL '1 02:03:04' DAY TO SECOND")),
        needs=[Need.INTERVALS],
    )
    add.rows("variant", "SELECT parse_json('{\"a\":1}') AS v", "v", (Variant('{"a":1}'),))


def _nested(add: _Set) -> None:
    add.rows("arrays", "SELECT array(1, NULL, 3) AS i, array('a', 'b') AS s, array(DATE'2024-02-29') AS d", "i s d", ([1, None, 3], ["a", "b"], [DAY]), needs=[Need.ARRAYS])  # fmt: skip
    add.rows("empty_array", "SELECT CAST(array() AS ARRAY<INT>) AS a, CAST(NULL AS ARRAY<INT>) AS n", "a n", ([], None), needs=[Need.ARRAYS])  # fmt: skip
    add.rows("maps", "SELECT map('k', 7) AS m", "m", ({"k": 7},), needs=[Need.MAPS])
    add.rows("number_keys", "SELECT map(1, 'x') AS m", "m", ({1: "x"},), needs=[Need.MAPS, Need.OTHER_KEYS])
    add.rows("structs", "SELECT named_struct('a', 1, 'b', 'z') AS s", "s", (Struct(a=1, b="z"),), needs=[Need.STRUCTS])
    add.rows(
        "nested",
        "SELECT array(named_struct('a', array(1, 2))) AS n",
        "n",
        ([Struct(a=[1, 2])],),
        needs=[Need.ARRAYS, Need.STRUCTS],
    )


def _shapes(add: _Set) -> None:
    add.rows("empty", "SELECT id, CAST(id AS STRING) AS s FROM range(3) WHERE id > 10", "id s")
    add.rows("many_rows", f"SELECT id, id % 7 AS r, concat('row-', id) AS s FROM range({PAGED_ROWS}) ORDER BY id", "id r s", *((n, n % 7, f"row-{n}") for n in range(PAGED_ROWS)))  # fmt: skip
    wide = ", ".join(f"{n} AS c{n}" for n in range(WIDE_COLUMNS))
    add.rows("many_columns", f"SELECT {wide}", " ".join(f"c{n}" for n in range(WIDE_COLUMNS)), tuple(range(WIDE_COLUMNS)))  # fmt: skip
    add.rows("long_text", f"SELECT repeat('x', {LONG_TEXT}) AS s", "s", ("x" * LONG_TEXT,))
    add.rows("same_names", "SELECT 1 AS a, 2 AS a", "a a", (1, 2), needs=[Need.DUPLICATE_NAMES])
    add.queries.append(Query("expression_name", "SELECT 1 + 1", ("(1 + 1)",), ((2,),)))
    add.rows("values", "VALUES (1, 'a'), (2, 'b')", "col1 col2", (1, "a"), (2, "b"))


def _sql(add: _Set) -> None:
    add.rows("join", "SELECT a.id, b.x FROM range(3) a LEFT JOIN VALUES (1, 'one'), (2, 'two') AS b(id, x) ON a.id = b.id ORDER BY a.id", "id x", (0, None), (1, "one"), (2, "two"))  # fmt: skip
    add.rows("group", "SELECT id % 2 AS k, count(*) AS n, sum(id) AS s FROM range(10) GROUP BY 1 ORDER BY 1", "k n s", (0, 5, 20), (1, 5, 25))  # fmt: skip
    add.rows("window", "SELECT id, sum(id) OVER (ORDER BY id) AS s, row_number() OVER (ORDER BY id DESC) AS r FROM range(3) ORDER BY id", "id s r", (0, 0, 3), (1, 1, 2), (2, 3, 1))  # fmt: skip
    add.rows("cte", "WITH a AS (SELECT id FROM range(5)), b AS (SELECT max(id) AS m FROM a) SELECT m FROM b", "m", (4,))
    add.rows("explode", "SELECT explode(array('x', 'y')) AS e", "e", ("x",), ("y",))
    add.rows("ordered_strings", "SELECT s FROM VALUES ('b'), ('a'), (NULL) AS t(s) ORDER BY s NULLS LAST", "s", ("a",), ("b",), (None,))  # fmt: skip


def _tables(add: _Set) -> None:
    add.done("make_table", "CREATE TABLE {db}.t (id INT, name STRING, amount DECIMAL(10,2), day DATE) USING parquet")
    add.done("insert", "INSERT INTO {db}.t VALUES (1, 'ann', 10.50, DATE'2024-01-01'), (2, NULL, -1, NULL)")
    add.rows("read_back", "SELECT * FROM {db}.t ORDER BY id", "id name amount day", (1, "ann", Decimal("10.50"), dt.date(2024, 1, 1)), (2, None, Decimal("-1.00"), None), needs=[Need.DATES])  # fmt: skip
    add.done("ctas", "CREATE TABLE {db}.c USING parquet AS SELECT id, name FROM {db}.t WHERE id > 1")
    add.rows("read_ctas", "SELECT id, name FROM {db}.c", "id name", (2, None))
    add.done("make_view", "CREATE VIEW {db}.v AS SELECT count(*) AS n FROM {db}.t")
    add.rows("read_view", "SELECT n FROM {db}.v", "n", (2,))
    add.done("temp_view", "CREATE TEMPORARY VIEW own AS SELECT 42 AS answer")
    add.rows("read_temp_view", "SELECT answer FROM own", "answer", (42,))
    add.shows("show_tables", "SHOW TABLES IN {db}", "t")
    add.shows("show_databases", "SHOW DATABASES LIKE '{db}'", "{db}")
    add.shows("describe", "DESCRIBE TABLE {db}.t", "decimal(10,2)")
    add.shows("explain", "EXPLAIN SELECT id FROM {db}.t", "Physical Plan")
    add.done("set", "SET spark.sql.shuffle.partitions=3")
    add.shows("read_set", "SET spark.sql.shuffle.partitions", "3")
    add.done("drop_view", "DROP VIEW {db}.v")
    add.rows("after_drop", "SELECT count(*) AS n FROM {db}.t WHERE name IS NULL", "n", (1,))


def _all() -> tuple[Query, ...]:
    made = _Set()
    for part in (_numbers_and_texts, _times_and_others, _nested, _shapes, _sql, _tables):
        part(made)
    return tuple(made.queries)


QUERIES: tuple[Query, ...] = _all()
BY_NAME: Mapping[str, Query] = {query.name: query for query in QUERIES}

FAILURES: tuple[Failure, ...] = (
    Failure("syntax", "SELEC 1", ("PARSE_SYNTAX_ERROR",)),
    Failure("no_table", "SELECT * FROM {db}.nothing", ("TABLE_OR_VIEW_NOT_FOUND", "nothing")),
    Failure("no_column", "SELECT nix FROM {db}.t", ("UNRESOLVED_COLUMN", "nix")),
    Failure("division", "SELECT 1 / (id - 1) FROM {db}.t", ("DIVIDE_BY_ZERO",)),
    Failure("cast", "SELECT CAST('x' AS INT)", ("CAST_INVALID_INPUT",)),
)
