"""Questions to drivers are asked once, and an old answer holds until there is a new one."""

from __future__ import annotations

from typing import cast

import pytest

from sparksql.controllers.statement.questions import Questions
from sparksql.domain.statement.decision import Question
from sparksql.drivers.client import GatewayClient, GatewayUnreachable
from sparksql.engine.key import Key
from sparksql.wire.control import OperationState, OperationView, SubmitRequest
from tests.unit.domain.builders.objects import NOW

KEY = Key("SqlStatement", "team-a", "one")
ASKED = Question(1, SubmitRequest(boot_id="b", namespace="team-a", name="one", sql="SELECT 1"))


class Driver:
    """Answers as it is told; `ids` are the operations that it was asked for."""

    def __init__(self) -> None:
        self.state: OperationState | None = OperationState.PENDING
        self.ids: list[str] = []

    async def submit(self, operation_id: str, request: SubmitRequest) -> OperationView:
        self.ids.append(operation_id)
        if self.state is None:
            raise GatewayUnreachable
        return OperationView(operation_id=operation_id, boot_id=request.boot_id, seq=1, state=self.state)


async def ask(questions: Questions, driver: Driver, question: Question = ASKED) -> bool:
    return await questions.ask(KEY, question, cast(GatewayClient, driver))


async def test_a_question_is_one_operation_until_it_is_answered() -> None:
    questions, driver = Questions(lambda: NOW), Driver()
    assert questions.answer(KEY, ASKED) is None
    assert not await ask(questions, driver)
    driver.state = None
    with pytest.raises(GatewayUnreachable):
        await ask(questions, driver)
    driver.state = OperationState.FINISHED
    assert await ask(questions, driver)
    assert len(set(driver.ids)) == 1
    answer = questions.answer(KEY, ASKED)
    assert answer is not None and answer.state is OperationState.FINISHED


async def test_an_old_answer_holds_until_the_question_is_answered_anew() -> None:
    questions, driver = Questions(lambda: NOW), Driver()
    driver.state = OperationState.ERROR
    await ask(questions, driver)
    driver.state = OperationState.PENDING
    assert not await ask(questions, driver)
    old = questions.answer(KEY, ASKED)
    assert old is not None and old.state is OperationState.ERROR
    driver.state = OperationState.FINISHED
    assert await ask(questions, driver)
    new = questions.answer(KEY, ASKED)
    assert new is not None and new.state is OperationState.FINISHED
    assert len(set(driver.ids)) == 2


@pytest.mark.parametrize("other", [None, Question(2, ASKED.request)])
async def test_another_question_makes_the_answer_forgotten(other: Question | None) -> None:
    questions, driver = Questions(lambda: NOW), Driver()
    driver.state = OperationState.FINISHED
    await ask(questions, driver)
    assert questions.answer(KEY, other) is None
    assert questions.answer(KEY, ASKED) is None
