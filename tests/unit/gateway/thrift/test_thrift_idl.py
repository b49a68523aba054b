"""The numbers, names and types that the gateway declares are those of Hive's IDL, TCLIService.thrift.

The IDL is read from the classes that Hive generated from it: Spark brings their jar (hive-service-rpc), so nothing of Hive's is
in this repository, and the version compared with is the one that the drivers run beside.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import IntEnum
from pathlib import Path
from types import ModuleType

import pytest

from sparksql.gateway.frontends.thrift import rowset
from sparksql.gateway.frontends.thrift.dispatch import METHODS
from sparksql.gateway.spark.jvm import spark_home
from sparksql.protocols.hiveserver2 import codec, messages
from sparksql.protocols.hiveserver2.codec import Shape, Struct, TMessageType, TType
from sparksql.protocols.hiveserver2.messages import TTypeId

# Classes of ours that stand for no struct or enum of the IDL by themselves: they are compared by the methods that use them.
SHARED = {messages.SessionRequest, messages.OperationRequest, messages.StatusResponse, messages.OperationResponse}
# Thrift's own, not Hive's: their values are constants of a class in libthrift.
CONSTANTS: dict[type[IntEnum], str] = {
    TType: "TType",
    TMessageType: "TMessageType",
    messages.ApplicationError: "TApplicationException",
}
WITHOUT_IDL = {
    messages.FetchType: "an i16 of TFetchResultsReq, whose values the IDL tells in a comment",
    messages.TApplicationException: "Thrift's own, see CONSTANTS for its types",
    messages.TGetLogResp: "of GetLog, which Hive's IDL has no more",
}
METHODS_WITHOUT_IDL = {"GetLog"}


@dataclass(frozen=True)
class Idl:
    """`structs`: number -> (name, type) for each struct; `enums`: name -> number for each enum."""

    structs: dict[str, dict[int, tuple[str, str]]] = field(default_factory=dict)
    enums: dict[str, dict[str, int]] = field(default_factory=dict)

    def plain(self, type_: str) -> str:
        """The type as it is on the wire, where an enum is an i32."""
        return re.sub(r"\w+", lambda name: "i32" if name[0] in self.enums else name[0], type_)


@pytest.fixture(scope="session")
def idl() -> Idl:
    java = shutil.which("java")
    assert java is not None
    jars = spark_home() / "jars"
    (generated,) = jars.glob("hive-service-rpc-*.jar")
    path = ":".join(
        str(jar) for part in ("hive-service-rpc", "libthrift", "slf4j-api") for jar in jars.glob(f"{part}-*")
    )
    source = Path(__file__).with_name("PrintHiveIdl.java")
    printed = subprocess.run(
        [java, "-cp", path, str(source), str(generated)], capture_output=True, text=True, check=False, timeout=300
    )
    assert printed.returncode == 0, printed.stderr[-4000:]
    known = Idl()
    for line in printed.stdout.splitlines():
        owner, number, name, type_ = line.split("\t")
        if type_ == "=":
            known.enums.setdefault(owner, {})[name] = int(number)
        else:
            known.structs.setdefault(owner, {})[int(number)] = name, type_
    assert "TOpenSessionReq" in known.structs and "TTypeId" in known.enums
    return known


def declared(module: ModuleType, base: type) -> list[type]:
    return [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, base) and each is not base and each.__module__ == module.__name__
    ]


MESSAGES = [each for each in declared(messages, Struct) if each not in SHARED and each not in WITHOUT_IDL]
ENUMS = [
    each
    for module in (messages, codec)
    for each in declared(module, IntEnum)
    if each not in CONSTANTS and each not in WITHOUT_IDL
]


def type_name(shape: Shape) -> str:
    match shape.kind:
        case TType.STRUCT:
            assert shape.struct is not None
            return shape.struct.__name__
        case TType.LIST | TType.SET:
            assert shape.item is not None
            return f"{shape.kind.name.lower()}<{type_name(shape.item)}>"
        case TType.MAP:
            assert shape.key is not None and shape.item is not None
            return f"map<{type_name(shape.key)},{type_name(shape.item)}>"
        case TType.STRING if shape.binary:
            return "binary"
        case kind:
            return kind.name.lower()


def snake_case(name: str) -> str:
    """`sessionHandle` -> `session_handle`."""
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def differences(idl: Idl, message: type[Struct], struct: str) -> Iterator[str]:
    """What is wrong with the declared fields of `message`; those that it leaves out are skipped on the wire."""
    known = idl.structs[struct]
    for part in fields(message):  # type: ignore[arg-type]
        number, shape = part.metadata["number"], part.metadata["shape"]
        ours = f"{message.__name__}.{part.name}: {number} {type_name(shape)}"
        if number not in known:
            yield f"{ours}: {struct} has no field {number}"
            continue
        name, type_ = known[number]
        if (part.name, type_name(shape)) != (snake_case(name), idl.plain(type_)):
            yield f"{ours}: {struct} has {number} {name} {type_}"


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: each.__name__)
def test_fields_of_a_thrift_message_are_those_of_hives_idl(idl: Idl, message: type[Struct]) -> None:
    assert message.__name__ in idl.structs, f"Hive's IDL has no struct {message.__name__}"
    assert list(differences(idl, message, message.__name__)) == []


@pytest.mark.parametrize("enum", ENUMS, ids=lambda each: each.__name__)
def test_values_of_a_thrift_enum_are_those_of_hives_idl(idl: Idl, enum: type[IntEnum]) -> None:
    assert enum.__name__ in idl.enums, f"Hive's IDL has no enum {enum.__name__}"
    known = idl.enums[enum.__name__]
    assert {each.name: each.value for each in enum} == {each.name: known.get(each.name) for each in enum}


@pytest.mark.parametrize("enum", CONSTANTS, ids=lambda each: each.__name__)
def test_constants_of_thrift_itself_are_those_of_its_library(idl: Idl, enum: type[IntEnum]) -> None:
    known = idl.enums[CONSTANTS[enum]]
    assert {each.name: each.value for each in enum} == {each.name: known.get(each.name) for each in enum}


@pytest.mark.parametrize("method", sorted(set(METHODS) - METHODS_WITHOUT_IDL))
def test_request_and_answer_of_a_thrift_method_are_those_of_hives_idl(idl: Idl, method: str) -> None:
    assert f"TCLIService${method}_args" in idl.structs, f"Hive's IDL has no method {method}"
    assert idl.structs[f"TCLIService${method}_args"] == {1: ("req", f"T{method}Req")}
    assert idl.structs[f"TCLIService${method}_result"] == {0: ("success", f"T{method}Resp")}
    request, answer = METHODS[method].argument, METHODS[method].refusal
    for message, struct in ((request, f"T{method}Req"), (answer, f"T{method}Resp")):
        if isinstance(message, type):
            assert list(differences(idl, message, struct)) == []
            assert message in SHARED or message.__name__ == struct


def test_thrift_methods_without_an_answer_are_those_that_hives_idl_does_not_have(idl: Idl) -> None:
    hives = {name.removeprefix("TCLIService$").removesuffix("_args") for name in idl.structs if name.endswith("_args")}
    assert set(METHODS) - hives == METHODS_WITHOUT_IDL
    assert hives - set(METHODS) == {"UploadData", "DownloadData"}  # of Hive's own tools: answered as unknown


def test_protocol_versions_of_the_gateway_are_those_of_hives_idl(idl: Idl) -> None:
    versions = idl.enums["TProtocolVersion"]
    assert versions["HIVE_CLI_SERVICE_PROTOCOL_V11"] == messages.NEWEST_PROTOCOL == max(versions.values())
    assert versions["HIVE_CLI_SERVICE_PROTOCOL_V6"] == messages.FIRST_COLUMNAR_PROTOCOL


@pytest.mark.parametrize("type_id", TTypeId, ids=lambda each: each.name)
def test_values_of_a_type_travel_in_a_member_of_hives_unions(idl: Idl, type_id: TTypeId) -> None:
    carrier = rowset._carrier(type_id)
    name, column = idl.structs["TColumn"][carrier.member]
    is_binary = carrier is rowset._BINARY
    wire = "binary" if is_binary else carrier.kind.name.lower()
    assert idl.structs[column] == {1: ("values", f"list<{wire}>"), 2: ("nulls", "binary")}, name
    in_row, value = idl.structs["TColumnValue"][rowset._BINARY_IN_ROWS if is_binary else carrier.member]
    assert idl.structs[value][1] == ("value", "string" if is_binary else wire), in_row


def test_row_sets_and_fetched_answers_are_numbered_as_in_hives_idl(idl: Idl) -> None:
    """`rowset` and `fetching` write these without a declaration."""
    written = {1: ("startRowOffset", "i64"), 2: ("rows", "list<TRow>"), 3: ("columns", "list<TColumn>")}
    assert {number: idl.structs["TRowSet"][number] for number in written} == written
    assert idl.structs["TRow"] == {1: ("colVals", "list<TColumnValue>")}
    answer = {1: ("status", "TStatus"), 2: ("hasMoreRows", "bool"), 3: ("results", "TRowSet")}
    assert idl.structs["TFetchResultsResp"] == answer
