"""The graph of the units of a package: what is directly in it, and which of them import which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grimp import ImportGraph

Edges = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Figures:
    """Size of a package's graph. `cyclic` are the units that are in a cycle; floors are counted without them."""

    package: str
    units: int
    edges: int
    floors: int
    cyclic: tuple[str, ...]


def figures(package: str, edges: Edges) -> Figures:
    """Return the figures of a graph. A unit is one floor above the highest one that it imports."""
    remaining = {unit: set(imported) for unit, imported in edges.items()}
    floors = 0
    while lowest := {unit for unit, imported in remaining.items() if not imported & remaining.keys()}:
        floors += 1
        remaining = {unit: imported for unit, imported in remaining.items() if unit not in lowest}
    count = sum(len(imported) for imported in edges.values())
    return Figures(package, len(edges), count, floors, _in_cycles(remaining))


def edges_of(graph: ImportGraph, package: str) -> Edges:
    """Return which units of a package import which other units of it."""
    units = {unit: frozenset({unit, *graph.find_descendants(unit)}) for unit in graph.find_children(package)}
    unit_of = {module: unit for unit, modules in units.items() for module in modules}
    found = {unit: set[str]() for unit in units}
    for module, unit in unit_of.items():
        for imported in graph.find_modules_directly_imported_by(module):
            other = unit_of.get(imported)
            if other is not None and other != unit:
                found[unit].add(other)
    return {unit: frozenset(imported) for unit, imported in found.items()}


def _in_cycles(remaining: Mapping[str, set[str]]) -> tuple[str, ...]:
    """Of units that have no floor, those in a cycle and those above one: without the latter, from the top down."""
    left = dict(remaining)
    while highest := {unit for unit in left if not any(unit in imported for imported in left.values())}:
        left = {unit: imported for unit, imported in left.items() if unit not in highest}
    return tuple(sorted(left))
