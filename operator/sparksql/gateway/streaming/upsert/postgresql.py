"""Statements by which a batch is brought into a table of PostgreSQL: all of them in one transaction, with the batch's number.

A batch comes in a table of its own, the stage, that Spark's executors have filled. What tells that a batch is there already
is a row in a table of the same schema, for each query the number of its last batch.
"""

# ruff: noqa: S608 - what the statements are made of are names and texts that are quoted here

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sparksql.gateway.streaming.upsert.names import DELETE

NO_UNIQUE_INDEX = "42P10"  # SQLSTATE invalid_column_reference: what ON CONFLICT names has no unique index
BATCHES = "sparksql_batches"
_STAGE = "sparksql_stage"


@dataclass(frozen=True)
class DatabaseTable:
    """A table of PostgreSQL. `schema` and `name` are as SQL text; columns are as the database spells them.

    `order` is the column that tells newer rows from older ones, None without one.
    """

    schema: str
    name: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    order: str | None

    @property
    def qualified(self) -> str:
        """Returns the name with its schema."""
        return f"{self.schema}.{self.name}"

    def stage(self, query_id: str, attempt: str) -> str:
        """Returns the name of the stage of one attempt at a batch: another attempt's late rows must not come into it."""
        return f"{self.schema}.{identifier(stage_prefix(query_id) + attempt)}"


def stage_prefix(query_id: str) -> str:
    """Returns how the names of a query's stages begin; the database takes 63 bytes for a name."""
    return f"{_STAGE}_{query_id}_"


def find(table: str) -> str:
    """Returns the query of a table's schema and name, as SQL text. `table` is SQL text as well."""
    return (
        "SELECT quote_ident(n.nspname), quote_ident(c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE c.oid = to_regclass({literal(table)})"
    )


def nullable(table: DatabaseTable) -> str:
    """Returns the query of the keys that may be NULL: no unique index tells one NULL from another."""
    keys = ", ".join(map(literal, table.keys))
    return (
        f"SELECT attname FROM pg_attribute WHERE attrelid = {literal(table.qualified)}::regclass "
        f"AND attname IN ({keys}) AND NOT attnotnull"
    )


def plan_of_upsert(table: DatabaseTable) -> str:
    """Returns a statement that does nothing, and fails where the keys have no unique index."""
    return f"EXPLAIN {_upsert(table, f'(SELECT *, false AS {DELETE} FROM {table.qualified} WHERE false)')}"


def make_batches(table: DatabaseTable) -> str:
    """Returns the statement that makes the table of the batches' numbers."""
    return f"CREATE TABLE IF NOT EXISTS {table.schema}.{BATCHES} (query text PRIMARY KEY, batch bigint NOT NULL)"


def leftovers(table: DatabaseTable, query_id: str) -> str:
    """Returns the query of the names of stages that earlier starts of a query have left behind."""
    return (
        "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables "
        f"WHERE quote_ident(schemaname) = {literal(table.schema)} "
        f"AND starts_with(tablename, {literal(stage_prefix(query_id))})"
    )


def make_stage(table: DatabaseTable, stage: str) -> str:
    """Returns the statement that makes an empty stage. It is not logged: a crash of the server empties it."""
    columns = ", ".join(map(identifier, table.columns))
    return (
        f"CREATE UNLOGGED TABLE {stage} AS SELECT {columns}, false AS {identifier(DELETE)} "
        f"FROM {table.qualified} WITH NO DATA"
    )


def take_batch(table: DatabaseTable, query_id: str, batch_id: int) -> str:
    """Returns the statement that notes a batch's number. It changes no row when the batch is there already."""
    return (
        f"INSERT INTO {table.schema}.{BATCHES} AS b VALUES ({literal(query_id)}, {batch_id}) "
        "ON CONFLICT (query) DO UPDATE SET batch = excluded.batch WHERE b.batch < excluded.batch"
    )


def apply_stage(table: DatabaseTable, stage: str) -> tuple[str, ...]:
    """Returns the statements that bring a stage's changes into the table, and remove the stage."""
    same = " AND ".join(f"t.{key} = s.{key}" for key in map(identifier, table.keys))
    delete = f"DELETE FROM {table.qualified} t USING {stage} s WHERE s.{identifier(DELETE)} AND {same}"
    return (delete + _newer(table, "s"), _upsert(table, stage), f"DROP TABLE {stage}")


def _upsert(table: DatabaseTable, stage: str) -> str:
    columns, keys = ", ".join(map(identifier, table.columns)), ", ".join(map(identifier, table.keys))
    assignments = ", ".join(f"{column} = excluded.{column}" for column in map(identifier, table.columns))
    # Spark may have run a task of the stage twice: its rows are the same then.
    return (
        f"INSERT INTO {table.qualified} AS t ({columns}) SELECT DISTINCT ON ({keys}) {columns} FROM {stage} s "
        f"WHERE NOT s.{identifier(DELETE)} ON CONFLICT ({keys}) DO UPDATE SET {assignments} WHERE true{_newer(table, 'excluded')}"
    )


def _newer(table: DatabaseTable, changes: str) -> str:
    """The condition that a change is not older than the row, as MERGE has it."""
    if table.order is None:
        return ""
    order = identifier(table.order)
    return f" AND coalesce({changes}.{order} >= t.{order}, t.{order} IS NULL)"


def identifier(name: str) -> str:
    """Returns a name as PostgreSQL's SQL text."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def literal(text: str) -> str:
    """Returns a text as PostgreSQL's SQL text, where standard_conforming_strings is on, as it is by default."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def own_names(names: Iterable[str], columns: Iterable[str]) -> tuple[str, ...]:
    """Returns names as the database spells them."""
    known = {column.lower(): column for column in columns}
    return tuple(known[name.lower()] for name in names)
