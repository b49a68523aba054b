"""Tests as the syntax tree has them: which there are, in which run and at which level. No test is collected or imported for it.

A mark counts that stands at a test, at its class or in `pytestmark`. Parameters count that are marked where they are written, and
in what their file's top has under the names that the decorators use; those that another file marks are not seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeGuard

from tests.runner.levels import level_of

TESTS = Path(__file__).parents[1]
_THOROUGH = "thorough"
_CHOOSES = "thorough_but"  # of `tests.support.thorough`
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Run(StrEnum):
    """When a test runs: each day, each day with some of its parameters, or in the thorough run alone."""

    DAILY = "daily"
    PARTLY = "partly"
    THOROUGH = "thorough"


@dataclass(frozen=True)
class Test:
    """One function; `id` is its file below `tests` and its name, with that of its class before it if it has one."""

    __test__ = False
    id: str
    run: Run
    level: str

    @property
    def file(self) -> str:
        return self.id.partition("::")[0]

    @property
    def words(self) -> str:
        """What the name says."""
        *classes, name = self.id.split("::")[1:]
        said = name.removeprefix("test_").replace("_", " ")
        return f"{classes[0].removeprefix('Test')}: {said}" if classes else said


def found() -> dict[str, Test]:
    """Returns all tests by their ids."""
    files = sorted(TESTS.rglob("test_*.py"))
    return {test.id: test for file in files for test in tests_of(file.read_text(), str(file.relative_to(TESTS)))}


def tests_of(source: str, file: str) -> Iterator[Test]:
    """Yields the tests of one file."""
    tree = ast.parse(source)
    names = {name: node for node in tree.body for name in _defined(node)}
    common = _marks_of(tree.body)
    for node in tree.body:
        if _is_test(node):
            yield _test(file, "", node, [*node.decorator_list, *common], names)
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            shared = [*node.decorator_list, *_marks_of(node.body), *common]
            for each in node.body:
                if _is_test(each):
                    yield _test(file, f"{node.name}::", each, [*each.decorator_list, *shared], names)


def _is_test(node: ast.stmt) -> TypeGuard[_Function]:
    return isinstance(node, _Function) and node.name.startswith("test_")


def _test(file: str, prefix: str, node: _Function, marks: list[ast.expr], names: dict[str, ast.stmt]) -> Test:
    direct = {_mark(each) for each in marks}
    if _THOROUGH in direct:
        run = Run.THOROUGH
    else:
        run = Run.PARTLY if any(_mentions(each, names, set()) for each in marks) else Run.DAILY
    return Test(f"{file}::{prefix}{node.name}", run, level_of(f"tests/{file}", direct).name)


def _defined(node: ast.stmt) -> list[str]:
    """Names that a statement at the top of a file gives."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [each.id for each in targets if isinstance(each, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def _marks_of(body: list[ast.stmt]) -> list[ast.expr]:
    """What `pytestmark` is, in a file or a class."""
    found = [node.value for node in body if isinstance(node, ast.Assign) and "pytestmark" in _defined(node)]
    return [each for value in found for each in (value.elts if isinstance(value, ast.List | ast.Tuple) else [value])]


def _mark(expression: ast.expr) -> str | None:
    """The name of `pytest.mark.NAME`, with or without arguments."""
    match expression:
        case ast.Call(func=function):
            return _mark(function)
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="pytest"), attr="mark"), attr=name):
            return name
    return None


def _mentions(expression: ast.AST, names: dict[str, ast.stmt], seen: set[str]) -> bool:
    """Whether an expression marks parameters as thorough, itself or by names of its file."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Attribute) and _mark(node) == _THOROUGH:
            return True
        if isinstance(node, ast.Name) and node.id == _CHOOSES:
            return True
        if isinstance(node, ast.Name) and node.id in names and node.id not in seen:
            seen.add(node.id)
            if _mentions(names[node.id], names, seen):
                return True
    return False
