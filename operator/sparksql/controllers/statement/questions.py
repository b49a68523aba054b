"""Questions to drivers about changed specs of queries, and the answers: in memory, one question a statement.

An operator that starts again asks once more. Nothing is started by it, so that does no harm.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sparksql.domain.statement.decision import Question
from sparksql.domain.statement.snapshot import Inquired
from sparksql.drivers.client import GatewayClient
from sparksql.engine.key import Key
from sparksql.wire.control import OperationView


@dataclass
class _Inquiry:
    question: Question
    since: datetime
    answers: int = 0
    operation_id: str | None = None  # while it is being answered
    answer: OperationView | None = None


class Questions:
    """Asks drivers without making a reconcile wait: an answer is there at a later look."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._inquiries: dict[Key, _Inquiry] = {}

    def forget(self, statement: Key) -> None:
        """Drops what was asked about the statement."""
        self._inquiries.pop(statement, None)

    def answer(self, statement: Key, question: Question | None) -> OperationView | None:
        """Returns the last answer to this very question; any other one is forgotten."""
        inquiry = self._inquiries.get(statement)
        if inquiry is None or inquiry.question != question:
            self._inquiries.pop(statement, None)
            return None
        return inquiry.answer

    def inquired(self, statement: Key) -> Inquired | None:
        """Returns the time of the first request of the present question, and the number of its answers; None before it."""
        inquiry = self._inquiries.get(statement)
        return Inquired(inquiry.since, inquiry.answers) if inquiry is not None else None

    async def ask(self, statement: Key, question: Question, client: GatewayClient) -> bool:
        """Asks, or looks what has become of it; True when the answer has come. An old one holds until then.

        Raises what the client raises; asking again is the same then.
        """
        inquiry = self._inquiries.get(statement)
        if inquiry is None or inquiry.question != question:
            inquiry = self._inquiries[statement] = _Inquiry(question, self._clock())
        inquiry.operation_id = inquiry.operation_id or str(uuid.uuid4())
        view = await client.submit(inquiry.operation_id, question.request)
        if not view.state.is_terminal:
            return False
        inquiry.operation_id, inquiry.answer, inquiry.answers = None, view, inquiry.answers + 1
        return True
