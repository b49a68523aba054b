"""What a gateway answers about clients of its driver: their sessions, and their statements that have not ended."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from sparksql.wire.control import AnyClientProtocol, OperationState
from sparksql.wire.model import WireModel
from sparksql.wire.versions import or_else


class ClientSessionView(WireModel):
    """A client's session inside this driver. `name` is what the client calls itself, `user` who it is, as the front says."""

    handle: str
    protocol: AnyClientProtocol = Field(alias="door")
    name: str = ""
    user: str | None = None
    open_time: datetime
    last_used_time: datetime
    operations: int = 0


class ClientOperationView(WireModel):
    """A client's statement that has not ended; its text is not shown."""

    operation_id: str
    session: str
    protocol: AnyClientProtocol = Field(alias="door")
    user: str | None = None
    state: Annotated[OperationState, or_else(OperationState.RUNNING)]
    statement_type: str | None = None
    submitted_time: datetime | None = None
    start_time: datetime | None = None


class ClientsView(WireModel):
    """Answers GET /clients: sessions of clients, and their statements that have not ended."""

    sessions: tuple[ClientSessionView, ...] = ()
    operations: tuple[ClientOperationView, ...] = ()
