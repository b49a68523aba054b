"""Models of stored objects are made once for each version, and never for another object's sake."""

from __future__ import annotations

from sparksql.api.session import SqlSession
from sparksql.cache.models import ModelCache
from sparksql.engine.store import Object


def session(name: str) -> Object:
    return {"metadata": {"name": name, "namespace": "n", "uid": "u", "resourceVersion": "1"}, "spec": {}}


def test_object_that_is_asked_for_again_is_not_parsed_again() -> None:
    parsed: list[str] = []

    def parse(obj: Object) -> SqlSession:
        parsed.append(obj["metadata"]["name"])
        return SqlSession.parse(obj)

    models, first, second = ModelCache(parse, 3), session("a"), session("b")
    assert models(first) is models(first)
    assert models(second).metadata.name == "b"
    assert models(session("a")) is not models(first)  # an equal object is another version
    assert parsed == ["a", "b", "a"]


def test_model_that_was_not_asked_for_the_longest_goes_first() -> None:
    models = ModelCache(SqlSession.parse, 2)
    first, second, third = session("a"), session("b"), session("c")
    kept = models(first)
    models(second)
    models(first)
    models(third)
    assert models(first) is kept
