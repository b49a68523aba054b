"""The patterns of the tree: each call of `re` in its source, with the methods by which its result is used.

A pattern is evaluated as its module would: by the constants of that module. One that depends on values of a call, as on what a
function was given, is listed as made at run time.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import sparksql

OPERATOR = Path(sparksql.__file__).parents[1]
ROOT = OPERATOR.parent
IMAGES = ROOT / "images"
METHODS = frozenset({"match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"})
_ALL = frozenset({"match", "fullmatch", "search"})  # of a pattern whose use was not found


@dataclass(frozen=True)
class Found:
    """A pattern with its flags, where it is, by which name, and the methods that read texts with it."""

    place: str
    name: str
    pattern: str
    flags: int
    methods: frozenset[str]

    @property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, self.flags)


@dataclass(frozen=True)
class Module:
    """A source file and its syntax tree; `name` is None for one that is no module of the operator."""

    path: Path
    name: str | None
    tree: ast.Module

    @property
    def place(self) -> str:
        return str(self.path.relative_to(ROOT))

    def value(self, expression: ast.expr) -> object:
        """Evaluates an expression over the constants of the module. Raises NameError and the like for one over other names."""
        code = compile(ast.Expression(expression), self.place, "eval")
        try:
            return eval(code, {"re": re})
        except NameError:
            if self.name is None:
                raise
        return eval(code, dict(vars(importlib.import_module(self.name))))


def modules() -> Iterator[Module]:
    """Yields each source file of the operator and of the images."""
    for folder in (OPERATOR, IMAGES):
        for path in sorted(folder.rglob("*.py")):
            dotted = ".".join(path.relative_to(OPERATOR).with_suffix("").parts) if folder == OPERATOR else None
            yield Module(path, dotted and dotted.removesuffix(".__init__"), ast.parse(path.read_text()))


@cache
def patterns() -> tuple[list[Found], list[str]]:
    """Returns all patterns, and the places of those that are made at run time, as `file: function`."""
    all_modules = list(modules())
    uses = _uses(all_modules)
    found: list[Found] = []
    at_run_time: list[str] = []
    for module in all_modules:
        parents = {child: parent for parent in ast.walk(module.tree) for child in ast.iter_child_nodes(parent)}
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Call) or (function := _function_of_re(node)) is None:
                continue
            flags = next((word.value for word in node.keywords if word.arg == "flags"), None)
            if function == "compile" and len(node.args) > 1:
                flags = node.args[1]
            elif len(node.args) > (3 if function in ("sub", "subn", "split") else 2):
                flags = node.args[-1]
            try:
                pattern, number = module.value(node.args[0]), module.value(flags) if flags is not None else 0
            except (NameError, AttributeError):
                at_run_time.append(f"{module.place}: {_scope(node, parents)}")
                continue
            assert isinstance(pattern, str) and isinstance(number, int)
            name = _name(node, parents)
            methods = frozenset({function}) if function != "compile" else _direct(node, parents)
            methods = methods or uses.get((module.name, name)) or _ALL
            found.append(Found(module.place, name, pattern, number, frozenset(methods)))
    return found, sorted(at_run_time)


def _function_of_re(call: ast.Call) -> str | None:
    match call.func:
        case ast.Attribute(value=ast.Name(id="re"), attr=attr) if attr == "compile" or attr in METHODS:
            return attr
        case _:
            return None


def _direct(call: ast.Call, parents: dict[ast.AST, ast.AST]) -> frozenset[str]:
    """The method of `re.compile(...).match(...)`."""
    parent = parents[call]
    return frozenset({parent.attr}) if isinstance(parent, ast.Attribute) and parent.attr in METHODS else frozenset()


def _name(call: ast.Call, parents: dict[ast.AST, ast.AST]) -> str:
    match parents[call]:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case _:
            return _scope(call, parents)


def _scope(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> str:
    """The innermost function around a node."""
    while node in parents and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        node = parents[node]
    return node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else "module"


def _uses(all_modules: list[Module]) -> dict[tuple[str | None, str], set[str]]:
    """By module and name of a pattern, the methods that are called on it, in its own module or where it is imported."""
    uses: dict[tuple[str | None, str], set[str]] = defaultdict(set)
    for module in all_modules:
        origin: dict[str, str | None] = {}
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom):
                origin.update({alias.asname or alias.name: node.module for alias in node.names})
        for node in ast.walk(module.tree):
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=attr) if attr in METHODS:
                    uses[origin.get(name, module.name), name].add(attr)
                case ast.Attribute(value=ast.Attribute(value=ast.Name(id=of), attr=name), attr=attr) if attr in METHODS:
                    uses[f"{origin.get(of) or ''}.{of}", name].add(attr)
                case _:
                    pass
    return uses
