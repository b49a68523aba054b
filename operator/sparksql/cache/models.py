"""The models of stored objects that many others are decided by: a session is parsed once for all of its statements."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from sparksql.api.base import ApiObject
from sparksql.api.session import SqlSession
from sparksql.api.session_class import SqlSessionClass
from sparksql.engine.store import Object

O = TypeVar("O", bound=ApiObject)  # noqa: E741 - the object


class ModelCache(Generic[O]):
    """Keeps the models of the `size` raw objects that were asked for last.

    Objects of the store are never changed, only replaced, so a model belongs to one raw object, known by its identity.
    """

    def __init__(self, parse: Callable[[Object], O], size: int) -> None:
        self._parse = parse
        self._size = size
        self._models: OrderedDict[int, tuple[Object, O]] = OrderedDict()

    def __call__(self, obj: Object) -> O:
        """Returns the object's model. Raises ValueError if the CRD would refuse it."""
        if (kept := self._models.get(id(obj))) is not None:
            self._models.move_to_end(id(obj))
            return kept[1]
        model = self._parse(obj)
        self._models[id(obj)] = (obj, model)  # with the object: nothing else has its id while it lives
        if len(self._models) > self._size:
            self._models.popitem(last=False)
        return model


session_of: ModelCache[SqlSession] = ModelCache(SqlSession.parse, 512)
class_of: ModelCache[SqlSessionClass] = ModelCache(SqlSessionClass.parse, 64)
