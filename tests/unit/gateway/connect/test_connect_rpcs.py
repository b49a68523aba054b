"""Settings, artifacts and errors: what passes, what is hidden, what clients are told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from pyspark.sql.connect.proto import base_pb2 as wire

from sparksql.gateway.frontends.connect import artifacts
from sparksql.gateway.frontends.connect.decoding import Decoder
from sparksql.gateway.frontends.connect.errors import (
    DETAILS_KEY,
    ConnectError,
    not_permitted,
    refused_by_service,
    refused_statement,
    session_closed,
    stopped,
    told_by,
)
from sparksql.gateway.frontends.connect.settings import read_config, without_secrets
from sparksql.gateway.sessions.model import ClientError, Problem
from sparksql.gateway.sql.errors import StatementError
from sparksql.wire.control import OperationError
from sparksql.wire.driver import SqlPolicy

POLICY = SqlPolicy(conf_allow=("spark.sql.*",), enforced_conf={"spark.sql.ansi.enabled": "true"})
BLOCK = "cache/" + "0f" * 32


def config(**operation: object) -> bytes:
    request = wire.ConfigRequest(operation=wire.ConfigRequest.Operation(**operation))
    return bytes(request.SerializeToString())


@pytest.mark.parametrize(
    "key", ["spark.master", "spark.jars", "SPARK.Connect.grpc.debug", "spark.sql.ansi.enabled", "my.key", ""]
)
@pytest.mark.parametrize("how", ["set", "unset"])
def test_a_key_that_is_not_allowed_is_neither_set_nor_unset(key: str, how: str) -> None:
    allowed = "spark.sql.shuffle.partitions"
    if how == "set":
        pairs = [wire.KeyValue(key=allowed, value="3"), wire.KeyValue(key=key, value="x")]
        data = config(set=wire.ConfigRequest.Set(pairs=pairs))
    else:
        data = config(unset=wire.ConfigRequest.Unset(keys=[allowed, key]))
    with pytest.raises(StatementError, match="configuration key"):
        read_config(data, POLICY)


def test_allowed_keys_are_set_and_all_keys_may_be_asked_for() -> None:
    key = "spark.sql.shuffle.partitions"
    pairs = [wire.KeyValue(key=key, value="3")]
    assert read_config(config(set=wire.ConfigRequest.Set(pairs=pairs)), POLICY).operation.set.pairs[0].value == "3"
    for operation in ("get", "get_option", "is_modifiable"):
        asked = wire.ConfigRequest.Operation()
        getattr(asked, operation).keys.append("spark.master")
        read_config(wire.ConfigRequest(operation=asked).SerializeToString(), POLICY)
    with pytest.raises(ConnectError):
        read_config(config(), POLICY)


def test_values_that_look_like_secrets_are_hidden() -> None:
    shown = {"spark.sql.shuffle.partitions": "3", "spark.app.name": "x"}
    secret = {
        "spark.hadoop.fs.s3a.secret.key": "abc",
        "spark.connect.authenticate.token": "abc",
        "my.url": "?password=abc",
    }
    pairs = [wire.KeyValue(key=key, value=value) for key, value in {**shown, **secret}.items()]
    unset = wire.KeyValue(key="spark.sql.secret")
    answer = wire.ConfigResponse.FromString(
        without_secrets(wire.ConfigResponse(session_id="s", pairs=[*pairs, unset]).SerializeToString())
    )
    values = {pair.key: pair.value for pair in answer.pairs}
    assert answer.session_id == "s"
    assert {key: values[key] for key in shown} == shown
    assert all("abc" not in values[key] and "redacted" in values[key] for key in secret)
    assert not answer.pairs[-1].HasField("value")


NAMES = [
    "jars/a.jar", "classes/A.class", "pyfiles/a.py", "archives/a.zip", "files/a", "forward_to_fs/x", "cache/../jars/a.jar",
    "cache/", "cache/x/y", BLOCK.upper(), BLOCK + "/../../jars/x", " " + BLOCK, BLOCK + "\n", "",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", ["batch", "chunked"])
def test_only_blocks_of_local_data_are_taken(name: str, how: str) -> None:
    kinds = wire.AddArtifactsRequest
    if how == "batch":
        single = [kinds.SingleChunkArtifact(name=BLOCK), kinds.SingleChunkArtifact(name=name)]
        request = kinds(batch=kinds.Batch(artifacts=single))
    else:
        request = kinds(begin_chunk=kinds.BeginChunkedArtifact(name=name))
    with pytest.raises(ConnectError, match="only blocks of local data") as refused:
        artifacts.read_artifacts(request.SerializeToString())
    assert refused.value.code is grpc.StatusCode.PERMISSION_DENIED


async def test_a_stream_of_blocks_is_for_one_session_and_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = Decoder()
    kinds = wire.AddArtifactsRequest

    def block(session: str, data: bytes = b"x") -> bytes:
        chunk = kinds.ArtifactChunk(data=data)
        single = kinds.SingleChunkArtifact(name=BLOCK, data=chunk)
        return bytes(kinds(session_id=session, batch=kinds.Batch(artifacts=[single])).SerializeToString())

    async def stream(*messages: bytes) -> AsyncIterator[bytes]:
        for message in messages:
            yield message

    async def read(*messages: bytes) -> int:
        return len([request async for request in artifacts.checked(stream(*messages), decoder)])

    assert await read(block("a"), block("a")) == 2
    with pytest.raises(ConnectError, match="different sessions"):
        await read(block("a"), block("b"))
    with pytest.raises(ConnectError, match="holds no artifact"):
        await read(b"")
    monkeypatch.setattr(artifacts, "MAX_ARTIFACT_BYTES", 1000)
    with pytest.raises(ConnectError, match="more than 1000 bytes"):
        await read(block("a", b"x" * 600), block("a", b"x" * 600))
    decoder.close()


def test_a_client_can_read_condition_and_sql_state_of_a_refusal() -> None:
    refused = session_closed("abc")
    status = status_pb2.Status.FromString(refused.details())
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (
        status.message
        == str(refused)
        == "[INVALID_HANDLE.SESSION_CLOSED] The handle abc is invalid. Session was closed."
    )
    assert (info.metadata["errorClass"], info.metadata["sqlState"]) == ("INVALID_HANDLE.SESSION_CLOSED", "HY000")
    assert json.loads(info.metadata["classes"]) == ["org.apache.spark.SparkException"]
    told = told_by("", [(DETAILS_KEY, refused.details())])
    assert (told.has_details, told.condition, told.sql_state) == (True, refused.condition, refused.sql_state)


@pytest.mark.parametrize("trailing", [[], [(DETAILS_KEY, b"\xff")], [(DETAILS_KEY, b"")], [("other", b"x")]])
def test_a_status_without_details_is_no_error_of_spark_s(trailing: list[tuple[str, bytes]]) -> None:
    told = told_by("connection reset", trailing)
    assert (told.has_details, told.message) == (False, "connection reset")


@pytest.mark.parametrize("problem", Problem)
def test_each_problem_has_a_status_that_clients_do_not_take_for_success(problem: Problem) -> None:
    refused = refused_by_service(ClientError(problem, "why"))
    assert refused.code is not grpc.StatusCode.OK
    assert (refused.code is grpc.StatusCode.UNAVAILABLE) == (problem is Problem.NOT_READY)
    assert str(refused) == "why"


def test_a_text_that_does_not_parse_is_a_parse_error_and_one_not_allowed_is_not() -> None:
    parse = refused_statement(
        OperationError(condition="PARSE_SYNTAX_ERROR", sql_state="42601", message="[PARSE_SYNTAX_ERROR] x")
    )
    assert (str(parse), parse.sql_state, parse.java_class.rpartition(".")[2]) == (
        "[PARSE_SYNTAX_ERROR] x",
        "42601",
        "ParseException",
    )
    denied = refused_statement(OperationError(message="no"))
    assert (denied.code, denied.sql_state) == (grpc.StatusCode.PERMISSION_DENIED, not_permitted("").sql_state)
    assert "it took too long" in str(stopped("it took too long"))
