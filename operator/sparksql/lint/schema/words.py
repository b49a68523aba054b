"""What messages of the schema's checks show of a value, and what was most likely meant. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from typing import Any

_SHOWN_CHARS = 60


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Returns the name that a word is most likely a misspelling of, None if it resembles none."""
    by_form = {name.lower(): name for name in names}
    similar = difflib.get_close_matches(word.lower(), by_form, n=1)
    return by_form[similar[0]] if similar else None


def remedy(word: str, names: Iterable[str]) -> str:
    """Returns the name that was most likely meant, as a question, or all names."""
    ordered = sorted(names)
    similar = nearest(word, ordered)
    return f"did you mean {similar}?" if similar else f"known are {', '.join(ordered)}"


def abbreviated(value: Any) -> str:
    """Returns a value as a message shows it: cut, on one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split()) or '""'
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
