"""Queries over changelogs drawn at random, as SQL and as what they give of the tables by plain Python."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ..meanings import Call, Expr, column, first, strict
from .histories import DIM, Row

Tables = Mapping[str, Sequence[Row]]
Answer = list[tuple[Any, ...]]
_TYPED = {"d": Decimal}


@dataclass(frozen=True)
class ChangelogQuery:
    """A query with the keys of its target. `rows_of` gives what it is of the tables. `is_exact`: it may be accepted."""

    shape: str
    text: str
    keys: tuple[str, ...]
    output_mode: str
    answer: Callable[[Tables], Answer]
    is_exact: bool = True


def query(drawn: random.Random) -> ChangelogQuery:
    """Returns a query over tables with all their changes."""
    source = drawn.choice(_SOURCES)
    match drawn.choice(
        ("groups", "groups", "groups", "groups", "rows", "joined", "joined", "changes", "total", "refused")
    ):
        case "groups":
            return _groups(drawn, source, keys=drawn.choice((1, 1, 2)))
        case "total":
            return _groups(drawn, source, keys=0)
        case "rows":
            return _rows(drawn)
        case "joined":
            return _joined(drawn)
        case "changes":
            return _change_rows(drawn)
        case _:
            return _refused(drawn)


def latest(drawn: random.Random) -> ChangelogQuery:
    """Returns a copy of a table from its latest changes."""
    shown = drawn.choice(("id, region, n, d", "id, x, upper(region) AS region", "id, customer, l"))

    def value(row: Row, name: str) -> Any:
        found = row[name.split(".")[-1]]
        return Decimal(found) if name == "d" and found is not None else found

    def answer(tables: Tables) -> Answer:
        if "upper" in shown:
            return [(row["id"], row["x"], row["region"] and row["region"].upper()) for row in tables["orders"]]
        return [tuple(value(row, name) for name in shown.split(", ")) for row in tables["orders"]]

    return ChangelogQuery("latest", f"SELECT {shown}, _offset, _op FROM STREAM orders", ("id",), "append", answer)


@dataclass(frozen=True)
class _Source:
    """A FROM of a query, its rows, and the expressions over them."""

    name: str
    text: str
    rows: Callable[[Tables], list[Row]]
    keys: tuple[Expr, ...]
    numbers: tuple[Expr, ...]
    conditions: tuple[Expr, ...]


def _orders(tables: Tables) -> list[Row]:
    return [{**row, "d": None if row["d"] is None else Decimal(row["d"])} for row in tables["orders"]]


def _with_customers(tables: Tables) -> list[Row]:
    return [
        {**order, "name": customer["name"], "factor": customer["factor"], "c": customer["id"]}
        for order in _orders(tables)
        for customer in tables["customers"]
        if order["customer"] == customer["id"]
    ]


def _with_labels(tables: Tables) -> list[Row]:
    return [
        {**row, "label": label}
        for row in _with_customers(tables)
        for factor, label in DIM
        if factor is not None and row["factor"] == factor
    ]


def _with_others(tables: Tables) -> list[Row]:
    orders = _orders(tables)
    return [
        {**order, **{f"o_{name}": value for name, value in other.items()}}
        for order in orders
        for other in orders
        if order["customer"] is not None and order["customer"] == other["n"]
    ]


def _more(text: str, limit: Any, name: str) -> Expr:
    return strict(text, lambda value: value > limit, column(name))


_REGION = (
    column("region"),
    strict("upper({})", str.upper, column("region")),
    first("coalesce({}, 'none')", column("region"), Expr("", lambda _: "none")),
)
_NUMBERS = (
    *map(column, ("n", "n", "l", "d", "d", "x", "customer")),
    strict("{} + {}", lambda a, b: a + b, column("n"), column("customer")),
    strict("{} * 2", lambda a: a * 2, column("d")),
    first("coalesce({}, 7)", column("n"), Expr("", lambda _: 7)),
)  # fmt: skip
_CONDITIONS = (
    *(_more("{} > 1", 1, "n"), _more("{} > 0", 0, "x"), _more("{} > 20", 20, "d")),
    strict("{} < 3", lambda value: value < 3, column("customer")),
    strict("{} <> 'b'", lambda value: value != "b", column("region")),
    Expr("n IS NOT NULL", lambda row: row["n"] is not None),
    Expr("true", lambda _: True),
)
_FACTORS = (column("factor"), strict("{} * {}", lambda a, b: a * b, column("d"), column("factor")))
_JOIN = "STREAM orders JOIN STREAM customers ON customer = customers.id"
_JOINED = "SELECT orders.id, customer, region, n, l, d, x, name, factor, customers.id AS c FROM " + _JOIN
_SOURCES = (
    _Source("orders", "STREAM orders", _orders, (*_REGION, column("customer"), column("n")), _NUMBERS, _CONDITIONS),
    _Source(
        "subquery",
        "(SELECT region, customer, n, l, d, x FROM STREAM orders WHERE n IS NOT NULL)",
        lambda tables: [row for row in _orders(tables) if row["n"] is not None],
        (*_REGION, column("customer")),
        _NUMBERS,
        _CONDITIONS,
    ),
    _Source(
        "join",
        f"({_JOINED})",
        _with_customers,
        (column("name"), column("c"), *_REGION[:1]),
        (*_NUMBERS, *_FACTORS),
        _CONDITIONS,
    ),
    _Source(
        "join with a table",
        f"(SELECT j.*, label FROM ({_JOINED}) j JOIN dim ON j.factor = dim.factor)",
        _with_labels,
        (column("label"), column("name"), column("region")),
        (*_NUMBERS, *_FACTORS),
        _CONDITIONS,
    ),
    _Source(
        "self-join",
        "(SELECT a.id, a.customer, a.region, a.n, a.l, a.d, a.x, b.d AS o_d, b.region AS o_region FROM STREAM orders a "
        "JOIN STREAM orders b ON a.customer = b.n)",
        _with_others,
        (column("region"), column("o_region"), column("customer")),
        (*_NUMBERS, column("o_d")),
        _CONDITIONS,
    ),
)


def _call(drawn: random.Random, source: _Source) -> Call:
    where = drawn.choice(source.conditions) if drawn.random() < 0.25 else None
    function = drawn.choice(("rows", "count", "sum", "sum", "avg"))
    return Call(function, Expr("1", lambda _: 1) if function == "rows" else drawn.choice(source.numbers), where)


def _groups(drawn: random.Random, source: _Source, keys: int) -> ChangelogQuery:
    by = tuple(drawn.sample(source.keys, keys))
    calls = [_call(drawn, source) for _ in range(drawn.choice((1, 2, 3, 4)))]
    where = drawn.choice(source.conditions) if drawn.random() < 0.5 else None
    having = _call(drawn, source) if keys and drawn.random() < 0.3 else None
    shown = [
        *(f"{key.text} AS k{place}" for place, key in enumerate(by)),
        *(f"{each.text} AS r{place}" for place, each in enumerate(calls)),
    ]
    text = f"SELECT {', '.join(shown)} FROM {source.text} AS t"
    text = text.replace("FROM STREAM orders AS t", "FROM STREAM orders") + (f" WHERE {where.text}" if where else "")
    text += f" GROUP BY {', '.join(key.text for key in by)}" if by else ""
    text += f" HAVING {having.text} > 1" if having else ""

    def answer(tables: Tables) -> Answer:
        rows = [row for row in source.rows(tables) if where is None or where.value(row) is True]
        groups: dict[tuple[Any, ...], list[Row]] = {} if by else {(): []}
        for row in rows:
            groups.setdefault(tuple(key.value(row) for key in by), []).append(row)
        return [
            (*key, *(call.result(of) for call in calls))
            for key, of in groups.items()
            if having is None or ((total := having.result(of)) is not None and total > 1)
        ]

    names = tuple(f"k{place}" for place in range(keys))
    mode = drawn.choice(("update", "update", "complete")) if by else "whole"
    return ChangelogQuery(f"groups of {source.name}" if by else f"total of {source.name}", text, names, mode, answer)


def _rows(drawn: random.Random) -> ChangelogQuery:
    source = _SOURCES[0]
    where, shown = drawn.choice(source.conditions), drawn.sample(source.numbers, 2)
    text = f"SELECT id, region, {shown[0].text} AS a, {shown[1].text} AS b FROM STREAM orders WHERE {where.text}"

    def answer(tables: Tables) -> Answer:
        rows = [row for row in _orders(tables) if where.value(row) is True]
        return [(row["id"], row["region"], *(each.value(row) for each in shown)) for row in rows]

    return ChangelogQuery("rows", text, ("id",), "append", answer)


def _joined(drawn: random.Random) -> ChangelogQuery:
    by_one = drawn.random() < 0.5
    where = drawn.choice(_CONDITIONS)
    on = "customer = c.id" if by_one else "n = factor"
    text = f"SELECT o.id, c.id AS other, name, d, n FROM STREAM orders o JOIN STREAM customers c ON {on} WHERE {where.text}"

    def answer(tables: Tables) -> Answer:
        return [
            (order["id"], customer["id"], customer["name"], order["d"], order["n"])
            for order in _orders(tables)
            for customer in tables["customers"]
            if where.value(order) is True
            and (
                order["customer"] == customer["id"]
                if by_one
                else order["n"] is not None and order["n"] == customer["factor"]
            )
        ]

    return ChangelogQuery("rows of a join", text, ("id",) if by_one else ("other", "id"), "append", answer)


def _change_rows(drawn: random.Random) -> ChangelogQuery:
    made = _rows(drawn)
    text = made.text.replace("SELECT id", "SELECT _row_kind, id", 1)
    return ChangelogQuery("changes themselves", text, (), "append", made.answer)


_REFUSED = (
    ("max(n)", lambda rows: max((row["n"] for row in rows if row["n"] is not None), default=None)),
    ("count(DISTINCT n)", lambda rows: len({row["n"] for row in rows if row["n"] is not None})),
    ("collect_list(n)", lambda rows: sorted(row["n"] for row in rows if row["n"] is not None)),
    ("count_if(n > 1)", lambda rows: sum(row["n"] is not None and row["n"] > 1 for row in rows)),
)  # fmt: skip


def _refused(drawn: random.Random) -> ChangelogQuery:
    text, of = drawn.choice(_REFUSED)

    def answer(tables: Tables) -> Answer:
        groups: dict[Any, list[Row]] = {}
        for row in _orders(tables):
            groups.setdefault(row["region"], []).append(row)
        return [(key, of(rows)) for key, rows in groups.items()]

    sql = f"SELECT region AS k0, {text} AS r0 FROM STREAM orders GROUP BY region"
    return ChangelogQuery("not exact", sql, ("k0",), "update", answer, is_exact=False)
