"""The class of a session, as the store knows it."""

from __future__ import annotations

from sparksql.api.names import DEFAULT_CLASS_ANNOTATION
from sparksql.api.reasons import Reason
from sparksql.api.session_class import SqlSessionClass
from sparksql.cache.indexes import CLASS
from sparksql.domain.violation import Violation
from sparksql.engine.store import Store


def find_class(store: Store, name: str | None) -> SqlSessionClass | Violation:
    """Returns the class of that name, or the cluster's default one without a name; a Violation if there is none."""
    if name is not None:
        found = store.get(CLASS, "", name)
        if found is None:
            known = ", ".join(sorted(c["metadata"]["name"] for c in store.list(CLASS))) or "none"
            return Violation(
                Reason.CLASS_NOT_FOUND, f"spec.className: SqlSessionClass {name} does not exist (there are: {known})"
            )
        return SqlSessionClass.parse(found)
    defaults = [
        c for c in store.list(CLASS) if c["metadata"].get("annotations", {}).get(DEFAULT_CLASS_ANNOTATION) == "true"
    ]
    if not defaults:
        message = f"spec.className is not set and no SqlSessionClass has the annotation {DEFAULT_CLASS_ANNOTATION}=true"
        return Violation(Reason.CLASS_NOT_FOUND, message)
    newest = max(defaults, key=lambda c: (c["metadata"]["creationTimestamp"], c["metadata"]["name"]))
    return SqlSessionClass.parse(newest)
