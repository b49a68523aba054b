"""Whether the jars, files and archives that a statement names are there.

Spark adds a jar that it cannot find with a line in its log alone, and a function with such a jar fails when it is first used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Jvm, JvmSession, LogicalPlan
from sparksql.gateway.sql import policy as rules
from sparksql.gateway.sql.conditions import Condition
from sparksql.gateway.sql.errors import StatementError, own_refusal
from sparksql.gateway.sql.identifiers import with_any_name
from sparksql.gateway.sql.immediate import immediate_plan

_MAX_NESTING = 8


@dataclass(frozen=True)
class _Resource:
    """`kind` is jar, file or archive."""

    kind: str
    uri: str


def check_resources(jvm: Jvm, session: JvmSession, plan: LogicalPlan, files: HadoopFiles) -> None:
    """Looks for the files that a parsed ADD names.

    Raises StatementError for the first that is not there, and for a folder where a jar or an archive is meant.
    """
    for resource in _named(jvm, session, plan):
        place = (
            resource.uri.partition("#")[0] if resource.kind == "archive" else resource.uri
        )  # the name to unpack it under
        found = files.is_folder(place)
        if found is None:
            raise _not_found(f"{resource.kind} {resource.uri!r} does not exist")
        if found and resource.kind != "file":
            raise _not_found(f"{resource.uri!r} is a folder where a {resource.kind} is meant; name a file in it")


def _named(jvm: Jvm, session: JvmSession, plan: LogicalPlan, nesting: int = 0) -> Iterator[_Resource]:
    if nesting > _MAX_NESTING:  # the policy has refused it
        return
    plan = with_any_name(jvm, plan)
    match simple_name(plan):
        case "AddJarsCommand":
            yield from (_Resource("jar", str(path)) for path in elements(plan.paths()))
        case "AddFilesCommand":
            yield from (_Resource("file", str(path)) for path in elements(plan.paths()))
        case "AddArchivesCommand":
            yield from (_Resource("archive", str(path)) for path in elements(plan.paths()))
        case "CreateFunction" | "CreateFunctionCommand":
            for resource in elements(plan.resources()):
                yield _Resource(str(resource.resourceType().resourceType()).lower(), str(resource.uri()))
        case "CompoundBody":
            for inner in rules.block_statements(plan):
                yield from _named(jvm, session, inner, nesting + 1)
        case "UnresolvedExecuteImmediate":
            inner = immediate_plan(jvm, session, plan, variables=nesting == 0)
            yield from _named(jvm, session, inner, nesting + 1)
        case _:
            return


def _not_found(message: str) -> StatementError:
    return own_refusal(Condition.PATH_NOT_FOUND, message)
