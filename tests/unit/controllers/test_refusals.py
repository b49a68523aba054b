"""What is remembered of drivers that answer a hand-over with an error."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sparksql.controllers.statement.controller import StatementController
from sparksql.controllers.statement.refusals import Refusals
from sparksql.domain.statement.decision import Submit
from sparksql.domain.statement.snapshot import Refusal
from sparksql.drivers.client import GatewayRefused
from sparksql.engine.key import Key
from sparksql.wire.control import OperationState, OperationView, SubmitRequest
from tests.unit.domain.builders.statements import handed_over, statement

NOW = datetime(2026, 1, 31, tzinfo=UTC)
KEY = Key("SqlStatement", "team-a", "one")
REQUEST = SubmitRequest(boot_id="b", namespace="team-a", name="one", sql="SELECT 1")


def test_time_of_a_refusal_is_that_of_the_first_one_of_the_attempt() -> None:
    refusals = Refusals()
    refusals.note(KEY, "first", "400: a", NOW)
    refusals.note(KEY, "first", "413: b", NOW + timedelta(seconds=5))
    assert refusals.of(KEY, "first") == Refusal(NOW, "413: b")
    assert refusals.of(KEY, "second") is None
    refusals.note(KEY, "second", "400: a", NOW + timedelta(seconds=9))
    assert refusals.of(KEY, "second") == Refusal(NOW + timedelta(seconds=9), "400: a")
    refusals.forget(KEY)
    assert refusals.of(KEY, "second") is None


class Driver:
    """Answers a hand-over with `status`; 200 takes it."""

    def __init__(self) -> None:
        self.status = 400

    async def submit(self, operation_id: str, request: SubmitRequest) -> OperationView:
        if self.status != 200:
            raise GatewayRefused(self.status, "no")
        return OperationView(operation_id=operation_id, boot_id="b", seq=1, state=OperationState.RUNNING)


@pytest.mark.parametrize(("status", "is_noted"), [(400, True), (401, True), (413, True), (503, False)])
async def test_controller_notes_a_refusal_until_the_driver_takes_the_statement(status: int, is_noted: bool) -> None:
    driver = Driver()
    drivers = SimpleNamespace(client=lambda pod_uid: driver, update_view=lambda pod_uid, view: None)
    context: Any = SimpleNamespace(drivers=drivers, clock=lambda: NOW, store=None)
    controller, of = StatementController(context), statement(handed_over())
    driver.status = status
    with pytest.raises(GatewayRefused):
        await controller.act(Submit("op", REQUEST), of)
    key = Key("SqlStatement", of.metadata.namespace, of.metadata.name)
    refusals = cast(Refusals, controller._refusals)
    assert (refusals.of(key, "op") == Refusal(NOW, f"{status}: no")) is is_noted
    driver.status = 200
    await controller.act(Submit("op", REQUEST), of)
    assert refusals.of(key, "op") is None
