"""`mode: Validate` with `validateAgainst`: the state that a text is compared with. Pure.

Where it lies is read from the other statement's status, which the operator writes, never from the spec.
"""

from __future__ import annotations

from sparksql.api.execution import StatementMode
from sparksql.api.reasons import Reason
from sparksql.domain.statement.snapshot import MissingReference, Snapshot
from sparksql.domain.statement.stream.spec import options
from sparksql.domain.violation import Violation
from sparksql.wire.control import COMPARISON, HISTORY_READ, OperationView, StreamOptions

FIELD = "spec.validateAgainst.statementRef.name"


def state_of(s: Snapshot) -> StreamOptions | MissingReference | Violation | None:
    """Returns how a query with the text would run, and on which state; None without `validateAgainst`."""
    against, state = s.statement.spec.validate_against, s.state
    if against is None:
        return None
    name = against.statement_ref.name
    if state is None:
        namespace = s.statement.metadata.namespace
        return MissingReference(
            f"{FIELD}: there is no SqlStatement {name} in namespace {namespace}; create it, or name another one"
        )
    if state.streaming is None:
        return Violation(
            Reason.INVALID_SPEC, f"{FIELD}: SqlStatement {name} has no spec.streaming; name a streaming one"
        )
    if state.checkpoint is None:
        return MissingReference(
            f"{FIELD}: SqlStatement {name} has no checkpoint yet; it has one once it was handed to a driver"
        )
    driver = s.session.driver if s.session is not None else None
    if driver is not None and not driver.compares_states:
        message = (
            "spec.validateAgainst: the session's driver is of an earlier version without it; "
            "restart the session (spec.restartNonce)"
        )
        return Violation(Reason.NOT_IMPLEMENTED, message)
    return options(s.statement.spec.streaming or state.streaming, state.checkpoint)


def dry_run_of(s: Snapshot) -> StreamOptions | Violation | None:
    """Returns how the query would run of a text with spec.streaming that is validated or explained; None for another."""
    spec = s.statement.spec
    is_dry = spec.mode in (StatementMode.VALIDATE, StatementMode.EXPLAIN) and spec.validate_against is None
    if spec.streaming is None or not is_dry:
        return None
    driver = s.session.driver if s.session is not None else None
    if driver is not None and not driver.plans_streams:
        message = (
            f"spec.mode: the session's driver is of an earlier version, whose mode {spec.mode} does not regard spec.streaming; "
            "restart the session (spec.restartNonce)"
        )
        return Violation(Reason.NOT_IMPLEMENTED, message)
    return options(spec.streaming, "")


def fit_message(s: Snapshot, view: OperationView) -> str:
    """Returns the message of a validation that has finished: that the text fits, or how the state is made anew for it."""
    against = s.statement.spec.validate_against
    if against is None:
        return ""
    return fit_with(f"the state of SqlStatement {against.statement_ref.name}", view)


def fit_with(state: str, view: OperationView) -> str:
    """Returns how a text fits `state`, as the driver has found."""
    if view.result is None or not view.result.row_count:
        return f"the query is compatible with {state}"
    rows = [dict(zip(COMPARISON, row, strict=True)) for row in view.result.preview]
    read = [f"{row['operator'] or ''} {row['is']}".strip() for row in rows if row["change"] == HISTORY_READ]
    if read:
        return (
            f"the query is incompatible with {state}; at its start the state is rebuilt from the history of the sources (upgradeMode Rebuild): "
            f"{', '.join(read)}"
        )
    columns = ", ".join(row["column"] or "" for row in rows)
    return f"the query is compatible with {state} once that is rewritten, which its start does: the result has what for{f' ({columns})' if columns else ''}"
