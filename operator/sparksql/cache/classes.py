"""The class of a session, as the store knows it."""

from __future__ import annotations

from sparksql.api.names import DEFAULT_CLASS_ANNOTATION
from sparksql.api.reasons import Reason
from sparksql.api.session_class import SqlSessionClass
from sparksql.cache.indexes import CLASS
from sparksql.cache.models import class_of
from sparksql.cache.views import ObjectView
from sparksql.domain.violation import Violation
from sparksql.engine.store import Object, Store


def find_class(store: Store, name: str | None) -> SqlSessionClass | Violation:
    """Returns the class of that name, or the cluster's default one without a name; a Violation if there is none."""
    if name is not None:
        obj = store.get(CLASS, "", name)
        if obj is None:
            names = ", ".join(sorted(ObjectView(each).name for each in store.list(CLASS))) or "none"
            what = f"spec.className: SqlSessionClass {name} does not exist (there are: {names})"
            return Violation(
                Reason.CLASS_NOT_FOUND, f"{what}; name one of these, or leave it out for the default class"
            )
        return class_of(obj)
    defaults = [obj for obj in store.list(CLASS) if _is_default(ObjectView(obj))]
    if not defaults:
        message = f"spec.className is not set and no SqlSessionClass has the annotation {DEFAULT_CLASS_ANNOTATION}=true"
        return Violation(Reason.CLASS_NOT_FOUND, message)
    return class_of(max(defaults, key=_age))


def _is_default(session_class: ObjectView) -> bool:
    return session_class.annotations.get(DEFAULT_CLASS_ANNOTATION) == "true"


def _age(obj: Object) -> tuple[str, str]:
    """Sorts older ones first."""
    view = ObjectView(obj)
    return view.created, view.name
