"""Options of data sources that SQL and clients may not give.

Sources of files put their options into Hadoop's configuration of that one read or write, and Kafka's clients load and read what
theirs name. So an option that is a key of Hadoop's or of a library's is judged as the same key in SET: by `allow.conf` of the
session's class. Keys of the file formats need no leave of the class when they name neither code nor a place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sparksql.api.conf_policy import NAMESPACES, is_allowed, is_denied, normalise
from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import elements, option, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm, LogicalPlan
from sparksql.gateway.sql import kafka_options
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.sql.identifiers import with_any_name
from sparksql.gateway.sql.relations import given_options
from sparksql.wire.control import ErrorReason
from sparksql.wire.driver import SqlPolicy

_FORMATS = frozenset({"avro", "delta", "iceberg", "orc", "parquet"})
_TABLE_OPTION = "option."  # how a table property is an option of the table's source
_HIVE_OPTIONS = ("parquet.", "orc.")  # properties of a Hive table that are options when Spark reads its files itself
_COMMENT = re.compile(r"/\*|--")
_RELATION_OPTIONS = re.compile(r"WITH\s*\(")
_TABLES = frozenset({"CreateTable", "CreateTableAsSelect", "ReplaceTable", "ReplaceTableAsSelect"})


def problem(options: Mapping[str, str], conf_allow: Iterable[str]) -> str | None:
    """Returns why these options may not be given, naming the first that is not allowed; values are not told."""
    allow = tuple(conf_allow)
    for key in options:
        name = normalise(key).partition("#")[0]  # parquet.bloom.filter.enabled#column
        first, dot, _ = name.partition(".")
        if not dot or first not in NAMESPACES or name.startswith(kafka_options.PREFIX):
            continue
        if not is_allowed(name, allow) and (first not in _FORMATS or is_denied(name)):
            return f"option {key!r} is a key of configuration that the session's class does not allow; leave it out"
    return kafka_options.problem(options, allow)


def check_options(options: Mapping[str, str], policy: SqlPolicy) -> None:
    """Raises StatementError for an option that may not be given."""
    told = problem(options, policy.conf_allow)
    if told is not None:
        raise refusal(ErrorReason.NOT_ALLOWED, told)


def check_plan(jvm: Jvm, plan: LogicalPlan, policy: SqlPolicy, *, relations: bool) -> None:
    """Checks the options in a parsed statement, and those of its `relations` if its text may give them. Raises StatementError."""
    for options in _of_command(plan):
        check_options(options, policy)
    if not relations:
        return
    for relation in _relations(jvm, plan):
        check_options(given_options(relation), policy)


def may_give_relations_options(text: str) -> bool:
    """Returns whether `WITH (...)` may be in a text: looking at each node of a plan takes longer than parsing it."""
    upper = text.upper()
    return "WITH" in upper and (_COMMENT.search(upper) is not None or _RELATION_OPTIONS.search(upper) is not None)


def _relations(jvm: Jvm, plan: LogicalPlan) -> Iterator[Any]:
    """Yields the unresolved relations of a plan, also those that are not among its nodes.

    Such are the targets of INSERTs, what is read AS OF a time, and within subqueries the relations that are there once
    IDENTIFIER(...) has a name.
    """
    for node in nodes(plan):
        match simple_name(node):
            case "UnresolvedRelation":
                yield node
            case "InsertIntoStatement" | "OverwriteByExpression":
                yield from _relations(jvm, node.table())
            case "RelationTimeTravel":
                yield from _relations(jvm, node.relation())
            case "PlanWithUnresolvedIdentifier":
                yield from _relations(jvm, with_any_name(jvm, node))
            case _:
                pass


def _of_command(plan: LogicalPlan) -> Iterator[dict[str, str]]:
    name = simple_name(plan)
    if name in _TABLES:
        spec = plan.tableSpec()
        yield _options_of_properties(spec.properties())
        yield {str(pair._1()): _value(pair._2()) for pair in elements(spec.optionExpression().options())}
        serde = option(spec.serde())
        yield {} if serde is None else _map(serde.serdeProperties())
    elif name == "CreateTempViewUsing":
        yield _map(plan.options())
    elif name == "UnresolvedWith":
        yield from _of_command(plan.child())
    elif name == "Union":  # of several INSERTs from one FROM
        for insert in (child for child in elements(plan.children()) if simple_name(child) == "InsertIntoDir"):
            yield from _of_command(insert)
    elif name == "InsertIntoDir":
        yield _map(plan.storage().properties())
    elif name in ("SetTableProperties", "CreateTableLikeCommand"):
        yield _options_of_properties(plan.properties())
    elif name == "SetTableSerDeProperties":
        properties = option(plan.serdeProperties())
        yield {} if properties is None else _map(properties)


def _options_of_properties(properties: Any) -> dict[str, str]:
    found = _map(properties)
    prefixed = {key: value for key, value in found.items() if key.lower().startswith(_TABLE_OPTION)}
    return {
        **{key: value for key, value in found.items() if key.lower().startswith(_HIVE_OPTIONS)},
        **{key[len(_TABLE_OPTION) :]: value for key, value in prefixed.items()},
    }


def _map(properties: Any) -> dict[str, str]:
    return {str(pair._1()): str(pair._2()) for pair in elements(properties)}


def _value(expression: Expression) -> str:
    """What an option's literal says; what is not a literal is computed later, and no value that needs a look."""
    return str(expression.value()) if simple_name(expression) == "Literal" else ""
