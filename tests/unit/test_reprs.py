"""What the text of an object shows: no token, key, password, SQL text, parameter or row, since texts of objects get into logs and errors.

Fields are found by their type, which can hold such a text, and a word of their name. The test builds each class with marked values.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pydantic import BaseModel

import sparksql

MARK = "a-marked-value"
WORDS = frozenset(
    {
        *("token", "password", "secret", "secrets", "authorization", "credential", "login", "bearer", "delegation"),
        *("sql", "text", "texts", "statement", "fragment", "query", "parameters", "preview", "rows", "value", "config"),
    }
)  # the last of a field's name
KEYS = frozenset({"key", "private_key", "front_key", "key_pem"})  # bytes, or a text beside a certificate
# Fields with such a name and type that hold none, and why.
SHOWN = {
    "SavepointFacts.statement": "a name", "Claim.statement": "a name", "SavepointPlace.statement": "a name",
    "StateQuery.statement": "a name", "_Field.sql": "a type", "_Started.query": "an object of Spark", "Timed.rows": "a plan",
    "Source.rows": "a plan", "Total.value": "a function", "Watched.query": "an object of Spark", "Description.parameters": "a digest",
    "PublicText.text": "its type keeps SQL out",
}  # fmt: skip


def modules() -> Iterator[Any]:
    for found in pkgutil.walk_packages(sparksql.__path__, "sparksql."):
        yield importlib.import_module(found.name)


def classes() -> Iterator[type]:
    """Each dataclass and model of the product, once."""
    seen: set[type] = set()
    for module in modules():
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__ and value not in seen:
                seen.add(value)
                if dataclasses.is_dataclass(value) or issubclass(value, BaseModel):
                    yield value


def holds_text(annotation: Any) -> bool:
    """Whether a value of the type can be a text or hold one."""
    if annotation in (str, bytes, Any, object):
        return True
    if annotation in (dict, list, tuple, Mapping):
        return True
    return any(holds_text(each) for each in typing.get_args(annotation))


def fields(kind: type) -> Iterator[tuple[str, Any]]:
    """Name and type of each field; a type whose names are imported for the type checker only is a text."""
    if issubclass(kind, BaseModel):
        yield from ((name, each.annotation) for name, each in kind.model_fields.items())
        return
    try:
        hints = typing.get_type_hints(kind)
    except NameError:
        hints = {}
    for each in dataclasses.fields(kind):
        yield each.name, hints.get(each.name, each.type)


def is_sensitive(kind: type, name: str, annotation: Any) -> bool:
    if isinstance(annotation, str):
        can_hold = any(word in annotation for word in ("str", "bytes", "Any"))
    else:
        can_hold = holds_text(annotation)
    is_key = name in KEYS and (
        bytes in (annotation, *typing.get_args(annotation)) or "certificate" in dict(fields(kind))
    )
    return can_hold and (name.split("_")[-1] in WORDS or is_key)


def sensitive() -> list[tuple[type, tuple[str, ...]]]:
    """Each class that has such fields, and their names."""
    found = []
    for kind in classes():
        names = tuple(name for name, annotation in fields(kind) if is_sensitive(kind, name, annotation))
        names = tuple(name for name in names if f"{kind.__qualname__}.{name}" not in SHOWN)
        if names:
            found.append((kind, names))
    return found


SENSITIVE = sensitive()


def marked(kind: type, names: tuple[str, ...]) -> Any:
    """An object of the class with marked values in these fields, and None in all others."""
    if issubclass(kind, BaseModel):
        return kind.model_construct(**dict.fromkeys(names, MARK))
    made = object.__new__(kind)
    for name, _ in fields(kind):
        object.__setattr__(made, name, MARK if name in names else None)
    return made


@pytest.mark.parametrize(("kind", "names"), SENSITIVE, ids=[kind.__qualname__ for kind, _ in SENSITIVE])
def test_text_of_an_object_shows_no_secret_and_no_sql(kind: type, names: tuple[str, ...]) -> None:
    made = marked(kind, names)
    shown = [name for name in names if MARK in repr(made) and MARK not in repr(marked(kind, tuple({*names} - {name})))]
    assert MARK not in repr(made), f"repr=False for {shown or names} of {kind.__qualname__}, or say in SHOWN why not"


def test_classes_with_secrets_are_found() -> None:
    found = {f"{kind.__qualname__}.{name}" for kind, names in SENSITIVE for name in names}
    assert {
        *("User.token", "Target.token", "Address.token", "Identity.authorization", "Identity.key", "TlsPair.key"),
        *("Credentials.executor_secret", "Plain.password", "SubmitRequest.sql", "Parameter.value", "_Connection.token"),
        *("Inputs.sql", "TExecuteStatementReq.statement", "BindRequest.front_token", "ResultPage.rows"),
    } <= found
    known = {f"{kind.__qualname__}.{name}" for kind in classes() for name, _ in fields(kind)}
    assert {*SHOWN} <= known
