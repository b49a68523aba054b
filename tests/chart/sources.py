"""Readings of the product's own source: which constants and attributes it uses, and how."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from tests.chart.helmchart import ROOT

SOURCES = ROOT / "operator" / "sparksql"


@cache
def trees() -> tuple[ast.Module, ...]:
    return tuple(ast.parse(file.read_text()) for file in sorted(SOURCES.rglob("*.py")))


@cache
def constants_in_use(enum: str) -> frozenset[str]:
    """Members of the enum that become the value of something. To be compared with, or matched, is no use: nothing has it by that."""
    return frozenset(name for tree in trees() for name in _members(tree, enum))


@cache
def attributes_of(owner: str) -> frozenset[str]:
    """Names that are read as `owner.name` or `x.owner.name`."""
    return frozenset(
        node.attr
        for tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and _name(node.value) == owner
    )


def _members(node: ast.AST, enum: str) -> Iterator[str]:
    if isinstance(node, ast.Compare | ast.MatchValue | ast.Set):
        return
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == enum:
        yield node.attr
    for child in ast.iter_child_nodes(node):
        yield from _members(child, enum)


def _name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
