"""What drivers were asked about changes of queries that run, and what they have answered: in memory, one question a statement.

An operator that starts again asks once more. Nothing is started by it, so that does no harm.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from sparksql.domain.statement.decision import Question
from sparksql.drivers.client import GatewayClient
from sparksql.engine.key import Key
from sparksql.wire.control import OperationView


@dataclass
class _Asked:
    question: Question
    operation_id: str | None = None  # while it is being answered
    answer: OperationView | None = None


class Questions:
    """Asks drivers without making a reconcile wait: an answer is there at a later look."""

    def __init__(self) -> None:
        self._asked: dict[Key, _Asked] = {}

    def forget(self, statement: Key) -> None:
        """Nothing is asked about the statement any more."""
        self._asked.pop(statement, None)

    def answer(self, statement: Key, question: Question | None) -> OperationView | None:
        """The last word on this very question; any other one is forgotten."""
        asked = self._asked.get(statement)
        if asked is None or asked.question != question:
            self._asked.pop(statement, None)
            return None
        return asked.answer

    async def ask(self, statement: Key, question: Question, client: GatewayClient) -> bool:
        """Asks, or looks what has become of it; True when the answer has come. An old one holds until then.

        Raises what the client raises; asking again is the same then.
        """
        asked = self._asked.get(statement)
        if asked is None or asked.question != question:
            asked = self._asked[statement] = _Asked(question)
        asked.operation_id = asked.operation_id or str(uuid.uuid4())
        view = await client.submit(asked.operation_id, question.request)
        if not view.state.is_terminal:
            return False
        asked.operation_id, asked.answer = None, view
        return True
