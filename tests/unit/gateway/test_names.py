"""Names of the JVM are asked for once."""

from __future__ import annotations

from typing import Any

from py4j import protocol
from py4j.java_gateway import JavaClass, JVMView

from sparksql.gateway.spark.names import JvmNames

CLASS = "java.util.HashMap"


class Client:
    """A JVM that knows one class. `asked` are the names that it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gateway_property = self
        self.pool: Any = None
        self.converters: Any = None

    def send_command(self, command: str) -> str:
        name = command.split("\n")[2]
        self.asked.append(name)
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
