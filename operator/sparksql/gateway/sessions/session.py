"""One client's session and its operations, as the event loop keeps them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sparksql.gateway.operations.operation import Executor
from sparksql.gateway.sessions.executor import ClientExecutor
from sparksql.gateway.sessions.external import ExternalExecution
from sparksql.gateway.sessions.model import OperationStatus, SessionInfo
from sparksql.wire.clients import ClientSessionView
from sparksql.wire.control import AnyClientProtocol, OperationState, OperationView

_STATUS = {
    OperationState.PENDING: OperationStatus.PENDING,
    OperationState.RUNNING: OperationStatus.RUNNING,
    OperationState.FINISHED: OperationStatus.FINISHED,
    OperationState.CANCELED: OperationStatus.CANCELED,
    OperationState.CLOSED: OperationStatus.CLOSED,
    OperationState.ERROR: OperationStatus.ERROR,
    OperationState.TIMED_OUT: OperationStatus.TIMEOUT,
}


@dataclass
class ClientOperation:
    """A statement of a client.

    `used` is a monotonic time in seconds; `has_rows` that rows can be taken, all of them or as they come; `closing` that nobody
    may ask for it any more.
    """

    operation_id: str
    executor: Executor
    used: float
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    has_rows: asyncio.Event = field(default_factory=asyncio.Event)
    work: ExternalExecution | None = None
    closing: bool = False

    @property
    def is_query(self) -> bool:
        """Returns whether it is a query in the clients' sense."""
        return isinstance(self.executor, ClientExecutor) and self.executor.is_query

    @property
    def is_insert(self) -> bool:
        """Returns whether it is one statement that writes rows."""
        return isinstance(self.executor, ClientExecutor) and self.executor.is_insert


@dataclass
class ClientSession:
    """Describes a session of a client.

    `spark` is its JVM session; `used` a monotonic time in seconds; `uses` are the requests under way; `user` who has opened it,
    as the front says.
    """

    handle: str
    protocol: AnyClientProtocol
    name: str
    opened: datetime
    last_used: datetime
    used: float
    spark: Any
    properties: dict[str, str]
    user: str | None = None
    operations: dict[str, ClientOperation] = field(default_factory=dict)
    uses: int = 0

    @property
    def has_bounded_work(self) -> bool:
        """Returns whether a statement is under way that will end by itself."""
        return any(not operation.has_rows.is_set() for operation in self.live)

    @property
    def live(self) -> list[ClientOperation]:
        """Returns the operations that have not ended."""
        return [operation for operation in self.operations.values() if not operation.ended.is_set()]

    def view(self) -> SessionInfo:
        """Returns the session as its client sees it."""
        return SessionInfo(self.handle, self.protocol, self.name, self.opened, dict(self.properties))

    def shown(self) -> ClientSessionView:
        """Returns the session as the operator sees it."""
        return ClientSessionView(
            handle=self.handle,
            protocol=self.protocol,
            name=self.name,
            user=self.user,
            open_time=self.opened,
            last_used_time=self.last_used,
            operations=len(self.live),
        )


def status_of(view: OperationView, *, being_read: bool) -> OperationStatus:
    """Returns FLIP-91's status of an operation: INITIALIZED until the text has been read, PENDING until its turn has come."""
    if being_read and view.state is OperationState.PENDING:
        return OperationStatus.INITIALIZED
    return _STATUS[view.state]
