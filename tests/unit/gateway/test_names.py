"""Names of the JVM are asked for once."""

from __future__ import annotations

from typing import Any

from py4j import protocol
from py4j.java_gateway import JavaClass, JavaMember, JVMView

from sparksql.gateway.spark.names import JvmNames

CLASS = "java.util.HashMap"


class Client:
    """A JVM that knows one class, with one method of its own and one field. `asked` are the names that it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gateway_property = self
        self.pool: Any = None
        self.converters: Any = None

    def send_command(self, command: str) -> str:
        _, kind, name, member, *_ = command.split("\n")
        self.asked.append(f"{name}.{member}" if kind == protocol.REFL_GET_MEMBER_SUB_COMMAND_NAME.strip() else name)
        if kind == protocol.REFL_GET_MEMBER_SUB_COMMAND_NAME.strip():
            return (
                f"{protocol.SUCCESS}{protocol.METHOD_TYPE}"
                if member == "of"
                else f"{protocol.SUCCESS}{protocol.INTEGER_TYPE}7"
            )
        return protocol.SUCCESS_CLASS + name if name == CLASS else protocol.SUCCESS_PACKAGE


def test_each_part_of_a_name_is_asked_for_once() -> None:
    client = Client()
    jvm = JvmNames(JVMView(client, "jvm", id="root"))
    first = jvm.java.util.HashMap
    assert isinstance(first, JavaClass)
    assert first._fqn == CLASS
    assert jvm.java.util.HashMap is first
    assert client.asked == ["java", "java.util", CLASS]
    assert isinstance(jvm.java.lang, JvmNames)
    assert client.asked == ["java", "java.util", CLASS, "java.lang"]


def test_an_attribute_of_the_jvm_view_is_read_without_asking_the_jvm() -> None:
    client = Client()
    assert JvmNames(JVMView(client, "jvm", id="root"))._gateway_client is client
    assert client.asked == []


def test_a_method_of_a_class_is_asked_for_once_and_a_field_at_each_use() -> None:
    client = Client()
    found = JvmNames(JVMView(client, "jvm", id="root")).java.util.HashMap
    client.asked.clear()
    assert isinstance(found.of, JavaMember)
    assert found.of is found.of
    assert (found.SIZE, found.SIZE) == (7, 7)
    assert client.asked == [f"{CLASS}.of", f"{CLASS}.SIZE", f"{CLASS}.SIZE"]
