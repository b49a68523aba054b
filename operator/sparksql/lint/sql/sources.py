"""Which SQL texts the resources have, where each stands, and how it is run. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from sparksql.api.execution import StatementMode
from sparksql.lint.findings import Finding, Rule
from sparksql.lint.reading.nodes import Node, Step, dotted
from sparksql.lint.reading.scalar_places import position
from sparksql.lint.references import Index, config_map_sql
from sparksql.lint.resources import Resource
from sparksql.wire.control import Parameter

_MAX_INIT_ENTRIES = 64  # of the schema: what is behind them is a finding already
_PARSER_CONF = "spark.sql."


@dataclass(frozen=True)
class SqlText:
    """A text and how it is run.

    `holder` is the resource whose file has the text, a ConfigMap where `user` names one. `is_init`: it prepares a session,
    `is_stream`: its statement has `spec.streaming`. `conf` are the settings of Spark SQL that are known.
    """

    user: Resource
    holder: Resource
    path: tuple[Step, ...]
    node: Node = field(repr=False)
    mode: StatementMode = StatementMode.EXECUTE
    parameters: tuple[Parameter, ...] = ()
    conf: tuple[tuple[str, str], ...] = ()
    is_init: bool = False
    is_stream: bool = False

    @property
    def sql(self) -> str:
        """Returns the text."""
        return str(self.node.value)

    def finding(self, message: str, offset: int | None = None, parameter: str | None = None) -> Finding:
        """Returns a finding at a character of the text, at the parameter of a name, or at the beginning of the text."""
        entry = None if parameter is None else self._parameter(parameter)
        if entry is not None:
            return self.user.finding(Rule.SQL, entry[1].start, message, entry[0])
        node, text = self.node, self.holder.document.source.text
        at = position(text, node.start, node.end, node.style, node.value, offset or 0)
        return self.holder.finding(Rule.SQL, at, f"{dotted(self.path)}: {message}", self.path)

    def _parameter(self, name: str) -> tuple[tuple[Step, ...], Node] | None:
        parameters = self.user.node.find(("spec", "parameters"))
        for index, entry in parameters.children.items() if parameters is not None else ():
            if isinstance(entry.value, dict) and entry.value.get("name") == name:
                return ("spec", "parameters", index), entry
        return None


def sql_of(resources: Sequence[Resource], index: Index) -> Iterator[SqlText]:
    """Yields the texts of resources, each place of a text once."""
    seen: set[int] = set()
    for resource in resources:
        if resource.is_ours:
            for each in (*_own(resource, index), *_of_config_maps(resource, index)):
                if id(each.node) not in seen and each.sql.strip():
                    seen.add(id(each.node))
                    yield each


def _own(resource: Resource, index: Index) -> Iterator[SqlText]:
    if resource.kind in ("SqlStatement", "SqlSavepoint"):
        node = resource.node.find(("spec", "sql"))
        if node is not None and isinstance(node.value, str):
            yield _statement(resource, resource, ("spec", "sql"), node, index)
    for path in (("spec", "init"), ("spec", "session", "init")):
        entries = resource.node.find(path)
        for number, entry in list(entries.children.items())[:_MAX_INIT_ENTRIES] if entries is not None else ():
            node = entry.children.get("sql")
            if node is not None and isinstance(node.value, str):
                conf = _conf(resource.node.find((*path[:-1], "conf")))
                yield SqlText(resource, resource, (*path, number, "sql"), node, conf=conf, is_init=True)


def _of_config_maps(resource: Resource, index: Index) -> Iterator[SqlText]:
    for path, holder, node in config_map_sql(resource, index):
        where = ("data", *_key_of(holder, node))
        if "init" in path:
            yield SqlText(resource, holder, where, node, is_init=True)
        else:
            yield _statement(resource, holder, where, node, index)


def _key_of(holder: Resource, node: Node) -> tuple[Step, ...]:
    data = holder.node.children["data"]
    return tuple(key for key, child in data.children.items() if child is node)[:1]


def _statement(user: Resource, holder: Resource, path: tuple[Step, ...], node: Node, index: Index) -> SqlText:
    spec = user.node.value["spec"]
    mode = spec.get("mode")
    session = spec.get("sessionRef")
    name = session.get("name") if isinstance(session, dict) else None
    target = index.find("SqlSession", name, user.namespace) if isinstance(name, str) else None
    below = target.node.find(("spec", "conf")) if target is not None else user.node.find(("spec", "session", "conf"))
    is_valid = isinstance(mode, str) and mode in set(StatementMode)
    return SqlText(
        user=user,
        holder=holder,
        path=path,
        node=node,
        mode=StatementMode(mode) if is_valid else StatementMode.EXECUTE,
        parameters=tuple(_parameters(spec.get("parameters"), user, index)),
        conf=tuple(dict((*_conf(below), *_conf(user.node.find(("spec", "conf"))))).items()),
        is_stream="streaming" in spec or user.kind == "SqlSavepoint",
    )


def _conf(node: Node | None) -> tuple[tuple[str, str], ...]:
    values = node.value if node is not None and isinstance(node.value, dict) else {}
    return tuple(
        (key, value) for key, value in values.items() if key.startswith(_PARSER_CONF) and isinstance(value, str)
    )


def _parameters(entries: Any, user: Resource, index: Index) -> Iterator[Parameter]:
    """The parameters as the gateway gets them. One whose value is not among the files is an empty string."""
    names: set[str] = set()
    for entry in entries if isinstance(entries, list) else ():
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or name in names or not (name.isascii() and name.isidentifier()):
            continue  # a finding of the schema
        value = entry.get("value")
        is_known = isinstance(value, str)
        try:
            parameter = Parameter(
                name=name,
                value=value if isinstance(value, str) else "",
                type=entry.get("type", "STRING") if is_known else "STRING",
                secret=False,
            )
        except ValidationError:
            continue
        names.add(name)
        yield parameter
