"""Reads one result through the REST API, page by page. Arguments: URL, certificate, JSON or ARROW, seconds. The token and SQL are on stdin."""

from __future__ import annotations

import http.client
import json
import ssl
import sys
import time
import urllib.parse

import pyarrow as pa
from measuring import Reading


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


def main(url: str, certificate: str, row_format: str, seconds: float) -> None:
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
    while token is not None and not reading.is_over:
        headers, data = api.call("GET", f"{path}/result/{token}?rowFormat={row_format}")
        if row_format == "ARROW":
            table = pa.ipc.open_stream(data).read_all()
            reading.page(table.num_rows, table.column(0)[0].as_py() if table.num_rows else 0)
            token = headers.get("X-Next-Token")
        else:
            page = json.loads(data)
            rows = page["results"]["data"]
            reading.page(len(rows), rows[0]["fields"][0] if rows else 0)
            following = page.get("nextResultUri")
            token = following.rsplit("/", 1)[1].split("?")[0] if following else None
    reading.show(is_complete=token is None)
    api.call("DELETE", base)


main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
