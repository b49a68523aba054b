"""Thrift's binary protocol: known bytes, round trips, and bytes that lie."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparksql.protocols.hiveserver2 import messages as m
from sparksql.protocols.hiveserver2.codec import (
    MAX_DEPTH,
    ProtocolError,
    Reader,
    Struct,
    TMessageType,
    encode,
    header,
)
from tests.support.work import lines_run

HANDLE = m.THandleIdentifier(b"0123456789abcdef", b"secret")
FEW_LINES = 1_000


def test_a_request_has_the_bytes_that_hives_clients_send() -> None:
    request = m.TExecuteStatementReq(m.TSessionHandle(HANDLE), "SELECT 1", {"a": "b"}, True, 5)
    handle = b"\x0b\0\1\0\0\0\x10" + HANDLE.guid + b"\x0b\0\2\0\0\0\6secret\0"
    assert encode(request) == (
        b"\x0c\0\1" + b"\x0c\0\1" + handle + b"\0"
        b"\x0b\0\2\0\0\0\x08SELECT 1"
        b"\x0d\0\3\x0b\x0b\0\0\0\1\0\0\0\1a\0\0\0\1b"
        b"\x02\0\4\1"
        b"\x0a\0\5" + struct.pack(">q", 5) + b"\0"
    )


def test_a_message_begins_with_version_type_name_and_sequence() -> None:
    message = header("GetInfo", TMessageType.REPLY, 7)
    assert message == b"\x80\1\0\2\0\0\0\7GetInfo\0\0\0\7"
    assert Reader(message).header() == ("GetInfo", TMessageType.REPLY, 7)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
handles = st.builds(m.THandleIdentifier, st.binary(max_size=20), st.binary(max_size=20))
i32, i64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
structs = st.one_of(
    st.builds(m.TOpenSessionReq, i32, texts, st.dictionaries(texts, texts, max_size=4)),
    st.builds(m.TExecuteStatementReq, st.builds(m.TSessionHandle, handles), texts, st.none(), st.booleans(), i64),
    st.builds(m.TGetTablesReq, st.builds(m.TSessionHandle, handles), st.none() | texts, texts, texts, st.lists(texts)),
    st.builds(m.TProgressUpdateResp, st.lists(texts), st.lists(st.lists(texts)), st.floats(allow_nan=False), i32, texts, i64),
    st.builds(m.TTableSchema, st.lists(st.builds(m.TColumnDesc, texts, st.builds(m.TTypeDesc, st.just([])), i32, texts))),
)  # fmt: skip


@given(structs)
def test_an_encoded_thrift_message_decodes_to_itself(message: Struct) -> None:
    assert Reader(encode(message)).message(type(message)) == message


@given(structs, structs)
def test_unknown_fields_of_a_message_are_skipped(known: Struct, unknown: Struct) -> None:
    field = b"\x0c\x7f\x01" + encode(unknown)
    assert Reader(field + encode(known)).message(type(known)) == known


@given(st.binary(max_size=300))
@settings(max_examples=500)
def test_any_bytes_give_a_message_or_a_protocol_error(data: bytes) -> None:
    for read in (Reader(data).header, lambda: Reader(data).argument(m.TOpenSessionReq)):
        with contextlib.suppress(ProtocolError):
            read()


@given(structs, st.data())
@settings(max_examples=300)
def test_damaged_messages_give_a_message_or_a_protocol_error(message: Struct, data: st.DataObject) -> None:
    damaged = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ProtocolError):
        Reader(bytes(damaged)).message(type(message))


MANY = struct.pack(">i", 2**31 - 1)
NEGATIVE = struct.pack(">i", -1)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x0b\0\2" + MANY + b"x", id="a text longer than the message"),
        pytest.param(b"\x0b\0\2" + NEGATIVE + b"x", id="a text of negative length"),
        pytest.param(b"\x0f\0\x09\x01" + MANY, id="a list of nothing"),
        pytest.param(b"\x0f\0\x09\x0c" + MANY + b"\0" * 50, id="a list of more structs than bytes"),
        pytest.param(b"\x0f\0\x09\x00" + struct.pack(">i", 9) + b"\0" * 50, id="a list of end marks"),
        pytest.param(b"\x0d\0\x04\x0b\x0b" + MANY, id="a map larger than the message"),
        pytest.param(b"\x0d\0\x04\x00\x00" + struct.pack(">i", 3) + b"\0" * 9, id="a map of end marks"),
        pytest.param(b"\x0c\0\x09" * 10_000, id="structs in structs"),
        pytest.param(b"\x0f\0\x09" + b"\x0f\0\0\0\1" * 10_000, id="lists in lists"),
        pytest.param(b"\x0b\0\2\0\0\0\1\xff\0", id="a text that is not UTF-8"),
        pytest.param(b"\x0b\0\2\0\0\0\1x", id="no end"),
        pytest.param(b"\x01\0\x09\0", id="a field of nothing"),
        pytest.param(b"\x63\0\x09\0", id="a field of an unknown type"),
    ],
)
def test_lies_are_found_out_at_once(data: bytes) -> None:
    def read() -> None:
        with pytest.raises(ProtocolError):
            Reader(data).message(m.TOpenSessionReq)

    lines_run(read, FEW_LINES)


def test_decoding_takes_work_in_proportion_to_the_message() -> None:
    """An honest list of empty structs is the most objects that bytes can ask for."""

    def read(count: int) -> None:
        data = b"\x0f\0\x09\x0c" + struct.pack(">i", count) + b"\0" * count + b"\0"
        assert Reader(data).message(m.TOpenSessionReq) == m.TOpenSessionReq()

    few = lines_run(lambda: read(1_000), 100 * 1_000)
    lines_run(lambda: read(10_000), 11 * few)


def test_nesting_has_a_bound_that_no_call_reaches() -> None:
    schema = m.TTableSchema([m.TColumnDesc("c", m.TTypeDesc([m.TTypeEntry(m.TPrimitiveTypeEntry(3))]), 1)])
    assert Reader(encode(schema)).message(m.TTableSchema) == schema
    deep = b"\x0c\0\x09" * MAX_DEPTH + b"\0" * (MAX_DEPTH + 1)
    with pytest.raises(ProtocolError, match="deeper than"):
        Reader(b"\x0c\0\x09" + deep + b"\0").message(m.TOpenSessionReq)


@pytest.mark.parametrize(
    "given", [b"\0\0\0\7GetInfo\1\0\0\0\7\0", b"\x80\2\0\1\0\0\0\0\0\0\0\0", b"\x80\1\0\x09\0\0\0\0\0\0\0\0"]
)
def test_a_header_of_another_protocol_is_a_protocol_error(given: bytes) -> None:
    with pytest.raises(ProtocolError):
        Reader(given).header()


def test_a_call_has_one_argument() -> None:
    request: Any = m.TGetInfoReq(m.TSessionHandle(HANDLE), 17)
    assert Reader(b"\x0c\0\1" + encode(request) + b"\0").argument(m.TGetInfoReq) == request
    with pytest.raises(ProtocolError, match="no argument"):
        Reader(b"\0").argument(m.TGetInfoReq)
