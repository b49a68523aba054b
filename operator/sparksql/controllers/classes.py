"""SqlSessionClass: found by name or by being the default, and told that it was understood."""

from __future__ import annotations

from sparksql.api.names import DEFAULT_CLASS_ANNOTATION
from sparksql.api.reasons import Reason
from sparksql.api.session_class import SqlSessionClass
from sparksql.controllers.indexes import CLASS
from sparksql.controllers.runtime import Runtime
from sparksql.domain.refusal import Refusal
from sparksql.domain.session_class import news, status_of
from sparksql.engine.key import Key
from sparksql.engine.store import Store
from sparksql.kube.errors import Conflict, NotFound


def find_class(store: Store, name: str | None) -> SqlSessionClass | Refusal:
    """The class of that name, or the cluster's default one without a name."""
    if name is not None:
        found = store.get(CLASS, "", name)
        if found is None:
            known = ", ".join(sorted(c["metadata"]["name"] for c in store.list(CLASS))) or "none"
            return Refusal(
                Reason.CLASS_NOT_FOUND, f"spec.className: SqlSessionClass {name} does not exist (there are: {known})"
            )
        return SqlSessionClass.parse(found)
    defaults = [
        c for c in store.list(CLASS) if c["metadata"].get("annotations", {}).get(DEFAULT_CLASS_ANNOTATION) == "true"
    ]
    if not defaults:
        message = f"spec.className is not set and no SqlSessionClass has the annotation {DEFAULT_CLASS_ANNOTATION}=true"
        return Refusal(Reason.CLASS_NOT_FOUND, message)
    newest = max(defaults, key=lambda c: (c["metadata"]["creationTimestamp"], c["metadata"]["name"]))
    return SqlSessionClass.parse(newest)


class ClassController:
    """Writes what is to be said of a class, which waits for nothing."""

    def __init__(self, runtime: Runtime) -> None:
        self._rt = runtime

    async def reconcile(self, key: Key) -> float | None:
        obj = self._rt.store.get(CLASS, "", key.name)
        if obj is None:
            return None
        klass = SqlSessionClass.parse(obj)
        status = status_of(klass, self._rt.clock())
        try:
            obj = await self._rt.status.write(CLASS, obj, status.to_dict())
        except (Conflict, NotFound):
            await self._rt.status.refresh(CLASS, "", key.name)
            return 0.1
        for note in news(klass, status):
            self._rt.events.emit(obj, note.type, note.reason, note.message)
        return None
