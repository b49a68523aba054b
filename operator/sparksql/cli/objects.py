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
from sparksql.wire.control import Progress, ResultSummary, WireModel

STATEMENTS = f"sqlstatements.{GROUP}"
SESSIONS = f"sqlsessions.{GROUP}"
STATEMENT_KIND = "SqlStatement"


class Metadata(WireModel):
    name: str
    namespace: str
    uid: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None


class Condition(WireModel):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class Resource(WireModel):
    """What both kinds have in common."""

    metadata: Metadata

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The view of an object as decoded from JSON; CliError for another shape."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            fields = ", ".join(".".join(map(str, problem["loc"])) for problem in error.errors())
            raise CliError(f"the cluster's {cls.__name__} is not of a version this plugin knows: {fields}") from None

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace


class NameRef(WireModel):
    name: str


class StatementSpec(WireModel):
    session_ref: NameRef | None = None
    sql: str | None = None  # None with `sqlFrom`
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
    fragment: str | None = None


class StatementStatus(WireModel):
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
        return next((c for c in self.status.conditions if c.type == kind), None)

    def is_true(self, kind: str) -> bool:
        found = self.condition(kind)
        return found is not None and found.status == "True"

    @property
    def session_name(self) -> str:
        """Name of its session; empty for a dedicated one that is not made yet."""
        return self.status.session.name or (self.spec.session_ref.name if self.spec.session_ref else "")

    @property
    def is_dedicated(self) -> bool:
        return self.spec.session_ref is None

    @property
    def is_current(self) -> bool:
        """Whether the status answers the spec as it is now: after a new `runNonce` an old end is not an end."""
        return self.status.observed_generation >= self.metadata.generation

    @property
    def has_ended(self) -> bool:
        return self.is_current and self.is_true("Finished")

    @property
    def is_settled(self) -> bool:
        """Ended; or a streaming statement that runs well, does not take in a change, is stopped or parked: nothing more happens by itself."""
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
    pod_name: str = ""
    pod_uid: str = Field(default="", alias="podUID")


class SessionCounts(WireModel):
    running: int = 0
    queued: int = 0


class SessionClients(WireModel):
    sessions: int = 0


class SessionEndpoints(WireModel):
    """URLs inside the cluster; None for what is off."""

    rest: str | None = None
    connect: str | None = None
    thrift: str | None = None


class ConfigurationEntry(WireModel):
    name: str
    value: str = ""
    layer: str = ""


class SessionStatus(WireModel):
    phase: str = ""
    driver: SessionDriver = SessionDriver()
    statements: SessionCounts = SessionCounts()
    clients: SessionClients = SessionClients()
    endpoints: SessionEndpoints = SessionEndpoints()
    configuration: tuple[ConfigurationEntry, ...] = ()
    conditions: tuple[Condition, ...] = ()


class Session(Resource):
    """A SqlSession."""

    status: SessionStatus = SessionStatus()

    @property
    def reason(self) -> str:
        return next((c.reason for c in self.status.conditions if c.type == "Ready"), "")
