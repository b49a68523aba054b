"""The few Scala shapes that the gateway reads through py4j: options, sequences, objects, class names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.java_gateway import JavaMember

_CLASS_UTILS = "z:org.apache.commons.lang3.ClassUtils"  # Spark brings it; `z:` is py4j's word for a class's own methods
_TYPE_UTIL = "z:py4j.reflection.TypeUtil"
_NAME = "_simple_name"  # of an attribute of py4j's object


def simple_name(value: Any) -> str:
    """Returns the simple class name of a JVM object, e.g. `InsertIntoStatement`. It asks the JVM once for each object."""
    known: str | None = vars(value).get(_NAME)
    if known is None:
        known = str(JavaMember("getSimpleName", None, _CLASS_UTILS, value._gateway_client)(value))
        setattr(value, _NAME, known)  # one check after the other asks for the name of the same node
    return known


def type_class(data_type: Any) -> str:
    """Returns the class of a DataType, e.g. `StringType`, whether it is Scala's `object` or has parameters."""
    return simple_name(data_type).removesuffix("$")


def is_a(value: Any, class_name: str) -> bool:
    """Returns whether a JVM object is of a class, by its full name, or of one below it."""
    return bool(JavaMember("isInstanceOf", None, _TYPE_UTIL, value._gateway_client)(class_name, value))


def option(value: Any) -> Any | None:
    """Returns what an Option holds, None for an empty one."""
    return value.get() if value.isDefined() else None


def elements(sequence: Any) -> list[Any]:
    """Returns the elements of a Scala collection. It asks the JVM as few times as can be: most have two elements at most."""
    match sequence.size():
        case 0:
            return []
        case 1:
            return [sequence.head()]
        case 2:
            return [sequence.head(), sequence.last()]
        case size:
            indexed = sequence.toIndexedSeq()
            return [indexed.apply(index) for index in range(size)]


def text_map(values: Any) -> dict[str, str]:
    """Returns a java.util.Map of texts.

    Its keys are asked for by their numbers: the end of a Java iteration is an exception there, which PySpark compares with
    all that it knows, 70 calls.
    """
    if values.isEmpty():
        return {}
    keys = values.keySet().toArray()
    names = [keys[index] for index in range(len(keys))]
    return {str(name): str(values.get(name)) for name in names}


def fields(product: Any) -> Iterator[Any]:
    """Returns the fields of a case class, in order."""
    for index in range(int(product.productArity())):
        yield product.productElement(index)


def scala_object(package: Any, name: str) -> Any:
    """Returns the instance of a Scala `object` in a py4j package."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
