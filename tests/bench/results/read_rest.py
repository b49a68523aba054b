"""Reads one result through the REST API, page by page. Arguments: URL, certificate, way, seconds.

ARROW reads Arrow pages, JSON decodes JSON pages with Python's own decoder, QUICK with pydantic's; BYTES leaves them undecoded, so
that the server's own speed shows. The token and SQL are on stdin.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import sys
import time
import urllib.parse

import pyarrow as pa
import pydantic_core
from measuring import Reading

_ROW = b'{"kind":"INSERT","fields":['
_FIRST_ROW = re.compile(re.escape(_ROW) + rb"(\d+)")
_NEXT_PAGE = re.compile(rb'"nextResultUri":"[^"]*/(\d+)\?[^"]*"}$')
_TAIL_BYTES = 400  # more than the address of the next page


class Api:
    def __init__(self, url: str, certificate: str, token: str) -> None:
        parts = urllib.parse.urlsplit(url)
        context = ssl.create_default_context(cafile=certificate)
        self._connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, context=context, timeout=300)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def call(self, method: str, path: str, body: object = None) -> tuple[http.client.HTTPMessage, bytes]:
        self._connection.request(method, path, None if body is None else json.dumps(body), self._headers)
        response = self._connection.getresponse()
        data = response.read()
        if response.status != 200:
            raise SystemExit(f"{method} {path}: {response.status} {data[:500]!r}")
        return response.headers, data


def main(url: str, certificate: str, way: str, seconds: float) -> None:
    given = json.load(sys.stdin)
    api = Api(url, certificate, given["token"])
    session = json.loads(api.call("POST", "/v2/sessions", {})[1])["sessionHandle"]
    reading = Reading(seconds)
    base = f"/v2/sessions/{session}"
    operation = json.loads(api.call("POST", f"{base}/statements", {"statement": given["sql"]})[1])["operationHandle"]
    token: str | None = "0"
    path = f"{base}/operations/{operation}"
    while json.loads(api.call("GET", f"{path}/status")[1])["status"] in ("INITIALIZED", "PENDING", "RUNNING"):
        time.sleep(0.1)
    reading.ready()
    row_format = "ARROW" if way == "ARROW" else "JSON"
    while token is not None and not reading.is_over:
        headers, data = api.call("GET", f"{path}/result/{token}?rowFormat={row_format}")
        rows, first, token = _page(way, headers, data)
        reading.page(rows, first)
    reading.show(is_complete=token is None)
    api.call("DELETE", base)


def _page(way: str, headers: http.client.HTTPMessage, data: bytes) -> tuple[int, int, str | None]:
    """Rows of a page, its first row's number, and the next page's token."""
    match way:
        case "ARROW":
            table = pa.ipc.open_stream(data).read_all()
            return table.num_rows, table.column(0)[0].as_py() if table.num_rows else 0, headers.get("X-Next-Token")
        case "BYTES":
            found = _FIRST_ROW.search(data)
            following = _NEXT_PAGE.search(data, max(0, len(data) - _TAIL_BYTES))
            return data.count(_ROW), int(found[1]) if found else 0, following[1].decode() if following else None
        case _:
            page = (pydantic_core.from_json if way == "QUICK" else json.loads)(data)
            rows, uri = page["results"]["data"], page.get("nextResultUri")
            return len(rows), rows[0]["fields"][0] if rows else 0, uri.rsplit("/", 1)[1].split("?")[0] if uri else None


main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
