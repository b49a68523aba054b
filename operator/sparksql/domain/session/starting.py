"""A session without a driver, and with one on its way: Pending and Starting. Pure.

Each thing that is waited for has a deadline with its own reason, at which the start is given up. What the cluster refuses (a
node, an image, a quota, a webhook) is requested again after a pause, without end; only what the spec must change is Failed. A
place in a queue has no deadline: who set the queue up decides how long one waits there.
"""

from __future__ import annotations

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType
from sparksql.api.names import driver_pod_name, gateway_server_name
from sparksql.api.reasons import Reason
from sparksql.api.session import MAX_UNCONFIRMED_DRIVERS, DriverStatus, EndpointStatus, FrontendAddress, SqlSession
from sparksql.api.session import SessionPhase as Phase
from sparksql.domain.conditions import ready_reason
from sparksql.domain.event import Event
from sparksql.domain.public_text import Message, Name, compose, error_summary
from sparksql.domain.session.configuration_layers import open_endpoints
from sparksql.domain.session.counters import COUNTER_SECONDS, client_counts, statement_counts
from sparksql.domain.session.desired import (
    counted_statements,
    driver_spec_hash,
    hibernation_conditions,
    not_restored_conditions,
    phase_age,
    wake_wish,
    wants_restart,
    wants_stop,
)
from sparksql.domain.session.executors import executor_conditions, executors_status
from sparksql.domain.session.resolve import Resolved
from sparksql.domain.session.snapshot import Command, Decision, PodFacts, Snapshot
from sparksql.domain.session.status import with_phase
from sparksql.domain.session.steps import (
    POLL_SECONDS,
    STATE_LOST,
    drain,
    lost,
    new_events,
    outlived,
    pause,
    settle,
    start_failed,
    start_pause,
    vanished,
    wait,
)
from sparksql.domain.session.versions import skew_conditions, skew_events
from sparksql.domain.violation import Violation
from sparksql.wire.control import GatewayState
from sparksql.wire.driver import GATEWAY_PORT

STALLED_SECONDS = 30.0

# The API server's default of `schedulerName`; it has no queue.
_DEFAULT_SCHEDULER = "default-scheduler"

_MAKE_ROOM = "lower spec.driver.cpu or spec.driver.memory, or have nodes added"
_OTHER_IMAGE = "check spec.image of the session, or the image and the pull secrets of its class"

# Reasons that a person must look at; they heal by themselves when the cause goes.
_STALLED = frozenset(
    {
        Reason.CLASS_NOT_FOUND,
        Reason.NOT_ALLOWED,
        Reason.LIMIT_EXCEEDED,
        Reason.NOT_IMPLEMENTED,
        Reason.INVALID_SPEC,
        Reason.STORAGE_NOT_READY,
        Reason.INIT_SOURCE_NOT_FOUND,
        Reason.CHILD_CONFLICT,
    }
)
# Those of them with which the API server refuses a driver: the same start goes on, so that its Secrets are made once.
_REFUSALS = frozenset({Reason.INVALID_SPEC, Reason.NOT_ALLOWED})


def pending(s: Snapshot) -> Decision:
    """Returns the decision for a session without a driver."""
    status = s.session.status
    if wants_stop(s):
        return settle(s, Phase.STOPPED, Reason.STOPPED, compose("stopped by desiredState"))
    if s.namespace_terminating:
        return wait(s, Phase.PENDING, Reason.NAMESPACE_TERMINATING, "the namespace is being deleted")
    violation = s.start_blocker or (s.resolution if isinstance(s.resolution, Violation) else None) or s.limit_violation
    if violation is not None:
        return _blocked(s, violation)
    if (left := start_pause(s)) is not None:
        return pause(s, left)
    if s.pod is not None and not s.is_pod_given_up:
        message = (
            f"waits for pod {s.pod.name} to end, at most {s.deadlines.termination_seconds:g} s beyond its grace period"
        )
        return wait(s, Phase.PENDING, Reason.DRIVER_TERMINATING, message, Command.DELETE_DRIVER, wake=1.0)
    is_restart = status.next_start_time is not None and not status.failed_starts
    if is_restart and status.next_start_time is not None and status.next_start_time > s.now:
        left = (status.next_start_time - s.now).total_seconds()
        return wait(s, Phase.PENDING, Reason.DRIVER_RESTARTING, "the next driver starts after a pause", wake=left)
    return _start(s)


def _blocked(s: Snapshot, violation: Violation) -> Decision:
    """Waits for what keeps the driver from being made to pass: Stalled if a person must act, else after the deadline."""
    if s.session.status.phase is Phase.STARTING and violation.reason in _REFUSALS:
        return start_failed(s, Phase.STARTING, violation.reason, violation.message)
    if violation.reason in _STALLED:
        return _stalled(s, violation)
    phase = Phase.STARTING if s.session.status.phase is Phase.STARTING else Phase.PENDING
    waits_already = s.session.status.phase is phase  # one that was stopped begins to wait now
    may_fail = violation.reason is not Reason.NAMESPACE_TERMINATING
    if waits_already and may_fail and phase_age(s) > s.deadlines.scheduling_seconds:
        left = start_pause(s)
        return start_failed(s, phase, violation.reason, violation.message) if left is None else pause(s, left)
    return wait(s, phase, violation.reason, violation.message)


def _start(s: Snapshot) -> Decision:
    session = s.session
    before = session.status.driver or DriverStatus()
    incarnation = before.incarnation + 1
    warm = s.warm
    driver = DriverStatus(
        pod_name=driver_pod_name(session.metadata.name, session.metadata.uid, incarnation)
        if warm is None
        else warm.pod_name,
        pod_uid=None if warm is None else warm.pod_uid,
        pool_uid=None if warm is None else warm.uid,
        incarnation=incarnation,
        start_time=s.now,
        unconfirmed=_unconfirmed(s, before),
    )
    status = with_phase(
        session,
        s.now,
        Phase.STARTING,
        _start_reason(s),
        f"{'starts' if warm is None else 'takes'} driver {driver.pod_name}",
        driver=driver,
        config_hash=driver_spec_hash(session.spec),
        observed_restart_nonce=session.spec.restart_nonce,
        observed_wake=wake_wish(s),
        next_start_time=None,
        statements=statement_counts(s),
        configuration=s.resolution.configuration if isinstance(s.resolution, Resolved) else (),
    )
    return Decision(
        status,
        (Command.START_DRIVER,),
        events=(Event.of("Normal", Reason.DRIVER_STARTING, compose("incarnation {number}", number=incarnation)),),
        requeue_after=POLL_SECONDS,
    )


def _unconfirmed(s: Snapshot, before: DriverStatus) -> tuple[str, ...]:
    """The newest drivers that may still run, whatever the API server says of their pods."""
    if s.pod_end is not None or before.boot_id is None:
        return before.unconfirmed
    return (*before.unconfirmed, before.boot_id)[-MAX_UNCONFIRMED_DRIVERS:]


def starting(s: Snapshot) -> Decision:
    """Returns the decision for a session whose driver is on its way."""
    if wants_stop(s):
        return drain(s, Reason.STOPPED, compose("stopped by desiredState"))
    if wants_restart(s):
        return drain(s, Reason.SPEC_CHANGED, compose("the spec changed while the driver was starting"))
    if s.start_blocker is not None:
        return _blocked(s, s.start_blocker)
    driver, pod = s.session.status.driver, s.pod
    if s.gateway is not None and s.gateway.state is GatewayState.INIT_FAILED:
        return _init_failed(s)
    if pod is None and driver is not None and driver.pod_uid is None:
        if isinstance(s.resolution, Violation):
            return _stalled(s, s.resolution)
        if s.namespace_terminating:
            return wait(s, Phase.STARTING, Reason.NAMESPACE_TERMINATING, "the namespace is being deleted")
        if (left := start_pause(s)) is not None:
            return pause(s, left)
        return Decision(s.session.status, (Command.START_DRIVER,), requeue_after=POLL_SECONDS)
    if pod is None:
        return lost(s, Reason.DRIVER_LOST, vanished(s))
    if pod.ended is not None:
        return lost(
            s,
            Reason.DRIVER_LOST,
            compose("the driver ended while starting{runs}: {end}", runs=_init_runs(s), end=pod.ended),
        )
    if s.is_pod_given_up:
        return lost(s, Reason.DRIVER_LOST, outlived(s, pod))
    if s.gateway is not None and s.gateway.state is GatewayState.READY:
        return _became_ready(s, pod)
    return _waiting_for_pod(s, pod)


def _init_runs(s: Snapshot) -> Message:
    """What a driver of the session runs before it is ready, and may be ended by."""
    match bool(s.session.spec.init), s.session.status.kept_state is not None:
        case True, True:
            return compose(", when the statements of spec.init and the kept state run")
        case True, False:
            return compose(", when the statements of spec.init run")
        case False, True:
            return compose(", when the statements of the kept state run")
        case _:
            return compose("")


def _stalled(s: Snapshot, violation: Violation) -> Decision:
    """Waits in Pending, Stalled, until somebody acts; it is looked at again from time to time all the same."""
    status = with_phase(s.session, s.now, Phase.PENDING, violation.reason, violation.message, stalled=True)
    return Decision(
        status, events=new_events(s, "Warning", violation.reason, violation.message), requeue_after=STALLED_SECONDS
    )


def _waiting_for_pod(s: Snapshot, pod: PodFacts) -> Decision:
    known = _with_pod(s, pod)
    waits = _queue_of(s, pod)
    if waits is not None:
        return wait(s, Phase.STARTING, Reason.WAITING_IN_QUEUE, waits, driver=known)
    begun = known.admitted_time or pod.created
    age = (s.now - begun).total_seconds()
    limit = s.deadlines.driver_start_seconds + (0 if pod.started else s.deadlines.image_pull_seconds)
    for words, remedy, seconds, reason in (
        (pod.unschedulable, _MAKE_ROOM, s.deadlines.scheduling_seconds, Reason.UNSCHEDULABLE),
        (pod.image_problem, _OTHER_IMAGE, s.deadlines.image_pull_seconds, Reason.IMAGE_PULL_FAILED),
        (pod.container_problem, "", limit, Reason.CONTAINER_NOT_STARTED),
    ):
        if words is not None:
            problem = compose("{words}; {remedy}", words=words.rstrip("."), remedy=remedy) if remedy else words
            if age > seconds:
                return start_failed(s, Phase.PENDING, reason, problem, Command.DELETE_DRIVER)
            is_known = s.session.status.failed_starts > 0
            return wait(s, Phase.STARTING, reason, problem, stalled=is_known, driver=known)
    # One of a pool has been up for long; it is the session's since it was taken.
    since = known.start_time if known.pool_uid is not None else pod.started
    if (s.now - (since or begun)).total_seconds() > limit:
        message = compose(
            "the driver was not ready {limit:g} s after its start; see the logs of pod {name}",
            limit=limit,
            name=Name((pod.name,)),
        )
        return lost(s, Reason.DRIVER_NOT_READY, message, Command.DELETE_DRIVER)
    # One of a pool is bound again until it answers: a repetition changes nothing.
    commands = (Command.START_DRIVER,) if known.pool_uid is not None and s.gateway is None else ()
    return wait(s, Phase.STARTING, _start_reason(s), "waits for the driver to be ready", *commands, driver=known)


def _start_reason(s: Snapshot) -> Reason:
    """A start that ends a hibernation is told as such from the wish to the end."""
    return Reason.WAKING if ready_reason(s.session.status.conditions) == Reason.WAKING else Reason.DRIVER_STARTING


def _init_failed(s: Snapshot) -> Decision:
    failure = s.gateway.init_failure if s.gateway else None
    if failure is None:
        return settle(s, Phase.FAILED, Reason.INIT_FAILED, compose("an init statement failed"), Command.DELETE_DRIVER)
    error = failure.error.message
    if failure.frontend is not None:
        what = compose("spec.frontends of the class: {name} cannot serve", name=Name((failure.frontend,)))
        message = (
            f"{what}: {error}; put its package into the session image, or take it out of the class, and change "
            "spec.restartNonce"
        )
    elif failure.position == 0:
        what = compose("spec.database: its statement failed")
        message = (
            f"spec.database: {failure.statement} failed: {error}; name a database that can be used, or mend the catalog "
            "and change spec.restartNonce"
        )
    else:
        what = compose("spec.init: statement {number} failed", number=failure.position)
        message = f"{what}: {error} (statement: {failure.statement})"
    event = compose("{what}: {error}", what=what, error=error_summary(failure.error)).public
    return settle(s, Phase.FAILED, Reason.INIT_FAILED, message, Command.DELETE_DRIVER, event=event)


def _became_ready(s: Snapshot, pod: PodFacts) -> Decision:
    gateway, driver = s.gateway, s.session.status.driver
    assert gateway is not None and driver is not None
    lost = not_restored_conditions(s)
    ready = driver.replace(
        pod_uid=pod.uid,
        pod_ip=pod.ip,
        certificate=gateway.certificate,
        boot_id=gateway.boot_id,
        spark_version=gateway.spark_version,
        spark_application_id=gateway.spark_application_id,
    )
    status = with_phase(
        s.session,
        s.now,
        Phase.READY,
        Reason.READY,
        driver=ready,
        endpoints=_addresses(s.session),
        statements=statement_counts(s),
        clients=client_counts(s),
        executors=executors_status(s),
        last_activity_time=s.now,
        kept_state=None,
        failed_starts=0,
        extra=(*ready_conditions(s), *lost),
    )
    events = (Event.of("Normal", Reason.READY, _ready_message(s, pod)), *_lost_events(lost), *skew_events(s))
    return Decision(status, events=events, requeue_after=COUNTER_SECONDS)


def _ready_message(s: Snapshot, pod: PodFacts) -> Message:
    message, kept = compose("driver {name} is ready", name=Name((pod.name,))), s.session.status.kept_state
    if kept is None:
        return message
    return compose("{ready}; {ran} that had changed the session ran again", ready=message, ran=counted_statements(kept))


def _lost_events(lost: tuple[Condition, ...]) -> tuple[Event, ...]:
    return tuple(Event("Warning", Reason.SESSION_STATE_LOST, STATE_LOST) for _ in lost)


def ready_conditions(s: Snapshot) -> tuple[Condition, ...]:
    """Returns the conditions that a session with a driver has beside its own."""
    return (*hibernation_conditions(s), *skew_conditions(s), *executor_conditions(s), *_pool_conditions(s))


def _pool_conditions(s: Snapshot) -> tuple[Condition, ...]:
    """Says so while the class has a warm pool for the session's namespace and none of its drivers can be the session's."""
    if not s.pool_misfits:
        return ()
    message = (
        f"the session starts its own driver, no driver of the class's warm pool matches: {'; '.join(s.pool_misfits)}"
    )
    return (
        Condition(
            type=ConditionType.WARM_POOL,
            status=ConditionStatus.FALSE,
            reason=Reason.DOES_NOT_FIT_POOL,
            message=message,
        ),
    )


def _with_pod(s: Snapshot, pod: PodFacts) -> DriverStatus:
    """The driver with its pod's identity and, once a queue that held it has let it go, the time from which deadlines count."""
    driver = s.session.status.driver
    assert driver is not None
    was_queued = ready_reason(s.session.status.conditions) == Reason.WAITING_IN_QUEUE
    admitted = s.now if was_queued and _queue_of(s, pod) is None else driver.admitted_time
    return driver.replace(pod_uid=pod.uid, admitted_time=admitted)


def _addresses(session: SqlSession) -> EndpointStatus:
    """Returns where clients reach the driver that the session has.

    By what the driver was started with, and not by what the class says by now. An address is told only while something
    answers there: the names are stable, but a session without a driver has nobody behind them, and a client that finds
    no address knows that it has to wait.
    """
    metadata, on = session.metadata, open_endpoints(session.status.configuration)
    host = gateway_server_name(metadata.name, metadata.uid, metadata.namespace)
    return EndpointStatus(
        rest=f"https://{host}:{GATEWAY_PORT}" if on.rest else None,
        connect=f"sc://{host}:{on.connect_port}/;use_ssl=true" if on.connect else None,
        thrift=f"jdbc:hive2://{host}:{on.thrift_port}/default;ssl=true" if on.thrift else None,
        frontends=tuple(FrontendAddress(name=each.name, address=f"{host}:{each.port}") for each in on.frontends)
        or None,
    )


def _queue_of(s: Snapshot, pod: PodFacts) -> str | None:
    """What a pod that waits in a queue waits for; None if it is in none."""
    if pod.gates:
        words = f": {pod.queue_words}" if pod.queue_words is not None else ""
        held = f"a queue system holds pod {pod.name} back (scheduling gates: {', '.join(pod.gates)}){words}"
        return f"{held}; there is no deadline, the queue decides: see the queue's objects, or reduce the request"
    if pod.has_node or not _has_queue(s, pod):
        return None
    return f"pod {pod.name} waits for its place: {pod.unschedulable or 'the scheduler has given no reason yet'}"


def _has_queue(s: Snapshot, pod: PodFacts) -> bool:
    """Whether the pod goes through a queue: its scheduler is not the cluster's own, or its class names one by label."""
    labelled = isinstance(s.resolution, Resolved) and bool(s.resolution.effective.scheduling.queue_label)
    return labelled or pod.scheduler not in ("", _DEFAULT_SCHEDULER)
