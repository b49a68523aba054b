"""What the Python clients' programs share: one task on standard input, one JSON line on standard output for each answer.

It runs in the environments of the clients, so it needs nothing but Python.
"""

from __future__ import annotations

import datetime
import decimal
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def task() -> dict[str, Any]:
    read: dict[str, Any] = json.load(sys.stdin)
    return read


def plain(value: Any) -> Any:
    """A value as JSON, by its class only: what the client gave stays visible."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)
        case bytes() | bytearray() | memoryview():
            return {"bytes": bytes(value).hex()}
        case decimal.Decimal():
            return {"decimal": format(value, "f")}
        case datetime.datetime():
            return {"timestamp": value.isoformat(sep=" ")}
        case datetime.date():
            return {"date": value.isoformat()}
        case datetime.timedelta():
            return {"seconds": value.total_seconds()}
        case Mapping():
            return {"map": [[plain(k), plain(v)] for k, v in value.items()]}
        case _ if hasattr(value, "asDict"):
            return {"struct": [[name, plain(v)] for name, v in zip(value.__fields__, value, strict=True)]}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return {type(value).__name__: str(value)}


def answer(name: str, **fields: Any) -> None:
    print(json.dumps({"name": name, **fields}, ensure_ascii=False), flush=True)


def show_rows(name: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    answer(name, columns=list(columns), rows=[[plain(cell) for cell in row] for row in rows])


def guarded(name: str, action: Callable[[], None]) -> None:
    """Runs one step; what it raises is its answer."""
    started = time.monotonic()
    try:
        action()
    except Exception as error:  # whatever the client raises is what its user sees
        answer(name, error=str(error), kind=type(error).__name__, trace=traceback.format_exc()[-2000:])
    answer(f"{name}:seconds", value=round(time.monotonic() - started, 3))


def follow(cursor: Any, other: Any, cancel: Callable[[], object], database: str) -> None:
    """Reads a STREAM while rows come into it by another cursor, which is asked for one more when the query is canceled."""
    table = f"{database}.streamed"
    other.execute(f"CREATE TABLE {table} (v INT) USING parquet")
    other.execute(f"INSERT INTO {table} VALUES (1)")
    cursor.execute(f"SELECT v FROM STREAM {table}")
    rows = iter(cursor)
    first = next(rows)
    other.execute(f"INSERT INTO {table} VALUES (2)")
    second = next(rows)
    cancel()
    other.execute("SELECT 'alive'")
    answer("follow", value=plain([*first, *second, *other.fetchone()]))


def until(holds: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not {what} after {seconds} s")
        time.sleep(0.05)
