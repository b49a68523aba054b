"""Spark's own Connect service inside the driver's JVM: started on loopback, given our sessions, asked about executions.

It is started through py4j and not as a plugin, so that its token never is in a session's settings, where `${...}` in any SQL
would show it. Nobody but the gateway has that token, so no session is made there that the gateway has not given.

The classes are Spark's internal ones, those of 4.1. All calls block.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import elements, option, scala_object
from sparksql.gateway.spark.shapes import JvmSession

_LOGGERS = "org.apache.spark.sql.connect"
PENDING_SECONDS = 10.0  # between Spark's listing an execution and starting it there are milliseconds
_PENDING_POLL_SECONDS = 0.02
_TOKEN_KEY = "spark.connect.authenticate.token"  # noqa: S105  a key's name


@dataclass(frozen=True)
class SessionKey:
    """Names a session as Connect does. Both parts are the client's choice."""

    user_id: str
    session_id: str


@dataclass(frozen=True)
class ExecutionKey:
    """Names an execution as Connect does."""

    session: SessionKey
    operation_id: str


class ExecutionState(Enum):
    """Tells how far Spark is, by its event status. One that is pending is listed and has not been started."""

    PENDING = auto()
    RUNNING = auto()
    FINISHED = auto()
    FAILED = auto()


@dataclass(frozen=True)
class Backend:
    """Reaches Spark's own Connect service. `token` is what an RPC to `port` needs."""

    driver: SparkDriver
    service: Any
    port: int
    token: str = field(repr=False)

    @classmethod
    def start(cls, driver: SparkDriver) -> Backend:
        """Starts the service. Raises what Spark raises when it cannot listen."""
        token = secrets.token_urlsafe(32)
        service = scala_object(driver.jvm.org.apache.spark.sql.connect.service, "SparkConnectService")
        conf = driver.jvm.org.apache.spark.SparkEnv.get().conf()
        conf.set(_TOKEN_KEY, token)
        try:
            service.start(driver.context._jsc.sc())
        finally:
            conf.remove(_TOKEN_KEY)
        # It logs the text of each error, in which there are names and values of the statement; clients are told it.
        log4j = driver.jvm.org.apache.logging.log4j
        log4j.core.config.Configurator.setLevel(_LOGGERS, log4j.Level.OFF)
        return cls(driver, service, int(service.localPort()), token)

    def adopt(self, key: SessionKey, session: JvmSession) -> None:
        """Makes a JVM session the one that Connect uses for this key."""
        holder = self._classes.SessionHolder(key.user_id, key.session_id, session)
        self.service.sessionManager().putSessionForTesting(holder)
        holder.initializeSession()

    def close_session(self, key: SessionKey) -> None:
        """Ends the session's executions and refuses its id from now on. Unknown ones change nothing."""
        name = self._classes.SessionKey(key.user_id, key.session_id)
        self.service.sessionManager().closeSession(name, False)

    def plan(self, key: SessionKey, relation: bytes) -> Any:
        """Returns the logical plan that Connect makes of a relation; one of SQL with references would be executed by this."""
        name = self._classes.SessionKey(key.user_id, key.session_id)
        holder = self.service.sessionManager().getIsolatedSessionIfPresent(name).get()
        planner = self.driver.jvm.org.apache.spark.sql.connect.planner.SparkConnectPlanner
        message = self.driver.jvm.org.apache.spark.connect.proto.Relation.parseFrom(relation)
        return planner(holder, scala_object(self.driver.jvm.scala, "None")).transformRelation(message)

    def states(self) -> dict[ExecutionKey, ExecutionState]:
        """Returns the states of all executions that Connect knows, also those whose results a client has yet to read."""
        holders = elements(self.service.executionManager().listExecuteHolders())
        return {_key(holder.key()): _state(holder) for holder in holders}

    def interrupt_meant(self, session: SessionKey, is_meant: Callable[[str, frozenset[str]], bool]) -> list[str]:
        """Interrupts those executions of a session that are meant, by operation id and the client's tags; returns their ids.

        One that is pending is waited for, PENDING_SECONDS at most: its interrupt would fail (IllegalStateException by
        ExecuteEventsManager, 4.1.4), and it would then neither start nor end.
        """
        interrupted = []
        for holder in elements(self.service.executionManager().listExecuteHolders()):
            key = _key(holder.key())
            if key.session == session and is_meant(
                key.operation_id, frozenset(map(str, elements(holder.sparkSessionTags())))
            ):
                deadline = time.monotonic() + PENDING_SECONDS
                while _state(holder) is ExecutionState.PENDING and time.monotonic() < deadline:
                    time.sleep(_PENDING_POLL_SECONDS)
                if holder.interrupt():
                    interrupted.append(key.operation_id)
        return interrupted

    def interrupt(self, key: ExecutionKey, reason: str) -> bool:
        """Does one round of stopping, of the thread and its jobs; returns whether more rounds are needed.

        One that is pending is left for the next round, see `interrupt_meant`.
        """
        holder = option(self.service.executionManager().getExecuteHolder(self._execute_key(key)))
        if holder is not None and _state(holder) is ExecutionState.PENDING:
            return True
        running = holder is not None and bool(holder.isExecuteThreadRunnerAlive())
        if holder is not None:
            holder.interrupt()
        self.driver.context._jsc.sc().cancelJobsWithTag(self._job_tag(key), reason)
        return running

    def _execute_key(self, key: ExecutionKey) -> Any:
        return self._classes.ExecuteKey(key.session.user_id, key.session.session_id, key.operation_id)

    def _job_tag(self, key: ExecutionKey) -> str:
        tag = scala_object(self._classes, "ExecuteJobTag")
        return str(tag.apply(key.session.user_id, key.session.session_id, key.operation_id))

    @property
    def _classes(self) -> Any:
        return self.driver.jvm.org.apache.spark.sql.connect.service


def _key(key: Any) -> ExecutionKey:
    return ExecutionKey(SessionKey(str(key.userId()), str(key.sessionId())), str(key.operationId()))


def _state(holder: Any) -> ExecutionState:
    match str(holder.eventsManager().status().toString()):
        case "Pending":
            return ExecutionState.PENDING
        case "Finished":
            return ExecutionState.FINISHED
        case "Failed" | "Canceled" | "Closed":
            return ExecutionState.FAILED
        case _:
            return ExecutionState.RUNNING
