"""Everything a decision about one session looks at, and everything it may ask for. Frozen; made by the controller."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from sparksql.api.session import SqlSession, SqlSessionStatus
from sparksql.domain.event import Event
from sparksql.domain.session.resolve import Resolved
from sparksql.domain.violation import Violation
from sparksql.wire.control import GatewayInfo


class Deadlines(BaseModel):
    """Bounds the seconds that a session may wait in each way before it gives up: the Helm values `operator.deadlines`.

    `termination_seconds` counts from the end of a deleted pod's grace period, at which a kubelet that works has killed
    it. A minute is time for it to say so, also if it was restarted meanwhile; and twice what the next driver waits for
    the mark of a checkpoint.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid")

    scheduling_seconds: float = Field(300, gt=0)  # for a node
    image_pull_seconds: float = Field(300, gt=0)
    driver_start_seconds: float = Field(180, gt=0)
    drain_seconds: float = Field(300, ge=0)  # for running statements to end
    termination_seconds: float = Field(60, ge=0)


@dataclass(frozen=True)
class PodFacts:
    """Describes the driver pod as Kubernetes sees it.

    `end_due` is the end of its grace period once it is deleted; `gates` are the names of what keeps schedulers from
    looking at it; `ended` tells how its container ended, once it has.
    """

    name: str
    uid: str
    created: datetime
    end_due: datetime | None = None
    ip: str | None = None
    gates: tuple[str, ...] = ()
    queue_words: str | None = None  # the last Event of a pod that gates hold back
    scheduler: str = ""
    has_node: bool = True
    unschedulable: str | None = None
    image_problem: str | None = None
    container_problem: str | None = None  # why else the kubelet does not start a container
    started: datetime | None = None  # the container's start
    ended: str | None = None

    @property
    def deleting(self) -> bool:
        """Tells whether the pod's deletion has been asked for."""
        return self.end_due is not None


def has_outlived(pod: PodFacts, now: datetime, seconds: float) -> bool:
    """Tells whether a deleted pod is still there although its grace period is over for more than `seconds`: nobody ends it."""
    return pod.end_due is not None and (now - pod.end_due).total_seconds() > seconds


@dataclass(frozen=True)
class PodEnd:
    """Tells of the end of a driver's container, which was seen.

    `disruption` is the reason for which the cluster took the pod away, as for a node that is drained; None if it was no
    such thing.
    """

    disruption: str | None = None


@dataclass(frozen=True)
class ExecutorFailure:
    """Describes an executor that ended by itself with an error. `end` has the kubelet's reason and the exit code."""

    pod_name: str
    time: datetime
    end: str
    out_of_memory: bool = False


@dataclass(frozen=True)
class WarmDriver:
    """Names a driver of the class's pool that fits the session and is kept for it. `uid` is what its pods' labels carry."""

    pod_name: str
    pod_uid: str
    uid: str


@dataclass(frozen=True)
class Snapshot:
    """Holds the facts at one moment.

    `pod` is the pod of `status.driver`, None only when a live read has confirmed that it is gone; `gateway` is the last
    word of that driver, also when it is gone by now, and `pod_end` the end of its container, None unless that was seen.

    `running` and `queued` count SqlStatement objects, `streams` of `running` those that run until they are stopped,
    `resting` streams that are Stopped, and `savepoints` those under way in the driver or waiting for one; clients'
    statements are in the driver's own counts. `in_hand` counts those that the driver of `status.driver` has in its hands,
    or had when it was lost, also where a statement has noted that first. `limit_violation` is the limit of sessions that
    leaves none for this one; `pool_misfits` are the fields for which no driver of the class's warm pool fits; `front` is the
    front's host; `executors` are the pods of the driver's executors, `executor_failures` those that failed within the last hour,
    `executor_refusal` is the API server's answer to another one; `start_blocker` is what stopped the driver from being made
    in this very pass (quota, a missing claim, a foreign child). `not_applied` are the fields that have no effect in local mode.
    """

    now: datetime
    session: SqlSession
    resolution: Resolved | Violation
    pod: PodFacts | None = None
    gateway: GatewayInfo | None = None
    pod_end: PodEnd | None = None
    running: int = 0
    queued: int = 0
    streams: int = 0
    resting: int = 0
    in_hand: int = 0
    savepoints: int = 0
    limit_violation: Violation | None = None
    warm: WarmDriver | None = None
    pool_misfits: tuple[str, ...] = ()
    executors: tuple[PodFacts, ...] = ()
    executor_failures: tuple[ExecutorFailure, ...] = ()
    executor_refusal: Violation | None = None
    namespace_terminating: bool = False
    start_blocker: Violation | None = None
    deadlines: Deadlines = field(default_factory=Deadlines)
    max_restarts: int = 3
    front: str | None = None
    not_applied: tuple[str, ...] = ()

    @property
    def is_pod_given_up(self) -> bool:
        """Tells whether the session waits for its pod no more: deleted, and on a node where nobody ends it. It may still run."""
        return self.pod is not None and has_outlived(self.pod, self.now, self.deadlines.termination_seconds)


class Command(Enum):
    """Lists what a decision may have done to the session's driver."""

    START_DRIVER = (
        auto()
    )  # make the children and the pod of `status.driver.incarnation`, or bind that of a pool; idempotent
    DRAIN_DRIVER = auto()  # have the driver of `status.driver` take no new statement, from anybody
    KEEP_STATE = auto()  # write what the driver's `SessionState` holds into the session's Secret for it; idempotent
    DELETE_DRIVER = auto()  # delete the pod of `status.driver` with the drain grace


@dataclass(frozen=True)
class Decision:
    """Says what to do, in this order: finalizer on, status written, commands, finalizer off. `requeue_after` in seconds."""

    status: SqlSessionStatus
    commands: tuple[Command, ...] = ()
    finalizer: bool = True
    events: tuple[Event, ...] = ()
    requeue_after: float | None = None
