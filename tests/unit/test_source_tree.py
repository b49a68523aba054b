"""The source as a whole: one enum for each set of values, and an image of the driver that has what the driver imports."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import sparksql

SOURCE = Path(sparksql.__file__).parent
DOCKERFILE = SOURCE.parents[1] / "images/session/Dockerfile"

# Enums with the same members that are two concepts all the same, and why.
DIFFERENT_CONCEPTS = {
    # What the deletion of a statement does to its savepoints, and what that of a savepoint does to its data: fields of two kinds,
    # either of which may get a further value by itself.
    frozenset({"sparksql.api.savepoint.ReclaimPolicy", "sparksql.api.streaming.OnDelete"}),
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Name and syntax tree of each module."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        yield name, ast.parse(path.read_text())


def enums() -> Iterator[tuple[str, ast.ClassDef]]:
    """Full name and definition of each enum."""
    for module, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and any(re.search(r"\w*Enum$", ast.unparse(base)) for base in node.bases):
                yield f"{module}.{node.name}", node


def members(enum: ast.ClassDef) -> frozenset[str]:
    """What tells an enum from others: its texts, and by their names the members whose value is a number or anything else."""
    found = set()
    for statement in enum.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                found.add(f"{text!r}")
            case ast.Assign(targets=[ast.Name(id=name)]):
                found.add(name)
    return frozenset(found)


def test_each_set_of_values_is_one_enum() -> None:
    by_members: dict[frozenset[str], set[str]] = defaultdict(set)
    for name, enum in enums():
        by_members[members(enum)].add(name)
    repeated = {frozenset(names) for names in by_members.values() if len(names) > 1}
    assert repeated == DIFFERENT_CONCEPTS, "share the enum, in the lowest layer that needs it"


def test_enums_of_all_sorts_are_found() -> None:
    found = dict(enums())
    assert members(found["sparksql.api.execution.OutputMode"]) == {"'Append'", "'Update'", "'Complete'"}
    assert members(found["sparksql.wire.versions.Skew"]) == {"OLDER", "NEWER", "TOO_OLD", "TOO_NEW"}
    assert "SQL_ERROR" in members(found["sparksql.wire.control.ErrorReason"])
    assert len(found) > 40


def imported(tree: ast.Module) -> Iterator[str]:
    """Modules of ours that a module imports, at its top or later."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sparksql."):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("sparksql."))


def test_the_session_image_has_what_its_code_imports() -> None:
    lines = [line.split() for line in DOCKERFILE.read_text().splitlines() if line.startswith("COPY operator/")]
    copied = {Path(path).stem for line in lines for path in line[1:-1]}
    assert {"gateway", "wire", "api"} <= copied
    needed = {
        name.split(".")[1]
        for module, tree in modules()
        if module.count(".") and module.split(".")[1] in copied
        for name in imported(tree)
    }
    assert needed <= copied


def test_arrow_data_of_others_enters_the_gateway_by_one_module() -> None:
    door, writing = "sparksql.gateway.results.batches", {"new_stream"}
    uses = {
        (module, node.attr)
        for module, tree in modules()
        if module.startswith("sparksql.gateway.")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("pa.ipc", "pyarrow.ipc", "ipc")
    }
    assert {module for module, name in uses if name not in writing} == {door}
