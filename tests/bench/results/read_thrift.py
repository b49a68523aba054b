"""Reads one result with impyla. Arguments: port, certificate, seconds. The token and SQL are on stdin."""

from __future__ import annotations

import json
import sys

from impala import dbapi
from measuring import Reading

ROWS = 10_000


def main(port: int, certificate: str, seconds: float) -> None:
    given = json.load(sys.stdin)
    connection = dbapi.connect(
        host="localhost", port=port, use_ssl=True, ca_cert=certificate, auth_mechanism="PLAIN", user="bench",
        password=given["token"], timeout=300,
    )  # fmt: skip
    cursor = connection.cursor()
    cursor.arraysize = ROWS
    reading = Reading(seconds)
    cursor.execute(given["sql"])
    reading.ready()
    rows: list[tuple[int, ...]] = [(0,)]
    while rows and not reading.is_over:
        rows = cursor.fetchmany(ROWS)
        reading.page(len(rows), rows[0][0] if rows else 0)
    reading.show(is_complete=not rows)
    cursor.close()
    connection.close()


main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
