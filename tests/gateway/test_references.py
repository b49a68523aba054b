"""Objects of the JVM that Python lets go of are released there, many by one write."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER, ClientServerConnection
from py4j.protocol import Py4JNetworkError

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.references import BATCH, release_in_batches

from .local_spark import local_spark

SECONDS = 30.0
MANY = 3 * BATCH


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    with local_spark(tmp_path_factory.mktemp("references")) as started:
        yield started


def known(driver: SparkDriver, ids: list[str]) -> list[str]:
    """Those of these objects that the JVM keeps for Python."""
    client = driver.jvm._gateway_client
    return [each for each in ids if client.send_command(f"c\n{each}\nhashCode\ne\n").startswith("y")]


def test_objects_that_python_lets_go_of_are_released_in_batches(
    driver: SparkDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one: list[str] = []
    send = ClientServerConnection.send_command

    def counted(self: ClientServerConnection, command: str) -> Any:
        if command.startswith("m\n"):
            one_by_one.append(command)
        return send(self, command)

    monkeypatch.setattr(ClientServerConnection, "send_command", counted)
    objects = [driver.jvm.java.util.ArrayList() for _ in range(MANY)]
    kept, ids = objects[0], [each._target_id for each in objects]
    assert known(driver, ids) == ids
    objects.clear()
    gc.collect()
    deadline = time.monotonic() + SECONDS
    while len(left := known(driver, ids)) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == [kept._target_id]
    assert one_by_one == []


class FakeClient:
    """What py4j's client is for its worker."""

    is_connected = True

    def __init__(self, *waiting: Any) -> None:
        self.finalizer_deque = list(waiting)
        self.enqueued: list[str] = []

    def garbage_collect_object(self, target_id: str) -> None:
        self.enqueued.append(target_id)


def test_an_end_of_the_worker_that_waits_among_objects_is_left_for_it() -> None:
    client = FakeClient((None, "o3"), SHUTDOWN_FINALIZER_WORKER, (None, "o2"))
    written: list[bytes] = []

    class Connection:
        socket = type("Socket", (), {"sendall": staticmethod(written.append)})
        stream = type("Stream", (), {"readline": staticmethod(lambda: b"!yv\n")})

    client._get_connection = Connection  # type: ignore[attr-defined]
    client._give_back_connection = lambda connection: None  # type: ignore[attr-defined]
    release_in_batches(client)
    client.garbage_collect_object("o0")
    assert client.enqueued == ["o0"]
    client.garbage_collect_object("o1", False)  # type: ignore[call-arg]
    assert written == [b"m\nd\no1\ne\nm\nd\no2\ne\n"]
    assert client.finalizer_deque == [(None, "o3"), SHUTDOWN_FINALIZER_WORKER]


@pytest.mark.parametrize("error", [OSError("reset"), Py4JNetworkError("not connected"), RuntimeError("other")])
def test_a_release_that_fails_leaves_the_worker_alive(error: Exception) -> None:
    client, closed = FakeClient(), []

    class Connection:
        def __init__(self) -> None:
            self.socket = self

        def sendall(self, _: bytes) -> None:
            raise error

        def close(self) -> None:
            closed.append(self)

    release_in_batches(client)
    client._get_connection = Connection  # type: ignore[attr-defined]
    client.garbage_collect_object("o1", False)  # type: ignore[call-arg]
    assert len(closed) == 1

    def refused() -> None:
        raise error

    client._get_connection = refused  # type: ignore[attr-defined]
    client.garbage_collect_object("o1", False)  # type: ignore[call-arg]
