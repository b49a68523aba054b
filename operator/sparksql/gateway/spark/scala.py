"""The few Scala shapes that the gateway reads through py4j: options, sequences, objects, class names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def simple_name(value: Any) -> str:
    """Returns the simple class name of a JVM object, e.g. `InsertIntoStatement`."""
    return str(value.getClass().getSimpleName())


def option(value: Any) -> Any | None:
    """Returns what an Option holds, None for an empty one."""
    return value.get() if value.isDefined() else None


def elements(sequence: Any) -> list[Any]:
    """Returns the elements of a Scala collection."""
    found: list[Any] = []
    iterator = sequence.iterator()
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def fields(product: Any) -> Iterator[Any]:
    """Returns the fields of a case class, in order."""
    for index in range(int(product.productArity())):
        yield product.productElement(index)


def scala_object(package: Any, name: str) -> Any:
    """Returns the instance of a Scala `object` in a py4j package."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
