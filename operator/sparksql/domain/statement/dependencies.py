"""What a statement's `dependsOn` allows: go on, wait, or give up.

A cycle is found before a failed dependency, for every member of it. A dependency that does not exist is waited for,
unless it was met before it went away: met names are kept in status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sparksql.api.statement import StatementPhase as Phase
from sparksql.domain.statement.phases import is_ended

Edges = Callable[[str], Sequence[str]]


@dataclass(frozen=True)
class Met:
    """Every dependency is met; `names` is what status keeps."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unmet:
    """Some are still open: `missing` do not exist, `open` have not ended; `met` is what status keeps so far."""

    met: tuple[str, ...]
    open: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Failed:
    """Dependency `name` has ended in `phase`, which is not Finished."""

    name: str
    phase: Phase


@dataclass(frozen=True)
class Cycle:
    """The statement depends on itself, along `path`."""

    path: tuple[str, ...]


Outcome = Met | Unmet | Failed | Cycle


def find_cycle(name: str, edges: Edges) -> tuple[str, ...] | None:
    """Returns a path from `name` back to itself along `edges` (statement -> names it depends on), or None."""
    came_from: dict[str, str] = {}
    stack = [name]
    while stack:
        current = stack.pop()
        for following in edges(current):
            if following == name:
                path = [current]
                while path[-1] != name:
                    path.append(came_from[path[-1]])
                return (*reversed(path), name)
            if following not in came_from:
                came_from[following] = current
                stack.append(following)
    return None


def evaluate(
    name: str,
    depends_on: Sequence[str],
    met_before: Iterable[str],
    phase_of: Callable[[str], Phase | None],
    edges: Edges,
) -> Outcome:
    """Returns the outcome for statement `name`.

    `phase_of` answers None for a statement that does not exist or was never observed.
    """
    if not depends_on:
        return Met()
    cycle = find_cycle(name, edges)
    if cycle is not None:
        return Cycle(cycle)
    kept = set(met_before)
    phases = {d: phase_of(d) for d in depends_on if d not in kept}
    for dependency, phase in phases.items():
        if is_ended(phase) and phase is not Phase.FINISHED and phase is not None:
            return Failed(dependency, phase)
    met = tuple(d for d in depends_on if d in kept or phases[d] is Phase.FINISHED)
    waiting = tuple(d for d in depends_on if d not in met)
    if not waiting:
        return Met(met)
    missing = tuple(d for d in waiting if phases[d] is None)
    return Unmet(met, tuple(d for d in waiting if d not in missing), missing)
