"""Names that exist, beside one that does not: the likeliest mistake is a misspelling. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

MAX_SHOWN = 5
MAX_COMPARED = 1_000  # of a namespace with more names the first ones: a comparison takes some 10 microseconds
_MIN_LIKENESS = 0.75  # of a name that is taken for a misspelling of another one


def nearest(name: str, existing: Iterable[str]) -> tuple[str, ...]:
    """Returns up to `MAX_SHOWN` of the existing names, those most like `name` first."""
    compared = islice(existing, MAX_COMPARED)
    return tuple(sorted(compared, key=lambda each: (-_likeness(name, each), each))[:MAX_SHOWN])


def listed(name: str, existing: Iterable[str]) -> str:
    """Returns the nearest names as a message has them, in brackets, with the number of the others."""
    names = tuple(existing)
    shown = nearest(name, names)
    others = len(names) - len(shown)
    more = f" and {others} more" if others else ""
    return f"(there are: {', '.join(shown) or 'none'}{more})"


def misspelt(name: str, existing: Iterable[str]) -> str | None:
    """Returns the existing name that `name` is most likely a misspelling of, None if it resembles none."""
    first = next(iter(nearest(name, existing)), None)
    return first if first is not None and _likeness(name, first) >= _MIN_LIKENESS else None


def _likeness(name: str, other: str) -> float:
    """Returns 1.0 for names of the same letters, 0.0 for names that share none."""
    return difflib.SequenceMatcher(None, name, other, autojunk=False).quick_ratio()
