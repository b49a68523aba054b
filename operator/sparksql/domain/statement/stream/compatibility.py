"""Whether a stopped stream could continue from its state: the condition Compatible. Pure.

The condition is there while a stream with a checkpoint is Stopped. True: a start would continue from the state. False: a
start would be refused, with this reason and message. Unknown: no driver has validated the spec yet, or only a start can
show it.

Invariants: a driver validates each generation of the spec once; only what the environment has failed is validated again,
after a back-off, until a deadline; nothing is started for it, neither the query nor a session.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType, find_condition, is_true, merge_conditions
from sparksql.api.reasons import Reason
from sparksql.api.statement import StatementDesiredState as DesiredState
from sparksql.api.statement import StatementPhase as Phase
from sparksql.api.streaming import OnIncompatible
from sparksql.domain.backoff import exponential
from sparksql.domain.public_text import Message, compose
from sparksql.domain.statement.comparison import fit_with
from sparksql.domain.statement.decision import Ask, Decision, NeedsInputs, Question
from sparksql.domain.statement.outcome import end_of
from sparksql.domain.statement.snapshot import Driver, Inputs, MissingReference, Settings, Snapshot
from sparksql.domain.statement.steps import WAITING_SECONDS
from sparksql.domain.statement.stream import changes
from sparksql.domain.statement.stream.facts import Change, StreamFacts, Waiting, stream_facts
from sparksql.domain.statement.stream.spec import has_checkpoint, is_stream
from sparksql.domain.violation import Violation
from sparksql.wire.control import OperationState, OperationView, ResultOptions
from sparksql.wire.failure.classify import classify
from sparksql.wire.failure.kind import FailureKind

FIRST_RETRY_SECONDS = 10.0  # after a failure of the environment, doubled each time
MAX_RETRY_SECONDS = 300.0
DEADLINE_SECONDS = 900.0  # for one generation; what the environment fails for so long needs a person
SHOWN_CHANGES = 20  # of a state that a start would rewrite, in the message

_UNKNOWN = ConditionStatus.UNKNOWN
# Reasons of Unknown that name what is waited for. Any other one is an answer.
_OPEN = frozenset(
    {
        Reason.VALIDATING,
        Reason.RETRYING,
        Reason.SESSION_NOT_READY,
        Reason.WAITING_FOR_SAVEPOINT,
        Reason.WAITING_FOR_SOURCE,
        Reason.OLDER_DRIVER,
    }
)


@dataclass(frozen=True)
class Compatibility:
    """Holds the content of the condition, and in how many seconds another look may change it; None waits for a change."""

    status: ConditionStatus
    reason: Reason
    message: str
    ask: Ask | None = None
    wake: float | None = None


def question(s: Snapshot) -> Question | None:
    """Returns the request that has a driver validate the spec of a stream, running or stopped; None while there is none."""
    if s.statement.status.phase is not Phase.STOPPED:
        return changes.question(s)
    driver = _driver(s)
    return _question(s, stream_facts(s), driver) if driver is not None and _is_due(s) else None


def read_for_validation(s: Snapshot, facts: StreamFacts) -> NeedsInputs | None:
    """Has the text of a stopped stream read that a driver is to validate."""
    if s.inputs is not None or not _is_due(s) or _driver(s) is None:
        return None
    return NeedsInputs()


def with_compatibility(s: Snapshot, decision: Decision) -> Decision:
    """Returns the decision with the condition Compatible, and with what validates the spec, if it stops a stream."""
    status = decision.status
    is_stopped = status.phase is Phase.STOPPED and is_stream(s.statement.spec)
    if not is_stopped or status.streaming is None or status.streaming.checkpoint_location is None:
        return decision
    found = _compatibility(s, stream_facts(s), decision)
    if found is None:
        return decision
    condition = Condition(
        type=ConditionType.COMPATIBLE, status=found.status, reason=found.reason, message=found.message
    )
    conditions = merge_conditions(
        s.statement.status.conditions,
        (*status.conditions, condition),
        generation=s.statement.metadata.generation,
        now=s.now,
    )
    wakes = [each for each in (decision.requeue_after, found.wake) if each is not None]
    return replace(
        decision,
        status=status.replace(conditions=conditions),
        commands=decision.commands if found.ask is None else (*decision.commands, found.ask),
        requeue_after=min(wakes) if wakes else None,
    )


def _compatibility(s: Snapshot, facts: StreamFacts, decision: Decision) -> Compatibility | None:
    """Returns the condition of a stream that the decision stops; None for one that resumes at once."""
    ready = find_condition(decision.status.conditions, ConditionType.READY)
    if is_true(decision.status.conditions, ConditionType.STALLED) and ready is not None:
        is_incompatible = ready.reason == Reason.STATE_INCOMPATIBLE
        return Compatibility(
            ConditionStatus.FALSE if is_incompatible else _UNKNOWN, Reason(ready.reason), ready.message
        )
    if s.statement.spec.desired_state is not DesiredState.STOPPED:
        return None
    rejection = facts.driver_rejection
    if rejection is not None and rejection.reason is Reason.STATE_INCOMPATIBLE and facts.change is None:
        return _refused(rejection)
    known = _known(s)
    if known is not None and _is_answer(known):
        return Compatibility(known.status, Reason(known.reason), known.message)
    if _is_unchanged(s, facts):
        return Compatibility(ConditionStatus.TRUE, Reason.UNCHANGED, "the query ran with this spec")
    if s.statement.status.phase is not Phase.STOPPED:
        return Compatibility(_UNKNOWN, Reason.VALIDATING, "the spec is validated next", wake=0.0)
    return _before_driver(s, facts) or _by_driver(s, facts)


def _before_driver(s: Snapshot, facts: StreamFacts) -> Compatibility | None:
    """Returns what holds without a look of a driver: what it needs is missing, or a start would be refused before."""
    if isinstance(s.inputs, MissingReference):
        return _open(Reason.WAITING_FOR_SOURCE, s.inputs.message)
    if isinstance(facts.restore_source, Waiting):
        return _open(Reason.WAITING_FOR_SAVEPOINT, facts.restore_source.message)
    blocker = facts.start_blocker
    if blocker is not None and blocker != facts.driver_rejection:
        return _refused(blocker)
    if s.statement.spec.session is not None:
        message = "its own session does not exist while it is stopped; a start validates the spec, as does kubectl sparksql validate"
        return _open(Reason.SESSION_NOT_READY, message)
    if s.session is None or s.session.driver is None or not isinstance(s.settings, Settings):
        return _open(Reason.SESSION_NOT_READY, _missing_session(s))
    if not s.session.driver.compares_states:
        message = (
            "the session's driver is of an earlier version and cannot validate; restart the session (spec.restartNonce)"
        )
        return _open(Reason.OLDER_DRIVER, message)
    return None


def _missing_session(s: Snapshot) -> str:
    reference = s.statement.spec.session_ref
    name = reference.name if reference is not None else ""
    standing = "does not exist" if s.session is None else f"is {s.session.phase or 'new'}"
    return (
        f"session {name} {standing}; a driver validates the spec once the session is Ready, and none is started for it"
    )


def _by_driver(s: Snapshot, facts: StreamFacts) -> Compatibility:
    driver = _driver(s)
    asked = _question(s, facts, driver) if driver is not None else None
    if driver is None or asked is None:
        return _open(Reason.VALIDATING, "the driver validates the spec")
    ask, answer = Ask(asked, driver.pod_uid), s.answer
    if answer is None or not answer.state.is_terminal:
        return _ask_until_deadline(s, ask, Reason.VALIDATING, compose("the driver validates the spec"))
    match answer.state:
        case OperationState.FINISHED:
            return Compatibility(ConditionStatus.TRUE, Reason.COMPATIBLE, _fit_message(facts, answer))
        case OperationState.ERROR:
            return _by_error(s, ask, answer)
        case _:
            return _retry(s, ask, answer)


def _by_error(s: Snapshot, ask: Ask, answer: OperationView) -> Compatibility:
    outcome, streaming = end_of(answer), s.statement.spec.streaming
    if outcome.reason is Reason.NOT_IMPLEMENTED:  # a start alone can show it
        return Compatibility(_UNKNOWN, outcome.reason, outcome.message)
    if classify(answer.error).kind is FailureKind.ENVIRONMENT:
        return _retry(s, ask, answer)
    message, is_fresh = (
        outcome.message,
        streaming is not None and streaming.on_incompatible is OnIncompatible.START_FRESH,
    )
    if outcome.reason is Reason.STATE_INCOMPATIBLE and is_fresh:
        message = compose("{cause}; a start begins without the state (onIncompatible: StartFresh)", cause=message)
    return Compatibility(ConditionStatus.FALSE, outcome.reason, message)


def _retry(s: Snapshot, ask: Ask, answer: OperationView) -> Compatibility:
    """Waits for the back-off, then sends the request again: an outage, or the limit of time, has prevented an answer."""
    outcome = end_of(answer)
    delay = exponential(s.inquired.answers if s.inquired is not None else 1, FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS)
    left = delay - (s.now - (answer.completion_time or s.now)).total_seconds()
    message = compose("{cause}; validated again in {delay:g} s", cause=outcome.message, delay=delay)
    if left > 0 and not _is_overdue(s):
        return Compatibility(_UNKNOWN, Reason.RETRYING, message, wake=left + 0.05)
    return _ask_until_deadline(s, ask, Reason.RETRYING, message, last=outcome.message)


def _ask_until_deadline(
    s: Snapshot, ask: Ask, reason: Reason, message: Message, last: str = "the driver did not answer"
) -> Compatibility:
    if _is_overdue(s):
        why = compose(
            "not validated within {limit:g} s: {cause}; another change of the spec has it validated again, as does a start",
            limit=DEADLINE_SECONDS,
            cause=last,
        )
        return Compatibility(_UNKNOWN, Reason.ENVIRONMENT_FAILED, why)
    return Compatibility(_UNKNOWN, reason, message, ask, changes.ANSWER_SECONDS)


def _is_overdue(s: Snapshot) -> bool:
    return s.inquired is not None and (s.now - s.inquired.since).total_seconds() >= DEADLINE_SECONDS


def _fit_message(facts: StreamFacts, answer: OperationView) -> str:
    match facts.change:
        case Change.START_FRESH:
            return "the spec is valid; a start begins without the state"
        case Change.RESTORE:
            return fit_with("the state of the savepoint of startFrom", answer)
        case Change.TEXT | Change.SETTINGS | None:
            return fit_with("the state in its checkpoint", answer)


def _refused(violation: Violation) -> Compatibility:
    return Compatibility(ConditionStatus.FALSE, violation.reason, violation.message)


def _open(reason: Reason, message: str) -> Compatibility:
    return Compatibility(_UNKNOWN, reason, message, wake=WAITING_SECONDS)


def _known(s: Snapshot) -> Condition | None:
    """Returns the condition as the status has it, if that is about the present generation."""
    known = find_condition(s.statement.status.conditions, ConditionType.COMPATIBLE)
    is_current = known is not None and known.observed_generation == s.statement.metadata.generation
    return known if is_current else None


def _is_answer(condition: Condition) -> bool:
    return condition.status is not _UNKNOWN or condition.reason not in _OPEN


def _is_unchanged(s: Snapshot, facts: StreamFacts) -> bool:
    """Returns whether the query has run with this spec: then its start has found it compatible.

    A driver reports Running once the query has started. An earlier phase proves nothing.
    """
    if facts.change is not None or not (s.statement.spec.sql is not None or isinstance(s.inputs, Inputs)):
        return False
    if s.statement.status.phase is Phase.RUNNING:
        return True
    known = find_condition(s.statement.status.conditions, ConditionType.COMPATIBLE)
    return known is not None and known.reason == Reason.UNCHANGED


def _is_due(s: Snapshot) -> bool:
    """Returns whether a driver is to validate the spec of a stopped stream: there is a state, and no answer yet."""
    spec, known = s.statement.spec, _known(s)
    if s.statement.status.phase is not Phase.STOPPED or spec.desired_state is not DesiredState.STOPPED:
        return False
    if not is_stream(spec) or not has_checkpoint(s.statement) or spec.session is not None:
        return False
    return known is None or not _is_answer(known)


def _driver(s: Snapshot) -> Driver | None:
    """Returns the driver of the session that can validate now, whichever has run the query."""
    driver = s.session.driver if s.session is not None else None
    return driver if driver is not None and driver.compares_states else None


def _question(s: Snapshot, facts: StreamFacts, driver: Driver) -> Question | None:
    asked = changes.question_to(s, facts, driver)
    if asked is None:
        return None
    result = ResultOptions(preview_rows=SHOWN_CHANGES, retention_seconds=0)
    return replace(asked, request=asked.request.model_copy(update={"result": result}))
