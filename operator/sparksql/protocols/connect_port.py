"""A port of Spark Connect: the gate that counts connections and bytes, the gRPC server behind it on loopback, and their end."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from sparksql.protocols.budget import Budget
from sparksql.protocols.grpc_gate import LOOPBACK, GrpcGate
from sparksql.protocols.passages import UNKNOWN_CALLS, Passage
from sparksql.protocols.slots import Slots
from sparksql.protocols.spark_connect import MAX_RPCS, server_options

RENEWED_SECONDS = 3600.0
_SPARE_CONNECTIONS = 64  # that end while others begin


class ConnectPort:
    """The gate and its server. Belongs to the event loop."""

    def __init__(self, handlers: Any, slots: Slots, budget: Budget) -> None:
        """`handlers` is gRPC's generic handler: its `service` returns the handler of a method."""
        self._handlers = handlers
        self._limits = slots.limits
        self._gate = GrpcGate(slots, budget)
        self._server: Any = None
        self._stopping: set[asyncio.Task[Any]] = set()

    async def listen(self, address: str, port: int, credentials: Any) -> int:
        """Begins to listen, without `credentials` without TLS, and returns the port. Raises OSError when it is taken."""
        return await self._gate.listen(address, port, await self._start(credentials))

    async def renew(self, credentials: Any) -> None:
        """Serves new connections with another certificate; calls under way have an hour, and then their clients come again."""
        before = self._server
        self._gate.lead_to(await self._start(credentials))
        task = asyncio.create_task(before.stop(RENEWED_SECONDS))
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    def passage(self, context: Any) -> Passage | None:
        """Returns the connection of a call; None for a call that has not come by this port, which must be refused."""
        return self._gate.passage(context.peer())

    async def close(self, seconds: float) -> None:
        """Takes no new request; those under way may end within so many seconds."""
        self._gate.close()
        for task in self._stopping:
            task.cancel()
        if self._server is not None:
            await self._server.stop(seconds)

    async def _start(self, credentials: Any) -> int:
        """Starts a server on loopback and returns its port."""
        options = server_options(self._limits.most + self._limits.strangers + _SPARE_CONNECTIONS)
        most = MAX_RPCS + UNKNOWN_CALLS * self._limits.strangers
        self._server = grpc.aio.server(options=options, maximum_concurrent_rpcs=most)
        self._server.add_generic_rpc_handlers((self._handlers,))
        where = f"{LOOPBACK}:0"
        try:
            if credentials is None:
                inner: int = self._server.add_insecure_port(where)
            else:
                inner = self._server.add_secure_port(where, credentials)
        except RuntimeError as failed:
            raise OSError(f"Connect cannot listen on {where}: {failed}") from None
        await self._server.start()
        return inner
