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
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sparksql.gateway.spark.driver import SparkDriver

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

some = st.one_of(st.none(), st.integers(0, 4))
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
    {"id": st.integers(0, 4), "name": st.sampled_from((None, "a", "b", "c")), "factor": some}
)
# What is done to a table: a row is put, or one is deleted.
Step = Sequence[tuple[str, Row, bool]]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("orders"), orders, st.integers(0, 3).map(bool)),
        st.tuples(st.just("customers"), customers, st.integers(0, 3).map(bool)),
    ),
    max_size=12,
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
            return connection.execute(text.replace("count(n, x)", "count(n + x)")).fetchall()


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
        return round(Decimal(str(each)), 6) if isinstance(each, float | Decimal) else each

    return Counter(tuple(map(value, row)) for row in rows)


@pytest.mark.parametrize("name", SHAPES)
@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(history=st.lists(steps, min_size=3, max_size=4), cut=st.integers(1, 3))
def test_target_of_a_changelog_is_the_query_of_the_tables_after_each_batch(
    driver: SparkDriver, folder: Path, name: str, history: Sequence[Step], cut: int
) -> None:
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
