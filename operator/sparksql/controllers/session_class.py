"""SqlSessionClass: its status says whether it was understood."""

from __future__ import annotations

from sparksql.api.session_class import SqlSessionClass
from sparksql.cache.indexes import CLASS
from sparksql.controllers.context import ControllerContext
from sparksql.domain.session_class import news, status_of
from sparksql.engine.key import Key
from sparksql.kube.errors import Conflict, NotFound


class ClassController:
    """Writes what is to be said of a class, which waits for nothing."""

    def __init__(self, runtime: ControllerContext) -> None:
        self._rt = runtime

    async def reconcile(self, key: Key) -> float | None:
        obj = self._rt.store.get(CLASS, "", key.name)
        if obj is None:
            return None
        session_class = SqlSessionClass.parse(obj)
        status = status_of(session_class, self._rt.clock())
        try:
            obj = await self._rt.status.write(CLASS, obj, status.to_dict())
        except (Conflict, NotFound):
            await self._rt.status.refresh(CLASS, "", key.name)
            return 0.1
        for event in news(session_class, status):
            self._rt.events.emit(obj, event.type, event.reason, event.message)
        return None
