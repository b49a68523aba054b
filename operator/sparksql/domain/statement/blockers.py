"""Why a statement may not be handed to a driver: causes, each a reading of the snapshot, and their order. Pure.

Causes that only a streaming statement knows are in `stream.facts`.
"""

from __future__ import annotations

from sparksql.api.reasons import Reason
from sparksql.domain.statement.comparison import dry_run_of, state_of
from sparksql.domain.statement.identity import sql_hash
from sparksql.domain.statement.snapshot import Inputs, MissingReference, Snapshot
from sparksql.domain.violation import Violation

TEXT_CHANGED = (
    "spec.sqlFrom: the ConfigMap's text changed after this run was handed over; change runNonce to run the new text"
)


def submission_blocker(s: Snapshot) -> Violation | None:
    """Returns why the text of this run may not be submitted, or not once more; the first cause counts."""
    return rejected_settings(s) or _missing_state(s) or unreadable_inputs(s) or changed_text(s)


def rejected_settings(s: Snapshot) -> Violation | None:
    """Returns why its settings are outside of the limits and the policy of its class."""
    return s.settings if isinstance(s.settings, Violation) else None


def unreadable_inputs(s: Snapshot) -> Violation | None:
    """Returns why its text or its parameters cannot be had, if they were looked for."""
    return _blocker(s.inputs)


def changed_text(s: Snapshot) -> Violation | None:
    """Returns that its text is another one than the run was handed over with."""
    known = s.statement.status.sql_hash
    if known is None or not isinstance(s.inputs, Inputs) or sql_hash(s.inputs.sql) == known:
        return None
    return Violation(Reason.INVALID_SPEC, TEXT_CHANGED)


def _missing_state(s: Snapshot) -> Violation | None:
    """Returns why there is no state that its text could be compared with, or no driver that validates or explains its query."""
    return _blocker(state_of(s)) or _blocker(dry_run_of(s))


def _blocker(reading: object) -> Violation | None:
    """Returns the violation that a reference was answered with, None if it was found.

    A missing reference counts as one as well: whoever asks here waits for it no more.
    """
    match reading:
        case Violation():
            return reading
        case MissingReference(message):
            return Violation(Reason.INVALID_SPEC, message)
        case _:
            return None
