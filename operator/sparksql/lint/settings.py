"""Rules of the operator that no schema has: Spark's configuration keys, schedules, and what a class allows. Pure.

The decisions are those of `domain` and `api.conf_policy`; here they get a place in a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from sparksql.api.conf_policy import field_of, is_denied, wrong_value
from sparksql.api.session import SqlSession
from sparksql.api.session_class import LabelSelector, SqlSessionClass
from sparksql.api.settings import SessionSettings
from sparksql.api.streaming import SavepointSchedule
from sparksql.domain.session.resolve import resolve
from sparksql.domain.statement.stream.schedule import violation
from sparksql.domain.violation import Violation
from sparksql.lint.findings import Finding, Rule
from sparksql.lint.reading.nodes import Node, Step, dotted
from sparksql.lint.references import Index
from sparksql.lint.resources import Resource

# Settings of tenants; those of a class are the platform's own.
_CONF = {
    "SqlSession": (("spec", "conf"),),
    "SqlStatement": (("spec", "conf"), ("spec", "session", "conf")),
}
_TEMPLATES: dict[str, tuple[str, ...]] = {"SqlSession": ("spec",), "SqlStatement": ("spec", "session")}
_SCHEDULE = ("spec", "streaming", "savepoints", "schedule")
_PATH = re.compile(r"spec(?:\.\w+)*")


def denied_keys(resource: Resource) -> Iterator[Finding]:
    """Yields the configuration keys and values that no class can allow."""
    for path in _CONF.get(resource.kind, ()):
        node = resource.node.find(path)
        if node is None or not isinstance(node.value, dict):
            continue
        for key, child in node.children.items():
            message = _denied(str(key), child)
            if message is not None:
                at = node.keys.get(str(key), child.start)
                yield resource.finding(Rule.CONF, at, f"{dotted(path)}: {message}", (*path, key))


def _denied(key: str, value: Node) -> str | None:
    if is_denied(key):
        instead = field_of(key)
        advice = "remove it" if instead is None else f"set {instead} of the session instead"
        return f"key {key!r} can never be set by a session or statement; {advice}"
    fits = wrong_value(key, value.value) if isinstance(value.value, str) else None
    return None if fits is None else f"key {key!r} is {value.value[:200]!r}: it takes {fits}"


def schedules(resource: Resource) -> Iterator[Finding]:
    """Yields a schedule of savepoints that cannot be followed."""
    node = resource.node.find(_SCHEDULE)
    if node is None or not isinstance(node.value, dict):
        return
    schedule = _parsed(SavepointSchedule, node.value)
    problem = None if schedule is None else violation(schedule)
    if problem is not None:
        yield _placed(resource, problem.message, _SCHEDULE, ())


def beyond_class(resource: Resource, index: Index) -> Iterator[Finding]:
    """Yields why a session cannot be of its class, where the class is among the files."""
    base = _TEMPLATES.get(resource.kind)
    template = None if base is None else resource.node.find(base)
    if base is None or template is None or not isinstance(template.value, dict):
        return
    name = template.value.get("className")
    target = index.find("SqlSessionClass", name, None) if isinstance(name, str) else None
    session_class = None if target is None else _parsed(SqlSessionClass, target.node.value)
    metadata = {"name": resource.name or "", "namespace": resource.namespace or ""}
    session = _parsed(SqlSession, {"metadata": metadata, "spec": template.value})
    if session is None or session_class is None:
        return
    # The labels of a namespace are known to the cluster alone, as are the operator's own defaults.
    allow = session_class.spec.allow.replace(namespaces=LabelSelector())
    reachable = session_class.replace(spec=session_class.spec.replace(allow=allow))
    found = resolve(session, reachable, {}, SessionSettings())
    if isinstance(found, Violation):
        finding = _placed(resource, found.message, (*base, "className"), base[1:])
        # What no class allows is a finding of its own.
        if not any(denied.line == finding.line for denied in denied_keys(resource)):
            yield finding


def _placed(resource: Resource, message: str, otherwise: tuple[Step, ...], within: tuple[str, ...]) -> Finding:
    """A finding at the field that a message of the operator begins with."""
    named = _PATH.match(message)
    path: tuple[Step, ...] = otherwise
    if named is not None:
        steps = named[0].split(".")
        candidate = (steps[0], *within, *steps[1:])
        path = candidate if resource.node.find(candidate) is not None else otherwise
        message = dotted((steps[0], *within, *steps[1:])) + message[named.end() :]
    return resource.finding(Rule.CONF if path[-1:] == ("conf",) else Rule.VALUE, resource.place(path), message, path)


def _parsed(model: Any, value: Any) -> Any:
    """The model of a value, None for one whose schema is broken: that is reported already."""
    try:
        return model.parse(value)
    except ValidationError:
        return None
