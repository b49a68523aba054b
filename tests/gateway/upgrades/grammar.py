"""Streaming queries of all the parts that are tried, as streams and as the batches that they stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .expressions import Part

COLUMNS = "id, part, country, city, amount, price, flag, ts, seen, j"
CLOSER = 90  # rows of greater ids pass every filter: their times close what is before them
FIRST_CLOSED = "TIMESTAMP '2026-01-01 00:01:30'"  # up to here the first part closes windows
CLOSED = "TIMESTAMP '2026-01-01 00:09:00'"  # up to here the second does


@dataclass(frozen=True)
class Query:
    """One query. `shape` says which of the parts it has; `source` and `other` are names of streams."""

    shape: str
    key: Part
    second: Part
    values: tuple[Part, ...]
    rows: Part
    more_rows: Part
    window: str
    shown: str = "true"
    table: str = ""
    table_kind: str = "JOIN"
    table_filter: str = "true"
    membership: str = ""
    source: str = "src"
    other: str = "other"
    delay: str = "INTERVAL 10 SECONDS"
    condition: Part | None = None
    join: str = "JOIN"
    style: str = "subquery"
    layout: int = 0
    options: str = ""
    conf: tuple[tuple[str, str], ...] = field(default=())

    def text(self, *, streams: bool, before: Query | None = None) -> str:
        """The query of streams, or the batch that it stands for. With `before`, rows of the first part pass the filters of that."""
        return _Text(self, streams, before or self).whole()

    @property
    def reads_one_source_twice(self) -> bool:
        return self.shape == "branches" or (self.shape in ("joined", "united") and self.source == self.other)


class _Text:
    def __init__(self, query: Query, streams: bool, before: Query) -> None:
        self._query, self._streams, self._before = query, streams, before

    def whole(self) -> str:
        return LAYOUTS[self._query.layout](getattr(self, f"_{self._query.shape}")())

    def _stream(self, of: Callable[[Query], str], alias: str = "") -> str:
        name, before = of(self._query), of(self._before)
        if not self._streams:
            read_otherwise = name != before and name.split("_")[0] == before.split("_")[0]
            return f"{_of_both_parts(before, name) if read_otherwise else f'{name}_all'} {alias}"
        return f"STREAM {name} {self._query.options} WATERMARK ts DELAY OF {self._query.delay} {alias}"

    def _filter(self, of: Callable[[Query], str], alias: str = "") -> str:
        new, old = of(self._query), of(self._before)
        dot = f"{alias}." if alias else ""
        return new if new == old else f"IF({dot}part = 1, {old}, {new})"

    def _rows(self, of: Callable[[Query], Part], alias: str = "") -> str:
        dot = f"{alias}." if alias else ""
        told = self._filter(lambda query: (of(query).of(alias) if alias else of(query)).text, alias)
        return f"({told} OR {dot}id > {CLOSER})"

    def _where(self) -> str:
        member = self._filter(lambda query: query.membership or "true")
        return self._rows(lambda query: query.rows) + ("" if member == "true" else f" AND {member}")

    def _from(self) -> str:
        query = self._query
        if query.shape == "united":
            both = (f"SELECT * FROM {self._stream(of)}" for of in (_source, _other))
            return f"({' UNION ALL '.join(both)})"
        if not query.table:
            return self._stream(_source)
        if query.table_filter == self._before.table_filter or self._streams:
            table, more = self._table(f"({query.table_filter} OR code = 'zz')"), ""
        else:  # of an inner join alone
            table = self._table("true")
            more = f" AND ({self._filter(lambda each: each.table_filter)} OR code = 'zz')"
        return f"{self._stream(_source, 's')} {query.table_kind} ({table}) d ON s.country = d.code{more}"

    def _table(self, condition: str) -> str:
        return self._query.table.replace("{filter}", condition)

    def _values(self) -> str:
        told = (f"'v{index}', {value.text}" for index, value in enumerate(self._query.values))
        return f"to_json(named_struct({', '.join(told)}))"

    def _inner(self, where: str = "") -> str:
        query = self._query
        window = query.window.partition("(")[0]
        return (
            f"SELECT string({query.key.text}) AS k, {self._values()} AS v, count(*) AS n, {window}.end AS until "
            f"FROM {self._from()} WHERE {where or self._where()} GROUP BY {query.key.text}, {query.second.text}, {query.window}"
        )

    def _grouped(self) -> str:
        query, inner = self._query, self._inner()
        match query.style:
            case "cte":
                return f"WITH w AS ({inner}) SELECT string(k) AS k, v, until FROM w WHERE {query.shown}"
            case "two subqueries":
                return f"SELECT string(x.k) AS k, x.v, x.until FROM (SELECT * FROM ({inner}) y) x WHERE {query.shown}"
            case "view" if self._streams:
                return f"SELECT string(k) AS k, v, until FROM shown WHERE {query.shown}"
            case _:
                return f"SELECT string(k) AS k, v, until FROM ({inner}) WHERE {query.shown}"

    _united = _grouped

    def view(self) -> str:
        """What the query's view is."""
        return self._inner()

    def _branches(self) -> str:
        parts = (self._inner(self._rows(of)) for of in (lambda query: query.rows, lambda query: query.more_rows))
        return " UNION ALL ".join(f"SELECT string(k) AS k, v, until FROM ({part})" for part in parts)

    def _twice(self) -> str:
        """An aggregation of an aggregation."""
        inner = self._inner().replace("AS until", f"AS until, {self._query.window.partition('(')[0]} AS w")
        return (
            f"SELECT left(k, 1) AS k, string(sum(n)) AS v, window.end AS until FROM ({inner}) "
            f"WHERE {self._query.shown} GROUP BY left(k, 1), window(w, '2 minutes')"
        )

    def _distinct(self) -> str:
        query = self._query
        return (
            f"SELECT DISTINCT string({query.key.text}) AS k, string({query.second.text}) AS v, ts AS until "
            f"FROM {self._from()} WHERE {self._where()}"
        )

    def _stateless(self) -> str:
        query = self._query
        return (
            f"SELECT string({query.key.text}) AS k, string({query.second.text}) AS v, ts AS until FROM {self._from()} "
            f"WHERE {self._where()} AND id <= {CLOSER}"
        )

    def _joined(self) -> str:
        query = self._query
        left = f"SELECT * FROM {self._stream(_source)} WHERE {self._rows(lambda each: each.rows)}"
        right = f"SELECT * FROM {self._stream(_other)} WHERE {self._rows(lambda each: each.more_rows)}"
        key, second = (self._shown(of) for of in (lambda each: each.key, lambda each: each.second))
        return (
            f"SELECT string({key}) AS k, concat_ws('/', l.id, r.id, string({second})) AS v, l.ts AS until FROM ({left}) l "
            f"{query.join} ({right}) r ON l.country = r.country AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 30 SECONDS{self._condition()}"
        )

    def _condition(self) -> str:
        """Of the left side alone: a filter of its rows in an inner join, and of pairs in an outer one."""
        new, old = (each.condition.of("l").text if each.condition else "true" for each in (self._query, self._before))
        if new == old:
            return "" if new == "true" else f" AND {new}"
        kept = "l.part = 1" if self._query.join == "JOIN" else "l.part = 1 AND r.part = 1"
        return f" AND IF({kept}, {old}, {new})"

    def _shown(self, of: Callable[[Query], Part]) -> str:
        new, old = of(self._query).of("l").text, of(self._before).of("l").text
        shown_before = (
            f"l.part = 1 AND (r.part = 1 OR (r.part IS NULL AND l.ts < {FIRST_CLOSED} - INTERVAL 30 SECONDS))"
        )
        return new if new == old else f"IF({shown_before}, string({old}), string({new}))"


def _source(query: Query) -> str:
    return query.source


def _other(query: Query) -> str:
    return query.other


def _of_both_parts(first: str, later: str) -> str:
    """Rows of one place as they were read by each query."""
    return f"(SELECT {COLUMNS} FROM {first}_first UNION ALL SELECT {COLUMNS} FROM {later}_later)"


LAYOUTS: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    lambda text: f"-- rows\n{text.replace(' FROM ', chr(10) + '  FROM ')} -- end",
    lambda text: text.replace("SELECT ", "select /* all */ ").replace(" AS ", " as ").replace(" WHERE ", "\nwhere "),
)


def view_of(query: Query) -> str | None:
    """What the temporary view `shown` is that a query reads, if it does."""
    return _Text(query, True, query).view() if query.style == "view" and query.shape in ("grouped", "united") else None
