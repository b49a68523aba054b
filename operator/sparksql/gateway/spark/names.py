"""The JVM's packages and classes, by their names."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JavaPackage

REFLECTION_FUNCTIONS = frozenset(
    {"reflect", "java_method", "try_reflect"}
)  # which call any static method; dropped from each session


class JvmNames:
    """A package, or the root of all, each of whose members is asked for once.

    py4j asks for every part of a name at every use, and the JVM searches its whole class path before it calls one a package.
    """

    def __init__(self, members: Any) -> None:
        self._members = members

    def __getattr__(self, name: str) -> Any:
        """A member that is not kept yet; of a package that has none of this name, it is a package again."""
        found = getattr(self._members, name)
        match found:
            case JavaPackage():
                found = JvmNames(found)
            case JavaClass():
                found = JvmClass(found._fqn, found._gateway_client)
        setattr(self, name, found)
        return found


class JvmClass(JavaClass):  # type: ignore[misc] # py4j has no types
    """A class each of whose own methods is asked for once: py4j asks at every use whether a name is one. Fields are read anew."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            setattr(self, name, found)
        return found
