"""How statements of a session share executors that are pods, and what is answered while none is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.gate import Gate
from tests.e2e.protocol_clients import PROTOCOLS
from tests.e2e.test_clients import EVERY_PROTOCOL, Hand
from tests.support.harness import Space, phase

NEEDS_A_TASK = "SELECT sum(id) FROM range(0, 100, 1, 2)"
# Tasks of about a second each, of which one executor does one or two at a time.
LARGE = "SELECT count(*) FROM range(0, 20000000000, 1, 1200) WHERE hash(id, id + 1) = 5"  # each task is short
SLOTS = 2


@pytest.fixture
def hand(space: Space, tmp_path: Path) -> Iterator[Hand]:
    with ExitStack() as stack:
        yield Hand(space, tmp_path, stack)


def test_a_connection_is_alive_while_every_slot_is_taken_and_no_executor_comes(
    space: Space, gate: Gate, hand: Hand
) -> None:
    gate.session(space, "main", maxConcurrentStatements=SLOTS, endpoints=EVERY_PROTOCOL)
    busy = [space.statement(NEEDS_A_TASK) for _ in range(SLOTS)]
    for name in busy:
        space.wait_phase(name, "Running")
    try:
        for protocol in PROTOCOLS:
            client = hand.client("main", protocol)
            assert int(client.value("SELECT 1")) == 1, protocol
        # Those that hold the slots wait for an executor that does not come: no answer has waited for them.
        assert [phase(space.get(name)) for name in busy] == ["Running"] * SLOTS
    finally:
        for name in busy:
            space.cancel(name)
            space.cluster.wait_finished(space.name, name)


def test_a_small_query_does_not_wait_for_the_tasks_of_a_large_one(space: Space) -> None:
    space.session("shared")
    large = space.statement(LARGE, session="shared")
    space.wait_phase(large, "Running")
    space.cluster.wait(
        "SqlStatement", space.name, large, lambda obj: bool((obj or {})["status"].get("progress")), "having begun"
    )
    small = space.run("SELECT sum(id) FROM range(0, 10, 1, 1)", session="shared")
    assert phase(small) == "Finished", small["status"]
    seen = space.get(large)
    assert phase(seen) == "Running", seen["status"]
    space.cancel(large)
    space.cluster.wait_finished(space.name, large)
