"""The RPCs of Spark Connect: each is read, checked, given its session and its turn, and forwarded.

Only what is here exists. Invariants: nothing of a client's is decoded on the event loop (see `decoding`); nothing is forwarded
that has not been read and passed by the policy; nothing for a session that is not ours; no execution without its turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
from pyspark.sql.connect.proto import base_pb2 as wire
from pyspark.sql.connect.proto import relations_pb2 as relations

from sparksql.gateway.frontends.connect import artifacts, interrupts, sql, writes
from sparksql.gateway.frontends.connect.backend import Backend, ExecutionKey, SessionKey
from sparksql.gateway.frontends.connect.decoding import Decoder
from sparksql.gateway.frontends.connect.errors import (
    ConnectError,
    malformed,
    session_closed,
    stopped,
)
from sparksql.gateway.frontends.connect.executions import Asked, Execution, Executions
from sparksql.gateway.frontends.connect.plans import Findings, decode, read_analyze, read_execute, statement_relation
from sparksql.gateway.frontends.connect.requests import name_user, operation_id, properties, session_key
from sparksql.gateway.frontends.connect.sessions import ConnectSessions
from sparksql.gateway.frontends.connect.settings import read_config, without_secrets
from sparksql.gateway.frontends.connect.upstream import SparkError, Upstream
from sparksql.gateway.sessions.model import ClientError
from sparksql.gateway.sessions.service import SessionService
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.shapes import JvmSession
from sparksql.gateway.sql import source_options
from sparksql.gateway.sql.kinds import Kind
from sparksql.wire.driver import SqlPolicy
from sparksql.wire.failure.sql_states import main_condition

# A quiet stream is ended so early that nothing between client and gateway cuts it; the client reattaches.
WAIT_SECONDS = 50.0
BEGIN_SECONDS = 3.0  # a statement that runs tells of its progress every two seconds
_SESSION_CLOSED = "the client's session was closed"
OF_THE_STREAM = frozenset(
    {"INVALID_HANDLE", "INVALID_CURSOR"}
)  # all that Connect's server has about how answers are read
_COMPLETE_BYTES = 1024  # the message that ends a result holds four ids and is never larger


@dataclass(frozen=True)
class _Passed:
    """Describes a plan that the policy has passed.

    `kind` is what its SQL command is, None without one; `local`: it needs no executor; `targets` tells what it writes.
    """

    kind: Kind | None
    local: bool = False
    targets: Callable[[], frozenset[str]] = frozenset

    @property
    def is_query(self) -> bool:
        """A SQL command that is a query is only made into a relation: it executes nothing."""
        return self.kind is not None and self.kind.query

    @property
    def statement_type(self) -> str | None:
        return None if self.kind is None else self.kind.type


class ConnectProxy:
    """Serves Spark Connect: checks each request and hands it to Spark's own service. Belongs to the event loop."""

    def __init__(
        self,
        service: SessionService,
        policy: SqlPolicy,
        backend: Backend,
        upstream: Upstream,
        sessions: ConnectSessions,
        executions: Executions,
        decoder: Decoder,
    ) -> None:
        self._service = service
        self._policy = policy
        self._backend = backend
        self._upstream = upstream
        self._sessions = sessions
        self._executions = executions
        self._decoder = decoder

    async def execute(self, data: bytes, context: Any, release: Callable[[], None]) -> None:
        """Answers ExecutePlan: has a plan checked, waits for its turn, and streams its result.

        `release` gives back what the request has taken of its caller's share: statements that wait have a bound of their own.
        Raises ConnectError, StatementError, or SparkError.
        """
        request, findings = await self._decoder.run(read_execute, data)
        del data
        name_user(request)
        request.operation_id = operation_id(request.operation_id or str(uuid.uuid4()))
        handle = await self._session(request, context)
        with self._service.using(handle):
            execution, forwarded = await self._admit(handle, request, findings)
            del request, findings  # the stream may be long
            if execution is None or execution.forwarded:  # of one that it has already, Spark says so
                await self._upstream.relay("ExecutePlan", forwarded, context, self._record_activity(handle))
            else:
                del forwarded
                release()
                await self._take_turn(execution, context)

    async def _admit(
        self, handle: str, request: wire.ExecutePlanRequest, findings: Findings
    ) -> tuple[Execution | None, bytes]:
        """Checks a plan and queues its statement, None for one that executes nothing. Returns it and what Spark is given."""
        key = session_key(request)
        passed = await self._check(handle, key, request, findings)
        name = ExecutionKey(key, request.operation_id)
        execution = self._executions.find(name)
        forwarded = _bytes(request)
        if execution is None and not findings.immediate and not passed.is_query:
            asked = Asked(
                key=name,
                request=forwarded,
                reattach=_reattach(request),
                tags=frozenset(request.tags),
                reattachable=_is_reattachable(request),
                targets=passed.targets,
                local=passed.local,
            )
            execution = self._executions.admit(asked, handle, passed.statement_type or findings.statement_type)
        return execution, forwarded

    async def reattach(self, data: bytes, context: Any, _release: Callable[[], None]) -> None:
        """Answers ReattachExecute: goes on with the stream of a statement, or waits on for its turn.

        Raises ConnectError, or SparkError.
        """
        request = await self._decoder.run(decode, wire.ReattachExecuteRequest, data)
        name_user(request)
        key = session_key(request)
        request.operation_id = operation_id(request.operation_id)
        handle = self._sessions.known(key)
        execution = self._executions.find(ExecutionKey(key, request.operation_id))
        with self._service.using(handle):
            if execution is None:
                await self._upstream.relay("ReattachExecute", _bytes(request), context, self._record_activity(handle))
            elif not execution.forwarded:
                await self._take_turn(execution, context)
            else:
                await self._stream(execution, "ReattachExecute", _bytes(request), context)

    async def analyze(self, data: bytes, context: Any) -> bytes:
        """Answers AnalyzePlan with what Spark says of a plan that the policy has passed.

        Raises ConnectError, StatementError, or SparkError.
        """
        request, findings = await self._decoder.run(read_analyze, data)
        name_user(request)
        handle = await self._session(request, context)
        with self._service.using(handle):
            await self._check(handle, session_key(request), None, findings)
            return await self._upstream.unary("AnalyzePlan", _bytes(request), context)

    async def config(self, data: bytes, context: Any) -> bytes:
        """Answers Config; values that look like secrets are hidden."""
        request = await self._decoder.run(read_config, data, self._policy)
        name_user(request)
        with self._service.using(await self._session(request, context)):
            return without_secrets(await self._upstream.unary("Config", _bytes(request), context))

    async def add_artifacts(self, messages: AsyncIterator[bytes], context: Any) -> bytes:
        """Answers AddArtifacts: hands on what may be uploaded, which is local data alone.

        Raises ConnectError for anything else and for an empty request, or SparkError.
        """
        requests = artifacts.checked(messages, self._decoder)
        first = await anext(requests, None)
        if first is None:
            raise malformed("the request holds no artifact")
        name_user(first)
        with self._service.using(await self._session(first, context)):
            return await self._upstream.upload("AddArtifacts", _serialised(first, requests), context)

    async def artifact_status(self, data: bytes, context: Any) -> bytes:
        """Answers ArtifactStatus, for artifacts that may be uploaded. Raises ConnectError for others, or SparkError."""
        request = await self._decoder.run(decode, wire.ArtifactStatusesRequest, data)
        name_user(request)
        for name in request.names:
            artifacts.check_name(name)
        await self._session(request, context)
        return await self._upstream.unary("ArtifactStatus", _bytes(request), context)

    async def interrupt(self, data: bytes, context: Any) -> bytes:
        """Answers Interrupt: cancels statements that wait as well as those that Spark runs."""
        request = await self._decoder.run(decode, wire.InterruptRequest, data)
        name_user(request)
        await self._session(request, context)
        response = wire.InterruptResponse.FromString(
            await self._upstream.unary("Interrupt", _bytes(interrupts.of_nothing(request)), context)
        )
        is_meant = partial(interrupts.is_meant, request)
        response.interrupted_ids.extend(await self._executions.interrupt(session_key(request), is_meant))
        return _bytes(response)

    async def release_execute(self, data: bytes, context: Any) -> bytes:
        """Answers ReleaseExecute: cancels a statement that the client lets go of as a whole.

        Raises ConnectError, or SparkError.
        """
        request = await self._decoder.run(decode, wire.ReleaseExecuteRequest, data)
        name_user(request)
        key = session_key(request)
        self._sessions.known(key)
        request.operation_id = operation_id(request.operation_id)
        execution = self._executions.find(ExecutionKey(key, request.operation_id))
        if execution is not None and request.HasField("release_all"):
            self._executions.cancel(execution)
        return await self._upstream.unary("ReleaseExecute", _bytes(request), context)

    async def release_session(self, data: bytes, context: Any) -> bytes:
        """Answers ReleaseSession: stops the session's statements and closes it. Raises ConnectError, or SparkError."""
        request = await self._decoder.run(decode, wire.ReleaseSessionRequest, data)
        name_user(request)
        may_return = request.allow_reconnect
        # For Spark the name stays closed until a new session is put there: it must never make one itself.
        request.allow_reconnect = False
        # Spark would cut the streams of statements without saying why, and cannot close one that is just starting.
        await self._executions.stop_all(session_key(request), _SESSION_CLOSED)
        try:
            return await self._upstream.unary("ReleaseSession", _bytes(request), context)
        finally:
            await self._sessions.release(session_key(request), may_return=may_return)

    async def fetch_error_details(self, data: bytes, context: Any) -> bytes:
        """Answers FetchErrorDetails with what Spark kept of an error, for a session in use.

        Raises ConnectError, or SparkError.
        """
        request = await self._decoder.run(decode, wire.FetchErrorDetailsRequest, data)
        name_user(request)
        self._sessions.known(session_key(request))
        return await self._upstream.unary("FetchErrorDetails", _bytes(request), context)

    async def clone_session(self, data: bytes, context: Any) -> bytes:
        """Refuses CloneSession. Raises ConnectError."""
        raise ConnectError(
            grpc.StatusCode.UNIMPLEMENTED, "a session cannot be cloned over this gateway; open a new one instead"
        )

    async def _session(self, request: Any, context: Any) -> str:
        user = request.user_context
        return await self._sessions.handle(session_key(request), user.user_name or user.user_id, properties(context))

    async def _check(
        self, handle: str, key: SessionKey, request: wire.ExecutePlanRequest | None, findings: Findings
    ) -> _Passed:
        """Takes what the plan holds through the policy, and makes a DROP TABLE complete. Raises StatementError, ConnectError."""

        def check(driver: SparkDriver, session: JvmSession) -> _Passed:
            statement = sql.check_statement(driver, session, self._policy, findings) if findings.has_sql else None
            kind = None if statement is None else statement.kind
            local = statement is not None and statement.local
            if request is not None and request.plan.root.WhichOneof("rel_type") == "sql":
                local = _without_executor(driver, session, request.plan.root.sql)
            if request is not None and kind is not None and kind.type == "DROP TABLE":
                _purge(driver, session, request)
            if request is None or not writes.may_write(request, kind):
                return _Passed(kind, local)
            return _Passed(kind, local, partial(writes.targets, self._backend, key, session, request))

        for options in findings.options:
            source_options.check_options(options, self._policy)
        if not findings.has_sql and not findings.writes:  # of a command such as SHOW the rows are in the request
            return _Passed(None, request is not None and request.plan.root.WhichOneof("rel_type") == "local_relation")
        try:
            return await self._service.read_text(handle, check)
        except ClientError:
            raise session_closed(key.session_id) from None

    def _record_activity(self, handle: str) -> Callable[[bytes], None]:
        """Whoever reads a result uses the session."""

        def seen(message: bytes) -> None:
            with contextlib.suppress(ClientError):
                self._service.session(handle)

        return seen

    async def _take_turn(self, execution: Execution, context: Any) -> None:
        """Waits for the statement's turn, then is its stream; ends early and without a result to be come back to."""
        execution.attach()
        try:
            try:
                limit = WAIT_SECONDS if execution.asked.reattachable else None
                await asyncio.wait_for(execution.turn.wait(), limit)
            except TimeoutError:
                return
            if execution.stop_reason is not None:
                raise stopped(execution.stop_reason)
            if execution.forwarded:
                await self._stream(execution, "ReattachExecute", execution.asked.reattach, context)
            else:
                await self._stream(execution, "ExecutePlan", execution.take_request(), context)
        finally:
            execution.detach()

    async def _stream(self, execution: Execution, method: str, request: bytes, context: Any) -> None:
        record_activity = self._record_activity(execution.handle)

        # Spark takes a statement that is asked for again before it has started for one without a thread, and ends it.
        if method == "ReattachExecute" and not execution.begun.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(execution.begun.wait(), BEGIN_SECONDS)

        def seen(message: bytes) -> None:
            execution.begun.set()
            record_activity(message)
            if len(message) <= _COMPLETE_BYTES and wire.ExecutePlanResponse.FromString(message).HasField(
                "result_complete"
            ):
                self._executions.end(execution, None)

        try:
            await self._upstream.relay(method, request, context, seen)
        except SparkError as error:
            told = error.told
            of_stream = main_condition(told.condition) in OF_THE_STREAM
            if told.has_details and not of_stream:
                self._executions.end(execution, error.operation_error)
            if execution.stop_reason is not None:
                raise stopped(execution.stop_reason) from None
            if of_stream and not self._sessions.is_open(execution.asked.key.session):
                raise stopped(_SESSION_CLOSED) from None  # Spark says only that the stream was cut
            raise


def _purge(driver: SparkDriver, session: JvmSession, request: wire.ExecutePlanRequest) -> None:
    command, relation = request.plan.command.sql_command, statement_relation(request)
    if relation is not None:
        relation.query = sql.with_purge(driver, session, relation.query)
    else:
        command.sql = sql.with_purge(driver, session, command.sql)


def _without_executor(driver: SparkDriver, session: JvmSession, relation: relations.SQL) -> bool:
    """Whether a query needs no executor; its text is then one for which Spark plans none."""
    if len(relation.ListFields()) > 1:  # with arguments its text is not all of it
        return False
    text = sql.without_executor(driver, session, relation.query)
    relation.query = text or relation.query
    return text is not None


def _is_reattachable(request: wire.ExecutePlanRequest) -> bool:
    return any(option.reattach_options.reattachable for option in request.request_options)


async def _serialised(
    first: wire.AddArtifactsRequest, others: AsyncIterator[wire.AddArtifactsRequest]
) -> AsyncIterator[bytes]:
    yield _bytes(first)
    async for request in others:
        name_user(request)
        yield _bytes(request)


def _reattach(request: wire.ExecutePlanRequest) -> bytes:
    return _bytes(
        wire.ReattachExecuteRequest(
            session_id=request.session_id, user_context=request.user_context, operation_id=request.operation_id
        )
    )


def _bytes(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data
