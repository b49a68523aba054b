"""Queries over drawn histories of tables: after each batch of changes the target is what DuckDB answers of the tables."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from sparksql.api.execution import Upsert
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.sql.errors import PlacedError, StatementError
from tests.support.thorough import thorough_but

from ..local_spark import local_spark
from .change_runs import Change, Changing, Row

COLUMNS = {
    "orders": "id BIGINT, customer BIGINT, region STRING, n INT, l BIGINT, d DECIMAL(10, 2), x DOUBLE",
    "customers": "id INT, name STRING, factor INT",
}
DIM = "SELECT * FROM VALUES (1, 'one'), (2, 'two'), (2, 'zwei'), (NULL, 'none') AS t(factor, label)"


@dataclass(frozen=True)
class Shape:
    """A query whose text means the same in Spark and in DuckDB, with the keys of its target."""

    text: str
    keys: tuple[str, ...]
    output_mode: str = "update"


SHAPES = {
    "every aggregate of groups": Shape(
        "SELECT region, count(*) AS a, count(n) AS b, sum(n) AS c, avg(n) AS d, sum(l) AS e, avg(l) AS f, sum(d) AS g, avg(d) AS h, "
        "sum(x) AS i, avg(x) AS j, count(n, x) AS k, sum(d) FILTER (WHERE n > 1) AS l, sum(n) / count(*) AS m FROM orders "
        "WHERE customer < 4 GROUP BY region",
        ("region",),
    ),
    "groups that HAVING leaves out": Shape(
        "SELECT upper(region) AS r, customer, sum(d) AS s FROM (SELECT customer, region, d, n FROM orders WHERE n IS NOT NULL) "
        "GROUP BY upper(region), customer HAVING count(*) > 1 AND sum(d) / count(*) > 20",
        ("customer", "r"),
    ),
    "groups of a join": Shape(
        "SELECT name, count(*) AS a, sum(d * factor) AS b, avg(factor) AS c, count(n) AS d, sum(x) AS e FROM orders JOIN customers "
        "ON customer = customers.id AND n >= factor GROUP BY name",
        ("name",),
    ),
    "groups of a join with a table": Shape(
        "WITH o AS (SELECT name, factor, d FROM orders JOIN customers ON customer = customers.id) "
        "SELECT label, count(*) AS a, sum(d) AS b FROM o JOIN dim ON o.factor = dim.factor WHERE name <> 'a' GROUP BY label",
        ("label",),
    ),
    "groups of a join with itself": Shape(
        "SELECT a.region, count(*) AS n, sum(b.d) AS s FROM orders a JOIN orders b ON a.customer = b.n GROUP BY a.region",
        ("region",),
        "complete",
    ),
    "rows": Shape("SELECT region, id, d + 1 AS more FROM orders WHERE n > 1 OR x < 3", ("id",)),
    "rows of a join by one key": Shape(
        "SELECT orders.id, name, d FROM orders JOIN customers ON customer = customers.id", ("id",), "append"
    ),
    "rows of a join by both keys": Shape(
        "SELECT orders.id, customers.id AS other, name, x FROM orders JOIN customers ON n = factor WHERE region <> 'b'",
        ("other", "id"),
        "append",
    ),
}  # fmt: skip

LEAST_ROWS = 12

some = st.sampled_from((0, 1, 1, 2, 3, None))
orders = st.fixed_dictionaries(
    {
        "id": st.integers(0, 5),
        "customer": some,
        "region": st.sampled_from((None, "a", "b", "B")),
        "n": some,
        "l": st.one_of(st.none(), st.integers(-(2**55), 2**55)),
        "d": st.one_of(st.none(), st.integers(-9999, 99999).map(lambda cents: str(Decimal(cents) / 100))),
        "x": st.one_of(st.none(), st.integers(-40, 40).map(lambda quarters: quarters / 4)),
    }
)
customers = st.fixed_dictionaries(
    {"id": st.integers(0, 3), "name": st.sampled_from(("a", "b", "c", None)), "factor": some}
)
# What is done to a table: a row is put, or one is deleted.
Step = Sequence[tuple[str, Row, bool]]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("orders"), orders, st.integers(0, 3).map(bool)),
        st.tuples(st.just("customers"), customers, st.integers(0, 3).map(bool)),
    ),
    min_size=12,
    max_size=24,
)


class Tables:
    """The tables as a database has them."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[int, Row]] = {name: {} for name in COLUMNS}

    def done(self, step: Step) -> dict[str, list[Change]]:
        """Returns the changes that a step makes."""
        made: dict[str, list[Change]] = {name: [] for name in COLUMNS}
        for name, row, is_put in step:
            before = self.rows[name].pop(row["id"], None)
            if is_put:
                self.rows[name][row["id"]] = row
                made[name].append(("u" if before else "c", before, row))
            elif before:
                made[name].append(("d", before, None))
        return made

    def answer(self, text: str) -> list[tuple[Any, ...]]:
        """Returns what DuckDB answers."""
        with duckdb.connect() as connection:
            connection.execute(
                f"CREATE TABLE dim AS {DIM.replace('FROM VALUES', 'FROM (VALUES').replace(' AS t(', ') AS t(')}"
            )
            for name, rows in self.rows.items():
                connection.execute(f"CREATE TABLE {name} ({COLUMNS[name]})")
                for row in rows.values():
                    values = [row[column.split()[0]] for column in COLUMNS[name].replace("10, 2", "10").split(", ")]
                    connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(values))})", values)
            # DuckDB's mean of large integers is not the nearest double, not even that of one of them.
            asked = text.replace("count(n, x)", "count(n + x)").replace(
                "avg(l)", "list(l) FILTER (WHERE l IS NOT NULL)"
            )
            return [tuple(map(_mean_of_list, row)) for row in connection.execute(asked).fetchall()]


def _mean_of_list(value: Any) -> Any:
    return float(sum(value)) / len(value) if isinstance(value, list) else value


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    conf = {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"}
    with local_spark(tmp_path_factory.mktemp("spark"), **conf) as started:
        yield started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("changes")


def plain(rows: Sequence[Sequence[Any]]) -> Counter[tuple[Any, ...]]:
    """Rows that are equal if their values are."""

    def value(each: Any) -> Any:
        if not isinstance(each, float | Decimal):
            return each
        # Only means are as large: doubles, which Java 17 writes with other digits than Python.
        return round(Decimal(str(float(each) if abs(each) >= 2**53 else each)), 6)

    return Counter(tuple(map(value, row)) for row in rows)


THOROUGH = {
    "groups of a join", "groups of a join with a table", "groups that HAVING leaves out", "rows of a join by one key", "rows"
}  # fmt: skip


# With the groups of a join with itself run those of a join, with the rows by both keys those by one.
@pytest.mark.parametrize("name", thorough_but(SHAPES.keys() - THOROUGH, SHAPES))
@settings(max_examples=1, deadline=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
@given(history=st.lists(steps, min_size=4, max_size=4), cut=st.integers(1, 3))
def test_target_of_a_changelog_is_the_query_of_the_tables_after_each_batch(
    driver: SparkDriver, folder: Path, name: str, history: Sequence[Step], cut: int
) -> None:
    assume(
        len({repr(one) for step in history for one in step}) > LEAST_ROWS
    )  # not the first that is drawn, of equal ones
    shape, tables = SHAPES[name], Tables()
    changing = Changing(driver, folder / uuid.uuid4().hex)
    topics = {table: changing.topic(table, columns) for table, columns in COLUMNS.items()}
    changing.view("dim", DIM)
    wanted = []
    for part in (history[:cut], history[cut:]):
        for step in part:
            for table, changes in tables.done(step).items():
                topics[table].write(changes)
            wanted.append(tables.answer(shape.text))
        if part:  # the second time from the checkpoint
            changing.run(shape.text, shape.keys, shape.output_mode)
    for batch, (found, expected) in enumerate(zip(changing.after, wanted, strict=True)):
        assert plain(found) == plain(expected), f"batch {batch} of {history}"


@pytest.fixture
def changing(driver: SparkDriver, folder: Path) -> Changing:
    return Changing(driver, folder / uuid.uuid4().hex)


def test_results_of_a_changelog_that_are_told_whole_have_no_groups_that_are_gone(changing: Changing) -> None:
    topic = changing.topic("orders", "id BIGINT, region STRING, n INT")
    rows = [{"id": number, "region": region, "n": number} for number, region in enumerate("aabcc")]
    topic.write([("r", None, row) for row in rows])
    topic.write([("d", rows[2], None), ("u", rows[3], {**rows[3], "n": 10})])
    ordered = "SELECT region, sum(n) / count(*) AS mean FROM orders GROUP BY region HAVING count(*) > 1 ORDER BY mean DESC LIMIT 1"
    assert changing.whole(ordered) == [("c", 7)]
    assert changing.whole("SELECT count(*) AS n, sum(n) AS s FROM orders WHERE region <> 'c'") == [(2, 1)]
    assert changing.whole("SELECT count(*) AS n, coalesce(sum(n), -1) AS s FROM orders WHERE n > 10") == [(0, -1)]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ([("d", {"id": 1, "x": 2.0}, None)], "was never inserted"),
        ([("c", None, {"id": 1, "x": "NaN"})], "NaN or infinite"),
        ([("c", None, {"id": 1, "x": 1e308}), ("c", None, {"id": 2, "x": 1e308})], "NaN or infinite"),
        ([("u", None, {"id": 1, "x": 2.0})], "not a change of Debezium"),
        ([("t", None, None)], "not a change of Debezium"),
    ],
)
def test_query_over_a_changelog_fails_on_what_no_change_can_take_back(
    changing: Changing, changes: list[Change], says: str
) -> None:
    changing.topic("t", "id BIGINT, x DOUBLE").write(changes)
    with pytest.raises(Exception) as failed:  # noqa: PT011 - what the stream throws
        changing.whole("SELECT sum(x) AS s FROM t")
    assert says in str(failed.value)


REFUSED = (
    ("SELECT k, max(n) FROM t GROUP BY k", "max(...) over a changelog"),
    ("SELECT k, collect_list(n) FROM t GROUP BY k", "collect_list(...) over a changelog"),
    ("SELECT k, count(DISTINCT n) FROM t GROUP BY k", "count(DISTINCT ...) over a changelog"),
    ("SELECT k, try_sum(n) FROM t GROUP BY k", "try_sum(...) over a changelog"),
    ("SELECT k, count_if(n > 1) FROM t GROUP BY k", "count_if(...) over a changelog"),
    ("SELECT k, sum(CASE _row_kind WHEN '-D' THEN -n ELSE n END) FROM t GROUP BY k", "not decided by"),
    ("SELECT h AS k, count(*) FROM (SELECT _seq.half AS h FROM t) GROUP BY h", "not decided by"),
    ("SELECT k, count(*) FROM t WHERE ts > current_timestamp() GROUP BY k", "current_timestamp()"),
    ("SELECT k, count(*) FROM t WHERE rand() > 0.5 GROUP BY k", "rand()"),
    ("SELECT k, count(*) FROM t WHERE n IN (SELECT n FROM dim) GROUP BY k", "no subqueries"),
    ("SELECT window(ts, '1 hour').start AS k, count(*) FROM t GROUP BY 1", "windows over a changelog"),
    ("SELECT k, count(*) FROM t GROUP BY ROLLUP(k)", "GROUPING SETS"),
    ("SELECT DISTINCT k FROM t", "SELECT DISTINCT"),
    ("SELECT s COLLATE UTF8_LCASE AS k, count(*) FROM t GROUP BY 1", "equal texts"),
    ("SELECT k, count(*) FROM (SELECT k, explode(array(1, 2)) FROM t) GROUP BY k", "explode"),
    ("SELECT k, sum(c) FROM (SELECT k, n, count(*) AS c FROM t GROUP BY k, n) GROUP BY k", "over an aggregation"),
    ("SELECT t.k, count(*) FROM t LEFT JOIN u ON t.n = u.k GROUP BY t.k", "LEFT OUTER JOIN"),
    ("SELECT k, count(*) FROM t JOIN (SELECT * FROM dim LIMIT 1) d ON t.n = d.n GROUP BY k", "the same rows in each batch"),
    ("SELECT n, count(*) FROM t GROUP BY n", "the keys are k"),
    ("SELECT k, count(*) FROM t GROUP BY k, n", "all of them selected"),
    ("SELECT n AS k FROM t", "not known to be these"),
    ("SELECT k, n FROM u", "not known to be these"),
    ("SELECT t.k, label FROM t JOIN dim ON t.n = dim.n", "not known to be these"),
    ("SELECT t.k, t._row_kind FROM t JOIN t AS o ON t.n = o.k", "no _row_kind"),
    ("SELECT k FROM t UNION ALL SELECT k FROM u", "UNION over a changelog"),
)  # fmt: skip


def test_queries_that_are_not_exact_over_a_changelog_are_refused(changing: Changing) -> None:
    changing.topic("t", "k BIGINT, n INT, s STRING, ts TIMESTAMP", key="k")
    changing.topic("u", "k BIGINT, n INT", key="")
    changing.view("dim", "SELECT * FROM VALUES (1, 'one') AS v(n, label)")
    for text, says in REFUSED:
        with pytest.raises((PlacedError, StatementError)) as refused:
            changing.planned(text, "update", Upsert(keys=("k",)))
        assert says in str(refused.value), text
    changing.planned("SELECT k, n FROM t", "update", Upsert(keys=("k", "n")))
    _, keyed = changing.taken_back("SELECT n, k AS id FROM t", "update", Upsert())
    assert keyed == Upsert(keys=("id",)), "the key of the table, by the name that the query gives it"
    with pytest.raises(StatementError, match="which columns are the key of a row of u is not known"):
        changing.planned("SELECT k, n FROM u", "update", Upsert())
    with pytest.raises(StatementError, match="leave orderBy out"):
        changing.planned("SELECT k, n FROM t", "update", Upsert(keys=("k",), order_by="n"))
