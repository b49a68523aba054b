"""Which joins of a query may be lookups, and of what. Each that is asked for is one, or the query is refused.

A lookup is a join of a STREAM with a table in a database by equality of columns, inner or such that the STREAM's rows stay; or
with a table of Iceberg, as it was at the time of each row. What the table's side of the join does beside reading the table would
have to be done by whoever reads it: it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparksql.api.execution import Lookup
from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import elements, option, scala_object, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm, LogicalPlan
from sparksql.gateway.sql.errors import StatementError, refusal
from sparksql.gateway.streaming.lookups.versions import time_of
from sparksql.gateway.windowing.expressions import column_id
from sparksql.wire.control import ErrorReason

Name = tuple[str, ...]

_WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")
# Types whose equal values are equal in a database as well. Not CHAR, which is padded, nor numbers that are not exact.
_KEY_TYPES = frozenset({*_WHOLE_NUMBERS, "string", "boolean", "date", "timestamp", "timestamp_ntz"})
_DECIMAL = "decimal("
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark notes the type of a column that it has as STRING
# What a lookup may be of: without AS OF, and with it.
_KINDS = (
    "in a database (USING jdbc, or of a JDBC catalog): leave the lookup out",
    "of Iceberg, of which alone there are versions by row: join the table as it is, without AS OF",
)
_ICEBERG_TABLE = "org.apache.iceberg.spark.source.SparkTable"
_JDBC_RELATION, _JDBC_TABLE = "JDBCRelation", "JDBCTable"


@dataclass(frozen=True)
class JoinedTable:
    """A table as one side of a join has it.

    `source` is Spark's JDBCOptions of a table in a database, or Iceberg's table. `columns` are the table's by Spark's id,
    `output` what the side makes of them, by id: a column, or the padding of a CHAR.
    """

    names: tuple[Name, ...]
    source: Any
    columns: Mapping[int, Any]
    output: Mapping[int, Expression]


@dataclass(frozen=True)
class LookupJoin:
    """A join that becomes a lookup.

    `keys` are pairs of the STREAM's expression and the table's column, `rest` is what else the join asks for, `time` says which
    version of the table is a row's.
    """

    lookup: Lookup
    join: LogicalPlan
    stream: LogicalPlan
    table: JoinedTable
    keys: tuple[tuple[Expression, Any], ...]
    rest: Expression | None
    is_outer: bool
    time: Expression | None = None


def lookup_joins(jvm: Jvm, plan: LogicalPlan, lookups: Mapping[Name, Lookup], versions: int) -> list[LookupJoin]:
    """Returns the joins of an analysed plan that become lookups; `versions` of them are AS OF a column.

    Raises StatementError for a lookup that no join can be.
    """
    found: list[LookupJoin] = []
    for join in (node for node in nodes(plan) if simple_name(node) == "Join" and node.isStreaming()):
        named = [lookup for name, lookup in lookups.items() if _has_name(join, name)]
        if versions and not named and time_of(option(join.condition()))[1] is not None:
            named = [Lookup(table=_name(join))]
        if len(named) > 1:
            raise refused(named[0].table, f"{named[1].table} is the same table: name it once")
        found += [_lookup_join(jvm, join, lookup, may_be_version=versions > 0) for lookup in named]
    for lookup in lookups.values():
        if not any(each.lookup is lookup for each in found):
            raise refused(
                lookup.table, "the query joins no STREAM with a table of that name: write the name or the alias in FROM"
            )
    if sum(each.time is not None for each in found) != versions:
        message = (
            "AS OF a column is for a table that a STREAM is joined with, and this query has one elsewhere: join the STREAM itself "
            "with it"
        )
        raise refusal(ErrorReason.INVALID_SPEC, message)
    return found


def refused(table: str, why: str) -> StatementError:
    """Returns the refusal of a lookup that cannot be, by the table's name."""
    return refusal(ErrorReason.INVALID_SPEC, f"the lookup of {table} cannot be: {why}")


def _has_name(join: LogicalPlan, name: Name) -> bool:
    """Whether the side of a join that does not stream is called so, or reads one table that is."""
    sides = [side for side in (join.left(), join.right()) if not side.isStreaming()]
    return any(_is_called(node, name) for side in sides for node in _alone(side))


def _name(join: LogicalPlan) -> str:
    """What the side of a join that does not stream is called."""
    sides = [side for side in (join.left(), join.right()) if not side.isStreaming()]
    names = [_names(node)[0] for side in sides for node in _alone(side) if simple_name(node) == "SubqueryAlias"]
    return ".".join(names[0]) if names else "a query"


def _alone(side: LogicalPlan) -> list[Any]:
    """The nodes of a side from the top down to where there is more than one child."""
    found = [side]
    while len(below := elements(found[-1].children())) == 1:
        found.extend(below)
    return found


def _is_called(node: LogicalPlan, name: Name) -> bool:
    return simple_name(node) == "SubqueryAlias" and any(known[-len(name) :] == name for known in _names(node))


def _names(alias: LogicalPlan) -> list[Name]:
    identifier = alias.identifier()
    return [tuple(str(part).lower() for part in (*elements(identifier.qualifier()), identifier.name()))]


def _lookup_join(jvm: Jvm, join: LogicalPlan, lookup: Lookup, *, may_be_version: bool) -> LookupJoin:
    left, right = join.left(), join.right()
    stream, side = (left, right) if left.isStreaming() else (right, left)
    condition, time = time_of(option(join.condition())) if may_be_version else (option(join.condition()), None)
    if side.isStreaming():
        raise refused(lookup.table, "it is a STREAM itself: join a table")
    table = _joined_table(lookup.table, side, _options if time is None else _iceberg, _KINDS[time is not None])
    if time is not None:
        _check_time(lookup, stream, time)
    match simple_name(join.joinType()).removesuffix("$"), stream is left:
        case "Inner", _:
            is_outer = False
        case ("LeftOuter", True) | ("RightOuter", False):
            is_outer = True
        case kind, _:
            raise refused(
                lookup.table, f"its join is {kind}: write JOIN, or LEFT JOIN with the STREAM on the left of it"
            )
    without = (
        join
        if time is None
        else join.copy(left, right, join.joinType(), jvm.scala.Option.apply(condition), join.hint())
    )
    keys, rest = _condition(jvm, without, lookup.table, table, is_left=stream is left)
    if is_outer and rest is not None:
        raise refused(
            lookup.table,
            f"LEFT JOIN has a condition that is no equality of columns, {str(rest.sql())[:200]}: leave it to the database, as a view "
            "there, or to the SELECT, IF(<condition>, c.x, NULL)",
        )
    return LookupJoin(lookup, join, stream, table, keys, rest, is_outer, time)


def _check_time(lookup: Lookup, stream: LogicalPlan, time: Expression) -> None:
    given = time.child() if simple_name(time) == "Cast" else time
    kind = str(given.dataType().catalogString())
    if kind not in ("timestamp", "timestamp_ntz"):
        raise refused(
            lookup.table, f"AS OF {str(given.sql())[:200]} is {kind.upper()}: it must be a TIMESTAMP of the STREAM"
        )
    if not time.references().subsetOf(stream.outputSet()):
        raise refused(
            lookup.table,
            f"AS OF {str(given.sql())[:200]} is not of the STREAM's side of the join: give a column of the STREAM",
        )
    if lookup.ttl_seconds:
        raise refused(lookup.table, "a version of a table does not change, so that ttl has no effect: leave it out")


def _condition(
    jvm: Jvm, join: LogicalPlan, name: str, table: JoinedTable, *, is_left: bool
) -> tuple[tuple[tuple[Expression, Any], ...], Expression | None]:
    found = option(scala_object(jvm.org.apache.spark.sql.catalyst.planning, "ExtractEquiJoinKeys").unapply(join))
    if found is None:
        raise refused(name, "its join has no equality of a column: write ON o.customer = c.id")
    sides = elements(found._2()), elements(found._3())
    given, own = sides if is_left else sides[::-1]
    keys = tuple((value, _key(jvm, name, table, column)) for value, column in zip(given, own, strict=True))
    return keys, option(found._4())


def _key(jvm: Jvm, name: str, table: JoinedTable, expression: Expression) -> Any:
    """The table's column that an expression of its side is.

    Raises StatementError for one that a database could not find rows by.
    """
    kind, inner = str(expression.dataType().catalogString()), expression
    while simple_name(inner) == "Cast":
        inner = inner.child()
    column = table.columns.get(column_id(table.output.get(column_id(inner) or -1, inner)) or -1)
    if column is None:
        raise refused(
            name, f"{str(expression.sql())[:200]} is compared, which is no column of the table: compare a column itself"
        )
    own = str(column.dataType().catalogString())
    if inner is not expression and not _is_widened(jvm, expression, column):
        raise refused(
            name,
            f"its column {column.name()} is {own.upper()} and is compared with {kind.upper()}: give it a value of its own type, "
            f"CAST(o.x AS {own.upper()})",
        )
    if (own not in _KEY_TYPES and not own.startswith(_DECIMAL)) or _is_char(column):
        raise refused(name, f"its column {column.name()} is {own.upper()}, by which a database finds no equal values")
    return column


def _is_widened(jvm: Jvm, cast: Any, column: Any) -> bool:
    """Whether a cast of the column changes no value, and which values are equal."""
    if simple_name(cast.child()) == "Cast":
        return False
    own, other = column.dataType(), cast.dataType()
    kinds = [str(each.catalogString()) for each in (own, other)]
    is_exact = all(kind in _WHOLE_NUMBERS for kind in kinds) or all(kind.startswith(_DECIMAL) for kind in kinds)
    return is_exact and bool(scala_object(jvm.org.apache.spark.sql.catalyst.expressions, "Cast").canUpCast(own, other))


def _is_char(column: Any) -> bool:
    metadata = column.metadata()
    return bool(metadata.contains(_CHAR)) and str(metadata.getString(_CHAR)).lower().startswith("char")


def _joined_table(
    name: str, side: LogicalPlan, source_of: Callable[[LogicalPlan], Any | None], kind: str
) -> JoinedTable:
    """Reads a side that is a table of a kind and nothing else. Raises StatementError for any other."""
    *above, leaf = _alone(side)
    source = source_of(leaf)
    if source is None:
        raise refused(name, f"it is no table {kind}")
    columns = {int(column.exprId().id()): column for column in elements(leaf.output())}
    output: dict[int, Any] = dict(columns)
    names: list[Name] = []
    for node in reversed(above):
        match simple_name(node):
            case "SubqueryAlias":
                names += _names(node)
            case "View" | "ResolvedHint":
                pass
            case "Project":
                output = _renamed(name, elements(node.projectList()), output)
            case other:
                raise refused(
                    name,
                    f"it is joined as a query with {other}: join the table itself",
                )
    return JoinedTable(tuple(names), source, columns, output)


def _renamed(name: str, projected: Sequence[Any], below: Mapping[int, Any]) -> dict[int, Any]:
    """What a projection makes of the table's columns. Raises StatementError if it computes.

    A view of the catalog casts each column to the type that it had when the view was made.
    """
    output: dict[int, Any] = {}
    for named in projected:
        value = named.child() if simple_name(named) == "Alias" else named
        while simple_name(value) == "Cast" and value.dataType().sameType(value.child().dataType()):
            value = value.child()
        number = column_id(value)
        if number is not None and number in below:
            value = below[number]
        elif not _is_padded(value):
            raise refused(
                name,
                f"it is joined as a query whose column {named.name()} is computed, {str(value.sql())[:200]}: join the table itself, "
                "or a view that only names its columns, and compute in the SELECT",
            )
        output[int(named.exprId().id())] = value
    return output


def _is_padded(value: Expression) -> bool:
    """Whether this is what Spark makes of a CHAR that is read."""
    return simple_name(value) == "StaticInvoke" and str(value.functionName()) == "readSidePadding"


def _options(leaf: LogicalPlan) -> Any | None:
    match simple_name(leaf):
        case "LogicalRelation" if simple_name(leaf.relation()) == _JDBC_RELATION:
            return leaf.relation().jdbcOptions()
        case "DataSourceV2Relation" if simple_name(leaf.table()) == _JDBC_TABLE:
            return leaf.table().jdbcOptions()
        case _:
            return None


def _iceberg(leaf: LogicalPlan) -> Any | None:
    """Iceberg's table of a leaf that reads its main branch as it is."""
    if simple_name(leaf) != "DataSourceV2Relation" or str(leaf.table().getClass().getName()) != _ICEBERG_TABLE:
        return None
    table, catalog, named = leaf.table().table(), option(leaf.catalog()), option(leaf.identifier())
    parts = [] if catalog is None or named is None else [catalog.name(), *named.namespace(), named.name()]
    # A name may go on behind the table's with that of a branch or a snapshot.
    return table if leaf.table().branch() is None and str(table.name()) == ".".join(map(str, parts)) else None
