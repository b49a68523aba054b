"""Which joins of a query may be lookups, and of what. Each that is asked for is one, or the query is refused.

A lookup is a join of a STREAM with a table in a database by equality of columns, inner or such that the STREAM's rows stay. What
the table's side of the join does beside reading the table would have to be done by the database: it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparksql.api.execution import Lookup
from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import elements, option, scala_object, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm, LogicalPlan
from sparksql.gateway.sql.errors import StatementError, refusal
from sparksql.gateway.windowing.expressions import column_id
from sparksql.wire.control import ErrorReason

Name = tuple[str, ...]

_WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")
# Types whose equal values are equal in a database as well. Not CHAR, which is padded, nor numbers that are not exact.
_KEY_TYPES = frozenset({*_WHOLE_NUMBERS, "string", "boolean", "date", "timestamp", "timestamp_ntz"})
_DECIMAL = "decimal("
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark notes the type of a column that it has as STRING
_JDBC_RELATION, _JDBC_TABLE = "JDBCRelation", "JDBCTable"


@dataclass(frozen=True)
class JdbcTable:
    """A table in a database, as one side of a join has it.

    `options` are Spark's JDBCOptions, `columns` the table's by Spark's id, `output` what the side makes of them, by id: a column,
    or the padding of a CHAR.
    """

    names: tuple[Name, ...]
    options: Any
    columns: Mapping[int, Any]
    output: Mapping[int, Expression]


@dataclass(frozen=True)
class LookupJoin:
    """A join that becomes a lookup.

    `keys` are pairs of the STREAM's expression and the table's column, `rest` is what else the join asks for.
    """

    lookup: Lookup
    join: LogicalPlan
    stream: LogicalPlan
    table: JdbcTable
    keys: tuple[tuple[Expression, Any], ...]
    rest: Expression | None
    is_outer: bool


def lookup_joins(jvm: Jvm, plan: LogicalPlan, lookups: Mapping[Name, Lookup]) -> list[LookupJoin]:
    """Returns the joins of an analysed plan that become lookups. Raises StatementError for a lookup that no join can be."""
    found: list[LookupJoin] = []
    for join in (node for node in nodes(plan) if simple_name(node) == "Join" and node.isStreaming()):
        named = [lookup for name, lookup in lookups.items() if _has_name(join, name)]
        if len(named) > 1:
            raise refused(named[0].table, f"{named[1].table} is the same table: name it once")
        found += [_lookup_join(jvm, join, lookup) for lookup in named]
    for lookup in lookups.values():
        if not any(each.lookup is lookup for each in found):
            raise refused(
                lookup.table, "the query joins no STREAM with a table of that name: write the name or the alias in FROM"
            )
    return found


def refused(table: str, why: str) -> StatementError:
    """Returns the refusal of a lookup that cannot be, by the table's name."""
    return refusal(ErrorReason.INVALID_SPEC, f"the lookup of {table} cannot be: {why}")


def _has_name(join: LogicalPlan, name: Name) -> bool:
    """Whether the side of a join that does not stream is called so, or reads one table that is."""
    sides = [side for side in (join.left(), join.right()) if not side.isStreaming()]
    return any(_is_called(node, name) for side in sides for node in _alone(side))


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


def _lookup_join(jvm: Jvm, join: LogicalPlan, lookup: Lookup) -> LookupJoin:
    left, right = join.left(), join.right()
    stream, side = (left, right) if left.isStreaming() else (right, left)
    table = _jdbc_table(lookup.table, side)
    match simple_name(join.joinType()).removesuffix("$"), stream is left:
        case "Inner", _:
            is_outer = False
        case ("LeftOuter", True) | ("RightOuter", False):
            is_outer = True
        case kind, _:
            raise refused(
                lookup.table, f"its join is {kind}: write JOIN, or LEFT JOIN with the STREAM on the left of it"
            )
    keys, rest = _condition(jvm, join, lookup.table, table, is_left=stream is left)
    if is_outer and rest is not None:
        raise refused(
            lookup.table,
            f"LEFT JOIN has a condition that is no equality of columns, {str(rest.sql())[:200]}: leave it to the database, as a view "
            "there, or to the SELECT, IF(<condition>, c.x, NULL)",
        )
    return LookupJoin(lookup, join, stream, table, keys, rest, is_outer)


def _condition(
    jvm: Jvm, join: LogicalPlan, name: str, table: JdbcTable, *, is_left: bool
) -> tuple[tuple[tuple[Expression, Any], ...], Expression | None]:
    found = option(scala_object(jvm.org.apache.spark.sql.catalyst.planning, "ExtractEquiJoinKeys").unapply(join))
    if found is None:
        raise refused(name, "its join has no equality of a column: write ON o.customer = c.id")
    sides = elements(found._2()), elements(found._3())
    given, own = sides if is_left else sides[::-1]
    keys = tuple((value, _key(jvm, name, table, column)) for value, column in zip(given, own, strict=True))
    return keys, option(found._4())


def _key(jvm: Jvm, name: str, table: JdbcTable, expression: Expression) -> Any:
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


def _jdbc_table(name: str, side: LogicalPlan) -> JdbcTable:
    """Reads a side that is a table in a database and nothing else. Raises StatementError for any other."""
    *above, leaf = _alone(side)
    options = _options(leaf)
    if options is None:
        raise refused(name, "it is no table in a database (USING jdbc, or of a JDBC catalog): leave the lookup out")
    columns = {int(column.exprId().id()): column for column in elements(leaf.output())}
    output: dict[int, Any] = dict(columns)
    names: list[Name] = []
    for node in reversed(above):
        match simple_name(node):
            case "SubqueryAlias":
                names += _names(node)
            case "View" | "ResolvedHint":
                pass
            case "Project" if (renamed := _renamed(elements(node.projectList()), output)) is not None:
                output = renamed
            case kind:
                raise refused(
                    name, f"it is joined as a query with {kind}: join the table itself, or a view that the database has"
                )
    return JdbcTable(tuple(names), options, columns, output)


def _renamed(projected: Sequence[Any], below: Mapping[int, Any]) -> dict[int, Any] | None:
    """What a projection makes of the table's columns, None if it computes."""
    output: dict[int, Any] = {}
    for named in projected:
        value = named.child() if simple_name(named) == "Alias" else named
        number = column_id(value)
        if number is not None and number in below:
            value = below[number]
        elif not (simple_name(value) == "StaticInvoke" and str(value.functionName()) == "readSidePadding"):
            return None
        output[int(named.exprId().id())] = value
    return output


def _options(leaf: LogicalPlan) -> Any | None:
    match simple_name(leaf):
        case "LogicalRelation" if simple_name(leaf.relation()) == _JDBC_RELATION:
            return leaf.relation().jdbcOptions()
        case "DataSourceV2Relation" if simple_name(leaf.table()) == _JDBC_TABLE:
            return leaf.table().jdbcOptions()
        case _:
            return None
