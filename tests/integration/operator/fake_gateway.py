"""A gateway without Spark: the whole control protocol of `sparksql.wire.control`, with statements whose words say what they do.

| text | what happens |
|---|---|
| SELECT, SHOW, DESCRIBE, EXPLAIN ... | a read: ends at once with one row |
| any other first word | an effect: written into the ledger when it runs |
| ... QUEUE | waits in the gateway (Pending) until the statement is released |
| ... HOLD | runs until the statement is released |
| ... SLEEP 2 | runs for two seconds |
| ... FAIL | ends in Error with Spark's condition `FAILED` |
| ... WIDE | has a result whose view is larger than 128 KiB |
| ... STUBBORN | does not end when it is canceled |

Streaming statements have words of their own, see `fake_streams`; savepoints are in `fake_savepoints`.

Everything that ever ran is in the ledger, which outlives the gateway: what ran twice is seen there.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from sparksql.wire.binding import BindRequest
from sparksql.wire.control import (
    CancelRequest,
    ErrorBody,
    Event,
    GatewayInfo,
    GatewayState,
    OperationError,
    OperationState,
    OperationView,
    SubmitRequest,
)
from sparksql.wire.driver import DriverConfig
from sparksql.wire.versions import OLDEST_OPERATOR, PROTOCOL_VERSION
from tests.integration.operator.fake_answers import Refused, answer, init_failure, kept_state, of_later_version, result
from tests.integration.operator.fake_savepoints import DriverSavepoints, Savepoints
from tests.integration.operator.fake_streams import Checkpoints, look, query, starts

READS = ("SELECT", "SHOW", "DESCRIBE", "EXPLAIN")
HEARTBEAT_SECONDS = 1.0


@dataclass(frozen=True)
class Execution:
    """One start of one operation."""

    statement: str
    sql: str
    operation_id: str
    pod: str
    request: SubmitRequest


@dataclass
class Ledger:
    """What ran, in order, in any driver; and the releases that held statements wait for."""

    executions: list[Execution] = field(default_factory=list)
    looks: list[SubmitRequest] = field(default_factory=list)
    compares_states: bool = True  # whether drivers know how to look at a changed text
    versions: tuple[int, int] = (PROTOCOL_VERSION, OLDEST_OPERATOR)  # of drivers; see `sparksql.wire.versions`
    says_more: bool = False  # whether drivers say things that this version does not know
    released: set[str] = field(default_factory=set)
    peak: Counter[str] = field(default_factory=Counter)  # most statements that ran at once, by pod
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    savepoints: Savepoints = field(default_factory=Savepoints)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def ran(self, statement: str) -> list[Execution]:
        return [e for e in self.executions if e.statement == statement]

    def order(self) -> list[str]:
        return [e.statement for e in self.executions]

    def release(self, *statements: str) -> None:
        self.released.update(statements)
        self._changed.set()
        self._changed = asyncio.Event()

    async def until_released(self, statement: str) -> None:
        while statement not in self.released:
            await self._changed.wait()


class FakeGateway:
    """The gateway of one driver pod, listening on `host`; `init_failure` is what Spark says of the session's init."""

    def __init__(
        self, pod: str, host: str, config: DriverConfig, token: str, ledger: Ledger, init_failure: str | None = None
    ) -> None:
        self.pod = pod
        self.host = host
        self.config = config
        self.ledger = ledger
        self.boot_id = uuid.uuid4().hex
        self.holds: tuple[str, ...] | None = None  # statements that have changed the session; None if none has
        self.state_lost: str | None = None
        self.clients = (0, 0, 0)  # sessions of clients, their statements that wait, and those that run
        self.drop_answers = 0  # so many requests to submit are carried out without an answer
        self._token = token
        self._init_failure = init_failure
        self._started = datetime.now(UTC)
        self._state = GatewayState.STARTING
        self._views: dict[str, OperationView] = {}
        self._requests: dict[str, SubmitRequest] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(config.max_concurrent_statements)
        self._running = 0
        self._seq = 0
        self._news = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._transports: set[asyncio.Transport] = set()
        self._said: GatewayInfo | None = None  # the last news of itself in a stream
        self._dead = False
        self._tls: ssl.SSLContext | None = None
        self.bound: list[BindRequest] = []  # what it was given of the session that has it, as a driver of a warm pool
        self._savepoints = DriverSavepoints(pod, self.boot_id, ledger.savepoints, ledger.checkpoints)

    # --- life

    async def start(self, tls: ssl.SSLContext, *, becomes_ready: bool = True) -> None:
        app = web.Application(middlewares=[self._guard])
        root = "/control/v1"
        app.add_routes(
            [
                web.get(f"{root}/info", self._info),
                web.get(f"{root}/events", self._events),
                web.post(f"{root}/drain", self._drain),
                web.post(f"{root}/bind", self._bind),
                web.get(f"{root}/session-state", self._session_state),
                web.put(f"{root}/statements/{{id}}", self._submit),
                web.get(f"{root}/statements/{{id}}", self._get),
                web.post(f"{root}/statements/{{id}}/cancel", self._cancel),
                *self._savepoints.routes(root),
            ]
        )
        self._tls = tls
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.host, self.config.port, ssl_context=tls, reuse_address=True).start()
        if becomes_ready:
            self._move(GatewayState.INIT_FAILED if self._init_failure else GatewayState.READY)

    async def drain(self, seconds: float) -> None:
        """SIGTERM: nothing new is taken, what runs has `seconds`, the rest ends in Closed."""
        self._move(GatewayState.DRAINING)
        await self._close_streams()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=seconds)
        for operation_id, view in list(self._views.items()):
            if not view.state.is_terminal:
                await self._end_early(operation_id, OperationState.CLOSED)

    async def kill(self) -> None:
        """The process is gone, with everything that it knew and without a last word."""
        runner, self._runner = self._runner, None
        self._dead = True
        self._tell()
        for transport in self._transports:
            transport.abort()
        if runner is not None:
            await runner.cleanup()
        await self._savepoints.kill()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def drain_unheard(self) -> None:
        """Takes nothing new from now on, before anybody knows."""
        self._state = GatewayState.DRAINING

    def set_session_state(self, *kept: str) -> None:
        """Statements have changed the session, of which these can run again."""
        self.holds = kept
        self._tell()

    def set_clients(self, sessions: int = 0, pending: int = 0, running: int = 0) -> None:
        self.clients = (sessions, pending, running)
        self._tell()

    @property
    def is_heard(self) -> bool:
        """Whether whoever reads the events has been told how the gateway is now."""
        return self._said == self._own_info()

    @property
    def is_draining(self) -> bool:
        return self._state is GatewayState.DRAINING

    def view_of(self, statement: str) -> OperationView | None:
        """The last view of the newest operation of a statement."""
        asked = self._requests.items()
        ids = [i for i, request in asked if request.name == statement and request.validate_against is None]
        return self._views[ids[-1]] if ids else None

    # --- protocol

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if request.transport is not None:
            self._transports.add(request.transport)
        try:
            if request.headers.get("Authorization") != f"Bearer {self._token}":
                raise Refused(401, "Unauthorized")
            return await handler(request)
        except Refused as refused:
            body = ErrorBody(error=str(refused), message=str(refused))
            return web.json_response(text=body.to_json(), status=refused.status)

    async def _info(self, _: web.Request) -> web.Response:
        return answer(self._own_info())

    async def _drain(self, _: web.Request) -> web.Response:
        self._move(GatewayState.DRAINING)
        await self._close_streams()
        return answer(self._own_info())

    async def _bind(self, request: web.Request) -> web.Response:
        given = BindRequest.model_validate_json(await request.read())
        self._take(given)
        return web.Response(status=204)

    def _take(self, given: BindRequest) -> None:
        """Becomes the driver of a session: connections that begin from now on see its certificate."""
        assert self._tls is not None
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            certificate.write_text(given.certificate)
            key.write_text(given.key)
            self._tls.load_cert_chain(certificate, key)
        self._token = given.token
        self.config = DriverConfig.model_validate_json(given.config)
        self.bound.append(given)

    async def _session_state(self, _: web.Request) -> web.Response:
        return answer(kept_state(self.boot_id, self.holds or ()))

    async def _submit(self, request: web.Request) -> web.Response:
        operation_id = request.match_info["id"]
        asked = SubmitRequest.model_validate_json(await request.read())
        self._check_boot(asked.boot_id)
        if operation_id not in self._views:
            if self._state is GatewayState.DRAINING:
                self._put(self._new(operation_id, OperationState.CLOSED, completion_time=datetime.now(UTC)))
                return answer(self._views[operation_id])
            if self._state is not GatewayState.READY:
                raise Refused(503, str(self._state))
            self._requests[operation_id] = asked
            kind = asked.sql.split()[0].upper()
            streaming = asked.streaming is not None
            known = {"statement_type": kind, "read_only": kind in READS, "streaming": streaming}
            self._put(self._new(operation_id, OperationState.PENDING, **known))
            self._tasks[operation_id] = asyncio.create_task(self._run(operation_id, asked))
        if self.drop_answers:
            self.drop_answers -= 1
            assert request.transport is not None
            request.transport.abort()
        return answer(self._views[operation_id])

    async def _get(self, request: web.Request) -> web.Response:
        view = self._views.get(request.match_info["id"])
        if view is None:
            raise Refused(404, "UnknownOperation")
        return answer(view)

    async def _cancel(self, request: web.Request) -> web.Response:
        operation_id = request.match_info["id"]
        asked = CancelRequest.model_validate_json(await request.read())
        self._check_boot(asked.boot_id)
        known = self._views.get(operation_id)
        if known is None:
            self._put(self._new(operation_id, asked.outcome, completion_time=datetime.now(UTC)))
        elif not known.state.is_terminal and "STUBBORN" not in self._requests[operation_id].sql:
            await self._end_early(operation_id, asked.outcome)
        return answer(self._views[operation_id])

    async def _events(self, request: web.Request) -> web.StreamResponse:
        seen = int(request.query.get("after", "0"))
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        await self._say(response, Event(kind="hello", boot_id=self.boot_id, seq=self._seq))
        with contextlib.suppress(ConnectionError):
            await self._stream(response, seen)
        return response

    async def _stream(self, response: web.StreamResponse, seen: int) -> None:
        state = None
        while not self._dead:
            news = self._news
            if (info := self._own_info()) != state:
                state = info
                await self._say(response, Event(kind="info", boot_id=self.boot_id, info=info))
                self._said = info
            for view in self._after(seen):
                seen = view.seq
                await self._say(response, Event(kind="operation", boot_id=self.boot_id, seq=seen, operation=view))
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await news.wait()
            except TimeoutError:
                await self._say(response, Event(kind="heartbeat", boot_id=self.boot_id, seq=seen))

    async def _say(self, response: web.StreamResponse, event: Event) -> None:
        lines = of_later_version(event) if self.ledger.says_more else [event.to_json()]
        await response.write("".join(f"{line}\n" for line in lines).encode())

    def _after(self, seq: int) -> Iterator[OperationView]:
        yield from sorted((v for v in self._views.values() if v.seq > seq), key=lambda v: v.seq)

    def _check_boot(self, boot_id: str) -> None:
        if boot_id != self.boot_id:
            raise Refused(412, "OtherBoot")

    def _own_info(self) -> GatewayInfo:
        failure = init_failure(self.config.init[0].sql, self._init_failure) if self._init_failure is not None else None
        sessions, pending, running = self.clients
        states = [view.state for view in self._views.values()]
        return GatewayInfo(
            pending=states.count(OperationState.PENDING) + pending,
            running=states.count(OperationState.RUNNING) + running,
            client_sessions=sessions,
            client_pending=pending,
            client_running=running,
            streams=len(self._streams()),
            protocol_version=self.ledger.versions[0],
            oldest_operator_version=self.ledger.versions[1],
            boot_id=self.boot_id,
            incarnation=self.config.incarnation,
            state=self._state,
            spark_version="4.1.4",
            spark_application_id=f"spark-{self.boot_id[:8]}",
            start_time=self._started,
            compares_states=self.ledger.compares_states,
            previews_states=True,
            plans_streams=True,
            makes_states=True,
            has_session_state=self.holds is not None,
            restorable_statements=len(self.holds or ()),
            state_lost=self.state_lost,
            init_failure=failure,
        )

    # --- statements

    async def _run(self, operation_id: str, request: SubmitRequest) -> None:
        words = request.sql.upper().split()
        if "QUEUE" in words:
            await self.ledger.until_released(request.name)
        if request.validate_against is not None:
            assert self.ledger.compares_states
            self.ledger.looks.append(request)
            self._change(operation_id, state=OperationState.RUNNING, start_time=datetime.now(UTC))
            self._change(operation_id, **look(self.ledger.checkpoints, request))
            return
        if request.streaming is not None:
            if starts(self.ledger.checkpoints, request):
                self.ledger.executions.append(Execution(request.name, request.sql, operation_id, self.pod, request))
            async for change in query(self.ledger.checkpoints, self.ledger.until_released, operation_id, request):
                self._change(operation_id, **change)
            return
        async with self._slots:
            self._running += 1
            self.ledger.peak[self.pod] = max(self.ledger.peak[self.pod], self._running)
            self.ledger.executions.append(Execution(request.name, request.sql, operation_id, self.pod, request))
            self._change(operation_id, state=OperationState.RUNNING, start_time=datetime.now(UTC))
            try:
                await self._work(operation_id, request, words)
            finally:
                self._running -= 1

    def _streams(self) -> list[str]:
        """Streaming operations that have not ended."""
        return [
            i for i, r in self._requests.items() if r.streaming is not None and not self._views[i].state.is_terminal
        ]

    async def _close_streams(self) -> None:
        for operation_id in self._streams():
            await self._end_early(operation_id, OperationState.CLOSED)

    async def _work(self, operation_id: str, request: SubmitRequest, words: list[str]) -> None:
        limit = request.execution_seconds or None
        try:
            async with asyncio.timeout(limit):
                if "HOLD" in words:
                    await self.ledger.until_released(request.name)
                if "SLEEP" in words:
                    await asyncio.sleep(float(words[words.index("SLEEP") + 1]))
        except TimeoutError:
            self._end(operation_id, OperationState.TIMED_OUT)
            return
        if "FAIL" in words:
            error = OperationError(condition="FAILED", sql_state="42000", message="it failed", line=1, position=1)
            self._end(operation_id, OperationState.ERROR, error=error)
            return
        self._end(operation_id, OperationState.FINISHED, result=result(request, wide="WIDE" in words))

    async def _end_early(self, operation_id: str, outcome: OperationState) -> None:
        self._tasks[operation_id].cancel()
        await asyncio.gather(self._tasks[operation_id], return_exceptions=True)
        if not self._views[operation_id].state.is_terminal:
            self._end(operation_id, outcome)

    def _end(self, operation_id: str, state: OperationState, **fields: Any) -> None:
        self._change(operation_id, state=state, completion_time=datetime.now(UTC), **fields)

    def _new(self, operation_id: str, state: OperationState, **fields: Any) -> OperationView:
        now = datetime.now(UTC)
        return OperationView(
            operation_id=operation_id, boot_id=self.boot_id, seq=0, state=state, submitted_time=now, **fields
        )

    def _change(self, operation_id: str, **fields: Any) -> None:
        self._put(self._views[operation_id].model_copy(update=fields))

    def _put(self, view: OperationView) -> None:
        self._seq += 1
        self._views[view.operation_id] = view.model_copy(update={"seq": self._seq})
        self._tell()

    def _move(self, state: GatewayState) -> None:
        self._state = state
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
