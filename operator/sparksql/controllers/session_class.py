"""SqlSessionClass: its status says whether it was understood."""

from __future__ import annotations

from typing import Never, assert_never

from sparksql.api.session_class import SqlSessionClass, SqlSessionClassStatus
from sparksql.cache.indexes import CLASS
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.reconciler import Controller, Outcome
from sparksql.domain.session_class import Decision, decide
from sparksql.domain.violation import Violation
from sparksql.kube.client import Object


class SessionClassController(Controller[SqlSessionClass, SqlSessionClassStatus, Never]):
    """Decides on a class from itself alone."""

    kind = CLASS

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def parse(self, obj: Object) -> SqlSessionClass:
        return SqlSessionClass.parse(obj)

    async def decide(self, obj: Object, parsed: SqlSessionClass, refusal: Violation | None) -> Decision:
        return decide(parsed, self._context.clock())

    async def act(self, command: Never, parsed: SqlSessionClass) -> Outcome:
        assert_never(command)
