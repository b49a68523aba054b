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
        """Returns the model of a raw SqlSessionClass. Raises ValueError if the CRD would refuse it."""
        return SqlSessionClass.parse(obj)

    async def decide(self, obj: Object, parsed: SqlSessionClass, refusal: Violation | None) -> Decision:
        """Decides from the class alone; nothing is gathered."""
        return decide(parsed, self._context.clock())

    async def act(self, command: Never, parsed: SqlSessionClass) -> Outcome:
        """Refuses every command: a decision about a class has none."""
        assert_never(command)
