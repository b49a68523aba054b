"""The AddArtifacts RPC: blocks of local data may pass, code and files may not.

Clients send large local data ahead of the plan that uses it, as `cache/<hash>`; everything else that can be sent this way is
jars, classes, Python modules, archives and files.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

from pyspark.sql.connect.proto import base_pb2 as wire

from sparksql.gateway.frontends.connect.backend import SessionKey
from sparksql.gateway.frontends.connect.decoding import Decoder
from sparksql.gateway.frontends.connect.errors import malformed, not_permitted
from sparksql.gateway.frontends.connect.plans import decode

MAX_ARTIFACT_BYTES = 4 << 30  # of one RPC; Spark keeps them on the driver's disk when memory is short
_BLOCK = re.compile(r"cache/[0-9a-f]{64}")


def check_name(name: str) -> None:
    """Raises ConnectError."""
    if _BLOCK.fullmatch(name) is None:
        raise not_permitted(
            f"artifact {name[:200]!r} is not allowed over Connect: only blocks of local data (cache/...) are, no code and no files"
        )


def read_artifacts(data: bytes) -> wire.AddArtifactsRequest:
    """Decodes one message of the stream. Raises ConnectError."""
    request = decode(wire.AddArtifactsRequest, data)
    match request.WhichOneof("payload"):
        case "batch":
            for artifact in request.batch.artifacts:
                check_name(artifact.name)
        case "begin_chunk":
            check_name(request.begin_chunk.name)
        case "chunk":
            pass
        case _:
            raise malformed("the message holds no artifact")
    return request


def session_of(request: wire.AddArtifactsRequest) -> SessionKey:
    """Returns the session that a message names."""
    return SessionKey(request.user_context.user_id, request.session_id)


async def checked(messages: AsyncIterator[bytes], decoder: Decoder) -> AsyncIterator[wire.AddArtifactsRequest]:
    """Yields the stream as it may be forwarded, all of it for the session of its first message. Raises ConnectError."""
    key: SessionKey | None = None
    size = 0
    async for data in messages:
        request = await decoder.run(read_artifacts, data)
        key = key or session_of(request)
        if session_of(request) != key:
            raise malformed("the artifacts of one request are for different sessions")
        size += len(data)
        if size > MAX_ARTIFACT_BYTES:
            raise malformed(f"the artifacts of one request have more than {MAX_ARTIFACT_BYTES} bytes")
        yield request
