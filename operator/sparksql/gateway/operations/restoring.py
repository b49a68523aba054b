"""Brings back what the driver before this one held of the session: its statements run again, one after the other.

They run as statements of manifests do, by the same rules, before the gateway is ready. One that fails ends nothing: the session
is there for its users all the same, and is told what it does not have.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable

from sparksql.gateway.operations.events import Changes
from sparksql.gateway.operations.manager import OperationManager
from sparksql.gateway.operations.register import OperationRegister
from sparksql.wire.control import OperationState, OperationView, SubmitRequest
from sparksql.wire.session_state import SessionState

MAX_MESSAGE_CHARS = 500


class Restoring:
    """Runs kept statements again. Belongs to the event loop."""

    def __init__(self, operations: OperationManager, register: OperationRegister, changes: Changes) -> None:
        self._operations = operations
        self._register = register
        self._changes = changes

    async def restore(self, state: SessionState, digest: Callable[[], Awaitable[str]]) -> str | None:
        """Runs the statements of `state` and returns what is missing afterwards, None if nothing.

        `digest` gives that of the session as it is by then.
        """
        if not state.digest:
            return "the stored statements do not exist"
        missing = None
        for number, request in enumerate(state.statements, start=1):
            view = await self._run(request)
            if view.state is not OperationState.FINISHED and missing is None:
                message = view.error.message if view.error is not None else f"it ended in {view.state}"
                what = f"statement {number} of {len(state.statements)}, of SqlStatement {request.name}, could not run again"
                missing = f"{what}: {message}"[:MAX_MESSAGE_CHARS]
        if missing is None and await digest() != state.digest:
            missing = "its settings, views, functions or variables are not what they were: a statement that ran again gave something else"
        return missing

    async def _run(self, request: SubmitRequest) -> OperationView:
        operation_id = str(uuid.uuid4())
        changed = self._changes.reader()
        try:
            mine = request.model_copy(update={"boot_id": self._register.boot_id})
            view = await self._operations.submit(operation_id, mine)
            while not view.state.is_terminal:
                changed.clear()
                view = self._register.get(operation_id) or view
                if not view.state.is_terminal:
                    await changed.wait()
            return view
        finally:
            self._changes.leave(changed)
