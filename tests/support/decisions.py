"""Where the operator decides by a list of codes, or by a text that was made for people: found in its syntax trees.

A comparison with the name of a plan's class is none of these: py4j has no other way to see a type, and the name is whole.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import StrEnum

_PARTS_OF_TEXTS = frozenset(
    {"startswith", "endswith", "match", "search", "fullmatch", "findall", "finditer", "find", "index", "count"}
)
_MESSAGES = frozenset({"message", "getMessage", "getLocalizedMessage", "detail", "details", "stderr"})
_CLASS_NAMES = frozenset({"simple_name", "getSimpleName", "getClass", "class_name", "java_class", "_class_name"})
_TYPE_TEXTS = frozenset({"simpleString", "catalogString", "typeName", "type_name", "type_text"})
_SQL_STATES = frozenset({"sql_state", "sqlState", "getSqlState"})
_CONDITIONS = frozenset({"condition", "getCondition", "main_condition", "verdict_of_condition"})
_REASONS = frozenset({"reason", "problem_reason"})
_EXCEPTIONS = frozenset({"self", "error", "failed", "failure", "refused", "exc"})
_HTTP = range(100, 600)


class Kind(StrEnum):
    """What a decision is made by."""

    MESSAGE = "a part of a message or of an exception's text"
    CLASS_NAME = "a part of a class's name"
    TYPE_TEXT = "the text of a type"
    SQL_STATE = "SQLSTATEs"
    CONDITION = "a list of conditions"
    HTTP = "HTTP statuses"
    REASON = "a list of reasons that others give"


def decisions(tree: ast.Module) -> Iterator[tuple[str, Kind]]:
    """Yields each function of a module that decides by one of these, with what it decides by."""
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    caught = {each.name for each in ast.walk(tree) if isinstance(each, ast.ExceptHandler) and each.name}
    texts = _texts_of_exceptions(tree, caught)
    for node in ast.walk(tree):
        for kind in _kinds(node, caught, texts):
            yield _scope(node, parents), kind


def _texts_of_exceptions(tree: ast.Module, caught: set[str]) -> frozenset[str]:
    """Names that hold the text of an exception: `text = str(error)`."""
    return frozenset(
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_text(node.value, caught, frozenset())
        for target in node.targets
        if isinstance(target, ast.Name)
    )


def _kinds(node: ast.AST, caught: set[str], texts: frozenset[str]) -> set[Kind]:
    match node:
        case ast.Compare(ops=[ast.In() | ast.NotIn()], left=left, comparators=[right]):
            return _within(left, right, caught, texts)
        case ast.Compare(ops=[ast.Is() | ast.IsNot(), *_]):
            return set()
        case ast.Compare():
            return _compared([node.left, *node.comparators])
        case ast.Call(func=ast.Attribute(attr=attr, value=value), args=args) if attr in _PARTS_OF_TEXTS:
            return _parts([value, *args], caught, texts)
        case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]) | ast.Subscript(slice=key, ctx=ast.Load()):
            return {kind for kind in _coded([key]) if kind is not Kind.REASON}
        case ast.Match(subject=subject, cases=cases):
            return _matched(subject, [each.pattern for each in cases])
        case _:
            return set()


def _within(left: ast.expr, right: ast.expr, caught: set[str], texts: frozenset[str]) -> set[Kind]:
    """Of `left in right`: a part of a text, or a member of a list."""
    found = {Kind.MESSAGE} if _is_text(right, caught, texts) else set()
    if _names(right) & _CLASS_NAMES and not isinstance(right, ast.Set | ast.Tuple | ast.SetComp):
        found.add(Kind.CLASS_NAME)
    if _names(right) & _TYPE_TEXTS or _names(left) & _TYPE_TEXTS:
        found.add(Kind.TYPE_TEXT)
    return found | _coded([left])


def _compared(sides: list[ast.expr]) -> set[Kind]:
    names = set().union(*map(_names, sides))
    constants = [part.value for side in sides for part in ast.walk(side) if isinstance(part, ast.Constant)]
    found = {Kind.TYPE_TEXT} if names & _TYPE_TEXTS and any(isinstance(each, str) for each in constants) else set()
    if names & {"status", "code"} and any(isinstance(each, int) and each in _HTTP for each in constants):
        found.add(Kind.HTTP)
    if names & _SQL_STATES:
        found.add(Kind.SQL_STATE)
    return found


def _parts(texts: list[ast.expr], caught: set[str], known: frozenset[str]) -> set[Kind]:
    names = set().union(*map(_names, texts))
    found = {Kind.MESSAGE} if any(_is_text(each, caught, known) for each in texts) else set()
    found |= {Kind.CLASS_NAME} if names & _CLASS_NAMES else set()
    found |= {Kind.TYPE_TEXT} if names & _TYPE_TEXTS else set()
    return found | {kind for kind in _coded(texts) if kind in (Kind.SQL_STATE, Kind.CONDITION)}


def _matched(subject: ast.expr, patterns: list[ast.pattern]) -> set[Kind]:
    values = [part.value for pattern in patterns for part in ast.walk(pattern) if isinstance(part, ast.Constant)]
    found = {Kind.TYPE_TEXT} if _names(subject) & _TYPE_TEXTS else set()
    if _names(subject) & {"status", "code"} and any(isinstance(each, int) and each in _HTTP for each in values):
        found.add(Kind.HTTP)
    return found | (_coded([subject]) if any(isinstance(each, str) for each in values) else set())


def _coded(values: list[ast.expr]) -> set[Kind]:
    """What a value is that is looked up in a list."""
    found: set[Kind] = set()
    for value in values:
        last = _last(value)
        if last in _SQL_STATES:
            found.add(Kind.SQL_STATE)
        if last in _CONDITIONS:
            found.add(Kind.CONDITION)
        if last in _REASONS:
            found.add(Kind.REASON)
        if last in ("status", "code"):
            found.add(Kind.HTTP)
    return found


def _last(value: ast.expr) -> str | None:
    """The name that a value goes by: of `(error.condition or "")[:2]` it is `condition`."""
    match value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=inner) | ast.BoolOp(values=[inner, *_]):
            return _last(inner)
        case ast.Call(func=ast.Name(id=name), args=[inner, *_]):
            return name if name in _CONDITIONS else _last(inner)
        case ast.Call(func=ast.Attribute(attr=name)):
            return name
        case _:
            return None


def _is_text(value: ast.expr, caught: set[str], texts: frozenset[str]) -> bool:
    for part in ast.walk(value):
        match part:
            case ast.Attribute(attr=name) if name in _MESSAGES:
                return True
            case ast.Name(id=name) if name in texts or name in ("message", "stderr"):
                return True
            case ast.Call(func=ast.Name(id="str" | "repr" | "clean_message"), args=[ast.Name(id=name)]) if (
                name in caught | _EXCEPTIONS
            ):
                return True
            case _:
                pass
    return False


def _names(value: ast.expr) -> set[str]:
    """All names in an expression."""
    names = {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}
    return names | {part.attr for part in ast.walk(value) if isinstance(part, ast.Attribute)}


def _scope(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> str:
    while node in parents and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        node = parents[node]
    return node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else "module"
