"""What a session that is Ready shows of its executors: how many it has, what it waits for, how many have failed. Pure.

Executors that are missing have no deadline. Statements run with those that are there, and the rest comes when the cluster grows
or a quota is raised; `timeouts.executionSeconds` bounds a statement, and with it its wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType, find_condition
from sparksql.api.reasons import Reason
from sparksql.api.session import ExecutorsStatus, SessionPhase, SqlSessionStatus
from sparksql.domain.event import Event
from sparksql.domain.public_text import PublicText, compose
from sparksql.domain.session.snapshot import ExecutorFailure, PodFacts, Snapshot

MISSING_SECONDS = 30.0
"""For so long Spark may take to ask for executors: it makes five a second, and waits a minute for a slow API server."""

_OUT_OF_MEMORY = "raise spec.executors.memory, or spark.executor.memoryOverhead in spec.conf"


def executors_wanted(s: Snapshot) -> int:
    """Returns how many executors the driver asks for: its own word, else what its configuration says.

    Drivers of earlier versions send no word. With dynamic allocation these are then taken to want what they have.
    """
    if s.gateway is not None and s.gateway.executors_wanted is not None:
        return s.gateway.executors_wanted
    said = {entry.name: entry.value for entry in s.session.status.configuration}
    if "executors.max" in said:
        return max(int(said.get("executors.min", "0")), len(_living(s)))
    return int(said.get("executors.instances", "0"))


def lacks_pods(s: Snapshot) -> bool:
    """Tells whether executors have been missing for a while of which there are not even pods: their creation is refused."""
    known = find_condition(s.session.status.conditions, ConditionType.EXECUTORS_READY)
    if s.session.status.phase is not SessionPhase.READY:
        return False
    if known is None or known.status is not ConditionStatus.FALSE or known.last_transition_time is None:
        return False
    is_old = (s.now - known.last_transition_time).total_seconds() >= MISSING_SECONDS
    return is_old and len(_living(s)) < executors_wanted(s)


def executors_status(s: Snapshot) -> ExecutorsStatus:
    """Returns the counts of the executors, and what those that are missing wait for."""
    wanted, ready = executors_wanted(s), _ready(s)
    problem = _problem(s)
    return ExecutorsStatus(
        wanted=wanted,
        ready=ready,
        pending=len(_living(s)) - ready,
        summary=f"{ready}/{wanted}",
        message=problem[1] if problem is not None and ready < wanted else None,
    )


def executors_awaited(status: SqlSessionStatus) -> str | None:
    """Returns what a session without a single executor waits for, None if it has one or they start as they should."""
    executors = status.executors
    return executors.message if executors is not None and not executors.ready else None


def failed_executors(failures: Sequence[ExecutorFailure]) -> str:
    """Returns how many executors have failed, of one at least, how the last one ended, and what to do."""
    last = max(failures, key=lambda each: each.time)
    count = "1 executor" if len(failures) == 1 else f"{len(failures)} executors"
    return f"{count} failed, the last one with {last.end}: {_remedy(last)}"


def executor_conditions(s: Snapshot) -> tuple[Condition, ...]:
    """Returns whether the executors are there, and that some have failed if so."""
    return (_ready_condition(s), *_failing_conditions(s))


def executor_events(s: Snapshot) -> tuple[Event, ...]:
    """Returns an Event for a cause of missing or failing executors that the status does not have yet."""
    before = s.session.status.conditions
    events = []
    for condition in executor_conditions(s):
        known = find_condition(before, condition.type)
        is_quiet = condition.reason in (Reason.EXECUTORS_READY, Reason.EXECUTORS_STARTING)
        if not is_quiet and (known is None or known.reason != condition.reason):
            events.append(Event("Warning", Reason(condition.reason), _announced(s, ConditionType(condition.type))))
    return tuple(events)


def _announced(s: Snapshot, type_: ConditionType) -> PublicText:
    """The counts alone: the causes are the words of the scheduler, the kubelet and the API server."""
    if type_ is ConditionType.EXECUTORS_FAILING:
        return compose(
            "{count} executors failed within the last hour; see status", count=len(s.executor_failures)
        ).public
    counts = {"ready": _ready(s), "wanted": executors_wanted(s)}
    return compose("{ready} of {wanted} executors are ready; see status", **counts).public


def _living(s: Snapshot) -> list[PodFacts]:
    return [pod for pod in s.executors if pod.ended is None and not pod.deleting]


def _ready(s: Snapshot) -> int:
    return sum(pod.started is not None for pod in _living(s))


def _ready_condition(s: Snapshot) -> Condition:
    wanted, ready = executors_wanted(s), _ready(s)
    if ready >= wanted:
        return _condition(ConditionType.EXECUTORS_READY, ConditionStatus.TRUE, Reason.EXECUTORS_READY, "")
    reason, why = _problem(s) or (Reason.EXECUTORS_STARTING, "the others start")
    message = f"{ready} of {wanted} executors are ready: {why}"
    return _condition(ConditionType.EXECUTORS_READY, ConditionStatus.FALSE, reason, message)


def _problem(s: Snapshot) -> tuple[Reason, str] | None:
    """Returns what the first executor that waits for something waits for; None if all start as they should."""
    waiting = [pod for pod in _living(s) if pod.started is None]
    for pod in waiting:
        if pod.gates:
            return (
                Reason.WAITING_IN_QUEUE,
                f"a queue system holds pod {pod.name} back ({', '.join(pod.gates)}){_words(pod)}",
            )
        if pod.unschedulable is not None:
            return Reason.UNSCHEDULABLE, f"pod {pod.name} has no node: {pod.unschedulable}"
        if pod.image_problem is not None:
            return Reason.IMAGE_PULL_FAILED, f"pod {pod.name}: {pod.image_problem}"
        if pod.container_problem is not None:
            return Reason.CONTAINER_NOT_STARTED, f"pod {pod.name}: {pod.container_problem}"
    if s.executor_refusal is not None:
        return s.executor_refusal.reason, f"another executor cannot be made: {s.executor_refusal.message}"
    return None


def _words(pod: PodFacts) -> str:
    return f": {pod.queue_words}" if pod.queue_words is not None else ""


def _failing_conditions(s: Snapshot) -> tuple[Condition, ...]:
    if not s.executor_failures:
        return ()
    message = (
        f"within the last hour {failed_executors(s.executor_failures)}. Spark ends the driver once more than "
        "spark.executor.maxNumFailures fail within spark.executor.failuresValidityInterval"
    )
    return (_condition(ConditionType.EXECUTORS_FAILING, ConditionStatus.TRUE, Reason.EXECUTORS_FAILING, message),)


def _remedy(failure: ExecutorFailure) -> str:
    return _OUT_OF_MEMORY if failure.out_of_memory else f"see the log of pod {failure.pod_name}"


def _condition(type_: ConditionType, status: ConditionStatus, reason: Reason, message: str) -> Condition:
    return Condition(type=type_, status=status, reason=reason, message=message)
