"""A mirror follows list and watch through every hiccup of the API server."""

import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

from localkube.api import Mirror


class ScriptedServer:
    """An API server whose every answer the test hands out: an exception to raise, or what to answer."""

    def __init__(self) -> None:
        self.listings: queue.Queue[Any] = queue.Queue()
        self.events: queue.Queue[Any] = queue.Queue()

    def request(self, method: str, path: str) -> dict[str, Any]:
        assert (method, path) == ("GET", "/things")
        answer = self.listings.get()
        if isinstance(answer, Exception):
            raise answer
        return {"metadata": {"resourceVersion": "7"}, "items": answer}

    def watch(self, path: str, version: str) -> Iterator[dict[str, Any]]:
        assert (path, version) == ("/things", "7")
        while (event := self.events.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event


def thing(uid: str, value: int = 0) -> dict[str, Any]:
    return {"metadata": {"uid": uid}, "value": value}


def expect(mirror: Mirror, wanted: list[dict[str, Any]]) -> None:
    deadline = time.monotonic() + 60
    while mirror.objects() != wanted:
        assert time.monotonic() < deadline, mirror.objects()
        time.sleep(0.01)


def test_a_mirror_survives_errors_ends_and_lost_versions() -> None:
    server, changed = ScriptedServer(), threading.Event()
    server.listings.put(ConnectionRefusedError("starting"))
    server.listings.put([thing("a")])
    mirror = Mirror(server, "/things", changed)  # type: ignore[arg-type]
    assert mirror.synced.wait(60)
    expect(mirror, [thing("a")])
    changed.clear()

    server.events.put({"type": "ADDED", "object": thing("b")})
    server.events.put({"type": "MODIFIED", "object": thing("a", 1)})
    server.events.put({"type": "BOOKMARK", "object": {"metadata": {}}})
    expect(mirror, [thing("a", 1), thing("b")])
    assert changed.wait(60)
    server.events.put({"type": "DELETED", "object": thing("b")})
    expect(mirror, [thing("a", 1)])

    server.events.put(ConnectionResetError("killed"))
    server.listings.put(TimeoutError("still down"))
    expect(mirror, [thing("a", 1)])  # what was known is kept meanwhile
    server.listings.put([thing("c")])
    expect(mirror, [thing("c")])

    server.events.put({"type": "ERROR", "object": {"code": 410, "message": "too old"}})
    server.listings.put([thing("d")])
    expect(mirror, [thing("d")])

    server.events.put(None)  # the server ends a watch in good order
    server.listings.put([thing("e")])
    expect(mirror, [thing("e")])
