"""Errors as texts: what clients of REST and HiveServer2 get of a condition."""

from __future__ import annotations

import re

from tests.sqlsuite.comparing import Error

_CONDITION = re.compile(r"(?:[\w.$]+: )?\[([A-Z_][A-Z0-9_.]*)\] ")
_STATE = re.compile(r"SQLSTATE: (\w{5})")


def told_error(text: str, sql_state: str | None = None) -> Error:
    """Returns what the text of an error says, with the SQLSTATE beside it or, without one, the last in the text."""
    condition = _CONDITION.match(text)
    states = _STATE.findall(text)
    return Error(condition and condition[1], sql_state or (states[-1] if states else None), text)
