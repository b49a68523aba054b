"""Read-only views of the resources as the API server answers them.

Lenient on purpose: the plugin and the cluster are upgraded apart, so unknown fields are ignored and enum values are
plain strings. The field names are those of the resource contract.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

from pydantic import Field, ValidationError

from sparksql.api.execution import StatementMode
from sparksql.api.names import GROUP
from sparksql.cli.errors import CliError, Exit
from sparksql.wire.control import Progress, ResultSummary
from sparksql.wire.model import WireModel

STATEMENTS = f"sqlstatements.{GROUP}"
SESSIONS = f"sqlsessions.{GROUP}"
STATEMENT_KIND = "SqlStatement"


class Metadata(WireModel):
    """Holds the metadata of an object, as far as the commands read it."""

    name: str
    namespace: str
    uid: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None


class Condition(WireModel):
    """Holds a condition of an object."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class Resource(WireModel):
    """Holds what both kinds have in common."""

    metadata: Metadata

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The view of an object as decoded from JSON; CliError for another shape."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            fields = ", ".join(".".join(map(str, problem["loc"])) for problem in error.errors())
            raise CliError(
                f"the cluster's {cls.__name__} has a version that this plugin does not support: {fields}"
            ) from None

    @property
    def name(self) -> str:
        """Returns the object's name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Returns the object's namespace."""
        return self.metadata.namespace


class NameRef(WireModel):
    """Names another object in the same namespace."""

    name: str


class StatementSpec(WireModel):
    """Holds the spec of a statement, as far as the commands read it."""

    session_ref: NameRef | None = None
    sql: str | None = Field(default=None, repr=False)  # None with `sqlFrom`
    mode: StatementMode = StatementMode.EXECUTE
    streaming: dict[str, Any] | None = None


class StatementSession(WireModel):
    """The session that ran the statement, and the UID of the driver pod that did."""

    name: str = ""
    pod_uid: str = Field(default="", alias="podUID")


class StatementError(WireModel):
    """Spark's error: 1-based `line` and `position` in the statement's text, `fragment` the piece of SQL it is about."""

    condition: str | None = None
    sql_state: str | None = None
    message: str = ""
    line: int | None = None
    position: int | None = None
    fragment: str | None = Field(default=None, repr=False)


class StatementStatus(WireModel):
    """Holds the status of a statement, as far as the commands read it."""

    observed_generation: int = -1
    phase: str = ""
    operation_id: str | None = None
    session: StatementSession = StatementSession()
    statement_type: str | None = None
    duration_millis: int | None = None
    progress: Progress | None = None
    result: ResultSummary | None = None
    error: StatementError | None = None
    conditions: tuple[Condition, ...] = ()


class Statement(Resource):
    """A SqlStatement. `deleted` is ours: the object is gone, and this is what was last seen of it."""

    spec: StatementSpec
    status: StatementStatus = StatementStatus()
    deleted: bool = False

    def condition(self, kind: str) -> Condition | None:
        """Returns the condition of this type, None without one."""
        return next((c for c in self.status.conditions if c.type == kind), None)

    def is_true(self, kind: str) -> bool:
        """Tells whether the condition of this type is there and True."""
        found = self.condition(kind)
        return found is not None and found.status == "True"

    @property
    def session_name(self) -> str:
        """Name of its session; empty for a dedicated one that is not made yet."""
        return self.status.session.name or (self.spec.session_ref.name if self.spec.session_ref else "")

    @property
    def is_dedicated(self) -> bool:
        """Tells whether the statement runs in a session of its own."""
        return self.spec.session_ref is None

    @property
    def is_current(self) -> bool:
        """Tells whether the status answers the spec as it is now: after a new `runNonce` an old end is not an end."""
        return self.status.observed_generation >= self.metadata.generation

    @property
    def has_ended(self) -> bool:
        """Tells whether the run that the spec asks for is over."""
        return self.is_current and self.is_true("Finished")

    @property
    def is_settled(self) -> bool:
        """Tells whether nothing more happens by itself.

        So it is once the statement has ended; of a streaming statement also while it runs well and does not take in a
        change, is stopped, or is parked.
        """
        if self.has_ended or self.spec.streaming is None:
            return self.has_ended
        return self.is_current and (self.is_true("Ready") or self.is_true("Stalled"))

    @property
    def why(self) -> Condition:
        """The condition that explains the phase: what stalls it, else what it waits for, else how it ended."""
        for kind in ("Stalled", "Reconciling", "Finished", "Ready"):
            found = self.condition(kind)
            if found is not None and found.status == "True":
                return found
        return Condition(type="", status="Unknown")

    @property
    def exit_code(self) -> Exit:
        """The outcome of a settled or deleted statement."""
        match self.status.phase:
            case _ if self.deleted and not self.has_ended:
                return Exit.ERROR
            case "Finished":
                return Exit.FINISHED
            case "TimedOut":
                return Exit.TIMED_OUT
            case "Closed":
                return Exit.CLOSED
            case "Canceled":
                return Exit.CANCELED
            case "Running" | "Stopped" if not self.is_true("Stalled"):
                return Exit.FINISHED
            case _:
                return Exit.ERROR


class SessionDriver(WireModel):
    """Names the pod of a session's driver."""

    pod_name: str = ""
    pod_uid: str = Field(default="", alias="podUID")


class SessionCounts(WireModel):
    """Counts the statements of a session that have not ended."""

    running: int = 0
    queued: int = 0


class SessionClients(WireModel):
    """Counts the sessions that clients have in a driver."""

    sessions: int = 0


class SessionEndpoints(WireModel):
    """URLs inside the cluster; None for what is off."""

    rest: str | None = None
    connect: str | None = None
    thrift: str | None = None


class SessionExecutors(WireModel):
    """Tells why executors are missing."""

    message: str = ""


class ConfigurationEntry(WireModel):
    """Holds one value of a session's merged configuration, with the layer that it came from."""

    name: str
    value: str = Field(default="", repr=False)
    layer: str = ""


class SessionStatus(WireModel):
    """Holds the status of a session, as far as the commands read it."""

    phase: str = ""
    class_name: str = ""
    front: str | None = None
    driver: SessionDriver = SessionDriver()
    executors: SessionExecutors | None = None
    statements: SessionCounts = SessionCounts()
    clients: SessionClients = SessionClients()
    endpoints: SessionEndpoints = SessionEndpoints()
    configuration: tuple[ConfigurationEntry, ...] = ()
    conditions: tuple[Condition, ...] = ()


class SessionSpec(WireModel):
    """Holds the spec of a session, as far as the commands read it."""

    class_name: str | None = None
    endpoints: dict[str, bool] | None = None


class Session(Resource):
    """A SqlSession."""

    spec: SessionSpec = SessionSpec()
    status: SessionStatus = SessionStatus()

    @property
    def ready(self) -> Condition:
        """Returns the Ready condition, an empty one without it."""
        return next((c for c in self.status.conditions if c.type == "Ready"), Condition(type="Ready", status="Unknown"))

    @property
    def reason(self) -> str:
        """Returns the reason of the Ready condition, empty without one."""
        return self.ready.reason

    @property
    def open_endpoints(self) -> frozenset[str]:
        """Returns the names of the endpoints that are on.

        That is what a driver that is Ready serves; otherwise what the last driver was started with; before the first one
        what the spec says, of which REST is on by itself.
        """
        if self.status.phase == "Ready":
            return frozenset(name for name, url in self.status.endpoints if url)
        if self.status.configuration:
            on = {entry.name for entry in self.status.configuration if entry.value == "true"}
            return frozenset(name for name in SessionEndpoints.model_fields if f"endpoints.{name}" in on)
        asked = {"rest": True, **(self.spec.endpoints or {})}
        return frozenset(name for name, is_on in asked.items() if is_on)
