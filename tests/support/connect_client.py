"""A small client of the Connect frontend that sends one message at a time and sees every answer as it is."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import grpc
import pyarrow as pa
from google.rpc import error_details_pb2, status_pb2
from pyspark.sql.connect.proto import base_pb2 as wire
from pyspark.sql.connect.proto import commands_pb2 as commands
from pyspark.sql.connect.proto import relations_pb2 as relations

from sparksql.wire.driver import CONFIG_FILE, TLS_CERT_FILE, DriverConfig
from tests.support.process import TOKEN, GatewayProcess

SERVICE = "/spark.connect.SparkConnectService"
Relation = relations.Relation
ENDLESS = "SELECT count(*) FROM range(0, 1000000000000, 1, 1) WHERE hash(id, id + 1) = 5"
_OPTIONS = (("grpc.max_receive_message_length", 128 << 20),)  # pyspark-client's


@dataclass(frozen=True)
class Failure:
    """How an RPC ended badly: `condition` and `sql_state` are those of Spark's details."""

    code: grpc.StatusCode
    message: str
    condition: str | None
    sql_state: str | None


class Failed(Exception):
    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        info = error_details_pb2.ErrorInfo()
        packed = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
        for detail in status_pb2.Status.FromString(packed).details:
            detail.Unpack(info)
        code, message = error.code(), error.details() or ""
        condition, state = info.metadata.get("errorClass"), info.metadata.get("sqlState")
        super().__init__(f"{code} {condition} {state} {message}")
        self.failure = Failure(code, message, condition, state)


@dataclass
class Stream:
    """An execution as its client sees it. `complete` once Spark has said that nothing follows."""

    operation_id: str
    responses: list[Any] = field(default_factory=list)
    complete: bool = False

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        tables = [
            pa.ipc.open_stream(response.arrow_batch.data).read_all()
            for response in self.responses
            if response.HasField("arrow_batch")
        ]
        return [tuple(row.values()) for table in tables for row in table.to_pylist()]

    @property
    def relation(self) -> Any:
        """What a SQL command was turned into."""
        return next(r.sql_command_result.relation for r in self.responses if r.HasField("sql_command_result"))


@dataclass
class ConnectSession:
    """One session of one user."""

    channel: grpc.aio.Channel
    user: str = "ann"
    session_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    token: str = TOKEN
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.token}"), *self.headers.items())

    @property
    def own(self) -> dict[str, Any]:
        return {"session_id": self.session_id, "user_context": wire.UserContext(user_id=self.user, user_name=self.user)}

    async def call(self, method: str, request: Any, answer: Any, timeout: float | None = 120) -> Any:
        unary = self.channel.unary_unary(f"{SERVICE}/{method}", type(request).SerializeToString, answer.FromString)
        try:
            return await unary(request, metadata=self._metadata, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            raise Failed(error) from None

    def request(self, root: Any = None, command: Any = None, **options: Any) -> Any:
        """A request to execute; reattachable unless told otherwise."""
        reattachable = options.pop("reattachable", True)
        options.setdefault("operation_id", str(uuid.uuid4()))
        request = wire.ExecutePlanRequest(plan=wire.Plan(root=root, command=command), **self.own, **options)
        request.request_options.add().reattach_options.reattachable = reattachable
        return request

    def begin(self, request: Any, timeout: float | None = None) -> Any:
        """The bare call, to be read from, cancelled or left alone."""
        stream = self.channel.unary_stream(
            f"{SERVICE}/ExecutePlan", wire.ExecutePlanRequest.SerializeToString, wire.ExecutePlanResponse.FromString
        )
        return stream(request, metadata=self._metadata, timeout=timeout)

    def reattach(self, operation_id: str, last_response_id: str | None = None) -> Any:
        stream = self.channel.unary_stream(
            f"{SERVICE}/ReattachExecute",
            wire.ReattachExecuteRequest.SerializeToString,
            wire.ExecutePlanResponse.FromString,
        )
        request = wire.ReattachExecuteRequest(operation_id=operation_id, last_response_id=last_response_id, **self.own)
        return stream(request, metadata=self._metadata)

    async def read(self, call: Any, stream: Stream) -> Stream:
        """All that the call gives. Raises Failed."""
        try:
            async for response in call:
                stream.responses.append(response)
                stream.complete = stream.complete or response.HasField("result_complete")
        except grpc.aio.AioRpcError as error:
            raise Failed(error) from None
        return stream

    async def execute(self, root: Any = None, command: Any = None, **options: Any) -> Stream:
        """Executes to the end and releases, as Spark's own clients do. Raises Failed."""
        request = self.request(root, command, **options)
        stream = Stream(request.operation_id)
        call = self.begin(request)
        try:
            while not stream.complete:
                await self.read(call, stream)
                last = stream.responses[-1].response_id if stream.responses else None
                call = self.reattach(request.operation_id, last)
        finally:
            with contextlib.suppress(Failed):  # there is none of what was refused
                await self.release(request.operation_id)
        return stream

    async def sql(self, text: str, **options: Any) -> Stream:
        """A SQL command. Raises Failed."""
        return await self.execute(command=sql_command(text), **options)

    async def rows(self, text: str, **options: Any) -> list[tuple[Any, ...]]:
        """Rows of a query, in Spark's two steps. Raises Failed."""
        command = await self.sql(text)
        return (await self.execute(root=command.relation, **options)).rows

    async def release(self, operation_id: str) -> Any:
        request = wire.ReleaseExecuteRequest(operation_id=operation_id, **self.own)
        request.release_all.SetInParent()
        return await self.call("ReleaseExecute", request, wire.ReleaseExecuteResponse)

    async def interrupt(self, *, tag: str | None = None, operation_id: str | None = None) -> set[str]:
        """Ids of what was interrupted: of a tag, of one operation, or of all."""
        kinds = wire.InterruptRequest.InterruptType
        kind = "TAG" if tag is not None else "OPERATION_ID" if operation_id is not None else "ALL"
        request = wire.InterruptRequest(interrupt_type=kinds.Value(f"INTERRUPT_TYPE_{kind}"), **self.own)
        if tag is not None:
            request.operation_tag = tag
        if operation_id is not None:
            request.operation_id = operation_id
        return set((await self.call("Interrupt", request, wire.InterruptResponse)).interrupted_ids)

    async def config(self, **operation: Any) -> dict[str, str]:
        request = wire.ConfigRequest(operation=wire.ConfigRequest.Operation(**operation), **self.own)
        return {pair.key: pair.value for pair in (await self.call("Config", request, wire.ConfigResponse)).pairs}

    async def set_conf(self, key: str, value: str) -> None:
        await self.config(set=wire.ConfigRequest.Set(pairs=[wire.KeyValue(key=key, value=value)]))

    async def schema(self, root: Any) -> Any:
        asked = wire.AnalyzePlanRequest(schema=wire.AnalyzePlanRequest.Schema(plan=wire.Plan(root=root)), **self.own)
        return (await self.call("AnalyzePlan", asked, wire.AnalyzePlanResponse)).schema.schema

    async def add_artifacts(self, names: Iterable[str], data: bytes = b"x") -> Any:
        kinds = wire.AddArtifactsRequest
        chunk = kinds.ArtifactChunk(data=data, crc=zlib.crc32(data))
        single = [kinds.SingleChunkArtifact(name=name, data=chunk) for name in names]
        upload = self.channel.stream_unary(
            f"{SERVICE}/AddArtifacts", kinds.SerializeToString, wire.AddArtifactsResponse.FromString
        )
        try:
            requests = iter([kinds(batch=kinds.Batch(artifacts=single), **self.own)])
            return await upload(requests, metadata=self._metadata, timeout=120)
        except grpc.aio.AioRpcError as error:
            raise Failed(error) from None

    async def close(self, *, may_return: bool = False) -> Any:
        request = wire.ReleaseSessionRequest(allow_reconnect=may_return, **self.own)
        return await self.call("ReleaseSession", request, wire.ReleaseSessionResponse)


def sql_relation(text: str) -> Any:
    return Relation(sql=relations.SQL(query=text))


def sql_command(text: str) -> Any:
    return commands.Command(sql_command=commands.SqlCommand(input=sql_relation(text)))


@contextlib.asynccontextmanager
async def connect_channel(gateway: GatewayProcess, port: int | None = None) -> AsyncIterator[grpc.aio.Channel]:
    """A TLS channel to the gateway's Connect frontend, or to a relay before it."""
    certificate = (gateway.folder / "config" / TLS_CERT_FILE).read_bytes()
    credentials = grpc.ssl_channel_credentials(certificate)
    target = f"localhost:{port or connect_port(gateway)}"
    async with grpc.aio.secure_channel(target, credentials, options=_OPTIONS) as channel:
        try:
            await asyncio.wait_for(channel.channel_ready(), 600)
        except TimeoutError:
            raise AssertionError(f"the Connect frontend does not open:\n{gateway.log_tail()}") from None
        yield channel


def connect_port(gateway: GatewayProcess) -> int:
    config = DriverConfig.model_validate_json((gateway.folder / "config" / CONFIG_FILE).read_text())
    return config.endpoints.connect_port


async def running_jobs(gateway: GatewayProcess) -> list[Any]:
    """Spark's jobs that run now, by its own UI."""
    async with aiohttp.ClientSession(f"http://127.0.0.1:{gateway.ui_port}") as http:
        async with http.get("/api/v1/applications") as response:
            application = (await response.json())[0]["id"]
        async with http.get(f"/api/v1/applications/{application}/jobs", params={"status": "running"}) as response:
            found: list[Any] = await response.json()
            return found


async def until(what: str, condition: Callable[[], Awaitable[Any]], seconds: float = 90) -> Any:
    """What the condition gives once that is true."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not (seen := await condition()):
        assert asyncio.get_running_loop().time() < deadline, f"not within {seconds} s: {what}; last seen {seen!r}"
        await asyncio.sleep(0.05)
    return seen
