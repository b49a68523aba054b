"""The operation state machine of FLIP-91 as data: which phase may follow which.

Phases of one attempt only move forward. A new attempt goes from Pending, Running or Stopped back to Initialized, and a
new run (`runNonce`) goes from an ended phase back to Initialized; a watcher may miss a phase but never sees another way
back. Stopped, of streaming statements only, lies between two attempts and is not an end.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparksql.api.statement import StatementPhase as Phase

ENDED = frozenset({Phase.FINISHED, Phase.CANCELED, Phase.CLOSED, Phase.ERROR, Phase.TIMED_OUT})
HANDED_OVER = frozenset({Phase.PENDING, Phase.RUNNING})

_ABNORMAL = frozenset({Phase.CANCELED, Phase.CLOSED, Phase.ERROR, Phase.TIMED_OUT})

WITHIN_ATTEMPT: Mapping[Phase, frozenset[Phase]] = {
    Phase.INITIALIZED: _ABNORMAL | {Phase.PENDING, Phase.STOPPED},
    Phase.PENDING: _ABNORMAL | {Phase.RUNNING, Phase.FINISHED, Phase.STOPPED},  # Running may be too short to be seen
    Phase.RUNNING: _ABNORMAL | {Phase.FINISHED, Phase.STOPPED},
    Phase.FINISHED: frozenset(),
    Phase.CANCELED: frozenset(),
    Phase.CLOSED: frozenset(),
    Phase.ERROR: frozenset(),
    Phase.TIMED_OUT: frozenset(),
    Phase.STOPPED: _ABNORMAL,
}


def is_ended(phase: Phase | None) -> bool:
    """Tells whether `phase` lasts until `runNonce` changes."""
    return phase in ENDED


def is_legal(before: Phase | None, after: Phase, *, same_run: bool, same_attempt: bool) -> bool:
    """Tells whether a status may go from `before` to `after`; None is an object that was never observed."""
    if before is None:
        return True
    if not same_run:
        return before in ENDED and after is not Phase.FINISHED and after is not Phase.RUNNING
    if not same_attempt:
        return before in HANDED_OVER | {Phase.STOPPED} and after is Phase.INITIALIZED
    return before is after or after in WITHIN_ATTEMPT[before]
