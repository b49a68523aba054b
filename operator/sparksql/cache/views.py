"""Typed readings of the objects in the store, which are raw: the one place that knows names of fields and defaults of the API.

Nothing is parsed or checked: indexes and queues read a thousand objects where a decision parses one. A view is made
where it is used, and costs a third of a microsecond. The CRDs say which objects are valid; a field that was not set has
the API's default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sparksql.api.conditions import ConditionStatus, ConditionType
from sparksql.api.execution import StatementMode
from sparksql.api.names import FINALIZER, dedicated_session_name
from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase, SavepointSource, SqlSavepointSpec
from sparksql.api.session import SessionDesiredState, SessionPhase, SqlSessionSpec
from sparksql.api.statement import SqlStatementSpec, StatementDesiredState
from sparksql.domain.admission import order
from sparksql.domain.statement.phases import ENDED, HANDED_OVER

Object = dict[str, Any]
Fields = Mapping[str, Any]

_ENDED = frozenset(phase.value for phase in ENDED)
_HANDED_OVER = frozenset(phase.value for phase in HANDED_OVER)
_OVER = frozenset(phase.value for phase in SavepointPhase if phase.is_terminal)
_MODE: StatementMode = SqlStatementSpec.model_fields["mode"].default
_PRIORITY: int = SqlStatementSpec.model_fields["priority"].default
_STATEMENT_STATE: StatementDesiredState = SqlStatementSpec.model_fields["desired_state"].default
_SESSION_STATE: SessionDesiredState = SqlSessionSpec.model_fields["desired_state"].default
_SOURCE: SavepointSource = SqlSavepointSpec.model_fields["source"].default
_NOTHING: Fields = {}


class ObjectView:
    """Reads an object of any kind. `created` is the API server's RFC 3339 text, whose order is that of time."""

    __slots__ = ("_metadata", "_spec", "_status")

    def __init__(self, obj: Object) -> None:
        # Properties that look these up would double what a sort of a long queue costs.
        self._metadata: Fields = obj["metadata"]
        self._spec: Fields = obj.get("spec", _NOTHING)
        self._status: Fields = obj.get("status", _NOTHING)

    @property
    def name(self) -> str:
        """Returns the object's name."""
        name: str = self._metadata["name"]
        return name

    @property
    def namespace(self) -> str:
        """Returns the object's namespace, empty for one of a cluster-scoped kind."""
        namespace: str = self._metadata.get("namespace", "")
        return namespace

    @property
    def created(self) -> str:
        """Returns the time of creation as RFC 3339 text."""
        created: str = self._metadata["creationTimestamp"]
        return created

    @property
    def is_deleting(self) -> bool:
        """Tells whether the object's deletion has been asked for."""
        return "deletionTimestamp" in self._metadata

    @property
    def labels(self) -> Mapping[str, str]:
        """Returns the object's labels, empty without any."""
        labels: Mapping[str, str] = self._metadata.get("labels") or {}
        return labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """Returns the object's annotations, empty without any."""
        annotations: Mapping[str, str] = self._metadata.get("annotations") or {}
        return annotations

    @property
    def phase(self) -> str | None:
        """Returns the phase in the status, None for an object that the operator has not seen yet."""
        phase: str | None = self._status.get("phase")
        return phase

    @property
    def ready_reason(self) -> str:
        """Returns the reason of the Ready condition, empty without one."""
        reason: str = self._condition(ConditionType.READY).get("reason", "")
        return reason

    @property
    def is_stalled(self) -> bool:
        """Tells whether the object waits for a person: its condition Stalled is True."""
        return bool(self._condition(ConditionType.STALLED).get("status") == ConditionStatus.TRUE)

    def _condition(self, type_: ConditionType) -> Fields:
        conditions: Sequence[Fields] = self._status.get("conditions", ())
        for condition in conditions:
            if condition.get("type") == type_:
                return condition
        return _NOTHING


class StatementView(ObjectView):
    """Reads a SqlStatement."""

    __slots__ = ()

    @property
    def session_name(self) -> str:
        """Returns the name of the session that the statement uses: the one it names or the one it owns."""
        ref = self._spec.get("sessionRef")
        return str(ref["name"]) if ref else dedicated_session_name(self.name, self._metadata["uid"])

    @property
    def owns_session(self) -> bool:
        """Tells whether the statement's session is a dedicated one; the template of that may be empty."""
        return self._spec.get("session") is not None

    @property
    def is_stream(self) -> bool:
        """Tells whether the statement runs until it is stopped, as `domain.statement.stream.spec.is_stream` does."""
        is_streaming = self._spec.get("streaming") is not None
        return is_streaming and bool(self._spec.get("mode", _MODE) == StatementMode.EXECUTE)

    @property
    def is_wanted(self) -> bool:
        """Tells whether the statement is to run: desiredState Running, and not being deleted."""
        state = self._spec.get("desiredState", _STATEMENT_STATE)
        return bool(state == StatementDesiredState.RUNNING) and not self.is_deleting

    @property
    def queue_order(self) -> tuple[int, str, str]:
        """Returns the statement's sort key in the queue of its session."""
        metadata = self._metadata
        return order(self._spec.get("priority", _PRIORITY), metadata["creationTimestamp"], metadata["name"])

    @property
    def depends_on(self) -> tuple[str, ...]:
        """Returns the names of the statements that this one waits for."""
        return tuple(dependency["name"] for dependency in self._spec.get("dependsOn", ()))

    @property
    def start_from(self) -> str | None:
        """Returns the name of the savepoint that the statement starts from, None without one."""
        start = (self._spec.get("streaming") or _NOTHING).get("startFrom")
        return str(start["savepointRef"]["name"]) if start else None

    @property
    def is_saved_by_schedule(self) -> bool:
        """Tells whether the statement has a schedule of savepoints that is not paused."""
        savepoints = (self._spec.get("streaming") or _NOTHING).get("savepoints") or _NOTHING
        schedule = savepoints.get("schedule") or _NOTHING
        return bool(schedule) and not schedule.get("paused", False)

    @property
    def has_ended(self) -> bool:
        """Tells whether the statement's run is over: its phase is an end."""
        return self.phase in _ENDED

    @property
    def is_settled(self) -> bool:
        """Tells whether a reconcile would find nothing to do: the statement has ended, and its status says so of this spec.

        No other object and no time makes a difference. False where that is not certain, as for all that stream.
        """
        metadata, spec, status = self._metadata, self._spec, self._status
        return (
            self.has_ended
            and not self.is_deleting
            and FINALIZER in metadata.get("finalizers", ())
            and status.get("observedGeneration") == metadata.get("generation")
            and status.get("observedRunNonce", "") == spec.get("runNonce", "")
            and not any(name in spec for name in ("ttlSecondsAfterFinished", "session", "streaming"))
        )

    @property
    def is_handed_over(self) -> bool:
        """Tells whether the current attempt is with a driver: Pending or Running."""
        return self.phase in _HANDED_OVER

    @property
    def operation_id(self) -> str:
        """Returns the id of the attempt that was handed over, empty without one."""
        return str(self._status.get("operationId") or "")

    @property
    def pod_uid(self) -> str:
        """Returns the UID of the driver pod that the attempt was handed to, empty without one."""
        return str(self._status.get("session", _NOTHING).get("podUID", ""))

    @property
    def lost_drivers(self) -> tuple[str, ...]:
        """Returns the names of the pods of drivers that were lost with the statement in their hands."""
        return tuple(self._status.get("lostDrivers", ()))

    @property
    def next_attempt_time(self) -> datetime | None:
        """Returns the time before which no attempt is made, None when there is no such time."""
        due = self._status.get("nextAttemptTime")
        return datetime.fromisoformat(due) if due is not None else None

    @property
    def met_dependencies(self) -> tuple[str, ...]:
        """Returns the names of the dependencies that were met, also those whose objects are gone by now."""
        return tuple(self._status.get("metDependencies", ()))

    @property
    def has_committed(self) -> bool:
        """Tells whether this is a streaming statement that has committed a batch in its current run."""
        return self._streaming.get("committedBatchId") is not None

    @property
    def checkpoint_location(self) -> str | None:
        """Returns the location of the query's checkpoint, None while it is not fixed."""
        location: str | None = self._streaming.get("checkpointLocation")
        return location

    @property
    def restored_from(self) -> Fields | None:
        """Returns the savepoint that the statement's state came from, None without one."""
        restored: Fields | None = self._streaming.get("restoredFrom")
        return restored

    @property
    def last_savepoint(self) -> Fields | None:
        """Returns the newest savepoint of the statement that is complete (name, location and time), None without one."""
        last: Fields | None = self._streaming.get("lastSavepoint")
        return last

    @property
    def _streaming(self) -> Fields:
        return self._status.get("streaming") or _NOTHING


class SessionView(ObjectView):
    """Reads a SqlSession."""

    __slots__ = ()

    @property
    def class_name(self) -> str | None:
        """Returns the name of the session's class, None when it takes the cluster's default class."""
        return self._spec.get("className") or None

    @property
    def is_wanted(self) -> bool:
        """Tells whether the session is to have a driver: desiredState Running, and not being deleted."""
        state = self._spec.get("desiredState", _SESSION_STATE)
        return bool(state == SessionDesiredState.RUNNING) and not self.is_deleting

    @property
    def is_over_limit(self) -> bool:
        """Tells whether a limit keeps the session from starting: of sessions, or of what one session asks for."""
        return self.phase == SessionPhase.PENDING and self.ready_reason == Reason.LIMIT_EXCEEDED

    @property
    def executors_awaited(self) -> str | None:
        """Returns what a session without a single executor waits for, None if it has one or they start as they should."""
        executors = self._status.get("executors", _NOTHING)
        return None if executors.get("ready") else executors.get("message")

    @property
    def boot_id(self) -> str | None:
        """Returns the boot id of the driver process that serves the session, None without one."""
        boot_id: str | None = self._status.get("driver", _NOTHING).get("bootId")
        return boot_id

    @property
    def pool_driver_since(self) -> datetime | None:
        """Returns when the session has taken its driver from a warm pool, None if it has none from there."""
        driver = self._status.get("driver", _NOTHING)
        since = driver.get("startTime") if driver.get("poolUID") else None
        return None if since is None else datetime.fromisoformat(since)


class SavepointView(ObjectView):
    """Reads a SqlSavepoint."""

    __slots__ = ()

    @property
    def statement_name(self) -> str:
        """Returns the name of the statement that the savepoint belongs to."""
        return str(self._spec["statementRef"]["name"])

    @property
    def is_over(self) -> bool:
        """Tells whether the savepoint is complete or given up."""
        return self.phase in _OVER

    @property
    def needs_driver(self) -> bool:
        """Tells whether a driver makes the savepoint now, or would if there was one."""
        waits = self.ready_reason == Reason.SESSION_NOT_READY
        return not self.is_deleting and (self.phase == SavepointPhase.IN_PROGRESS or waits)

    @property
    def owns_data(self) -> bool:
        """Tells whether the savepoint's data are its own; what an adopted one holds may be another one's as well."""
        return SavepointSource(self._spec.get("source", _SOURCE)).owns_data

    @property
    def size_bytes(self) -> int:
        """Returns the size of the data in bytes, 0 while it is unknown."""
        return int(self._status.get("sizeBytes", 0))
