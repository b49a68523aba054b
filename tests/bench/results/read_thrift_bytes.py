"""Reads one result through HiveServer2's protocol without decoding its rows, so that the server's own speed shows.

Arguments: port, certificate, seconds. The token and SQL are on stdin; the result's first column is BIGINT.
"""

from __future__ import annotations

import json
import ssl
import struct
import sys

from sparksql.protocols.hiveserver2 import messages as m
from sparksql.protocols.hiveserver2.codec import TType, field_header
from tests.bench.results.measuring import Reading
from tests.support.thrift_client import Fields, ThriftClient

ROWS = 10_000  # a page, as impyla is told
PROTOCOL = 9  # V10 of HiveServer2
_FIRST_COLUMN = field_header(TType.STRUCT, 5) + field_header(TType.LIST, 1) + bytes([TType.I64])


def main(port: int, certificate: str, seconds: float) -> None:
    given = json.load(sys.stdin)
    client = ThriftClient(port, ssl.create_default_context(cafile=certificate), given["token"], seconds=300)
    session = m.TSessionHandle(_identifier(client.call("OpenSession", m.TOpenSessionReq(PROTOCOL, "bench", {}))[3]))
    reading = Reading(seconds)
    answer = client.call("ExecuteStatement", m.TExecuteStatementReq(session, given["sql"]))
    operation = m.TOperationHandle(_identifier(answer[2]), answer[2][2])
    reading.ready()
    rows = 1
    while rows and not reading.is_over:
        client.send("FetchResults", m.TFetchResultsReq(operation, max_rows=ROWS))
        rows, first = _page(client.receive_frame())
        reading.page(rows, first)
    reading.show(is_complete=not rows)
    client.call("CloseSession", m.SessionRequest(session))


def _identifier(handle: Fields) -> m.THandleIdentifier:
    return m.THandleIdentifier(handle[1][1], handle[1][2])


def _page(frame: bytes) -> tuple[int, int]:
    """Rows of a page and its first row's number, from the begin of the first column."""
    at = frame.index(_FIRST_COLUMN) + len(_FIRST_COLUMN)
    (rows,) = struct.unpack_from(">i", frame, at)
    return rows, struct.unpack_from(">q", frame, at + 4)[0] if rows else 0


main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
