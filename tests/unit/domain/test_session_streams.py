"""Sessions and the streams that run in them: these use a session, and no drain waits for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.domain.session.decide import decide
from sparksql.domain.session.snapshot import Command
from tests.unit.domain.builders.objects import NOW, seconds, with_spec
from tests.unit.domain.builders.sessions import draining, gateway, pod, ready, session_snapshot


@given(st.integers(0, 3), st.integers(0, 3))
def test_drain_waits_for_statements_that_come_to_an_end(batch: int, streams: int) -> None:
    obj = draining(with_spec(ready(), restartNonce="1"))
    facts = {"pod": pod(obj), "gateway": gateway(), "running": batch + streams, "streams": streams}
    decision = decide(session_snapshot(obj, **facts))
    assert (Command.DELETE_DRIVER in decision.commands) is (batch == 0)
    if batch:
        assert decision.status.message == f"waits for {batch} running statements"


def test_driver_is_told_to_drain_when_only_streams_and_clients_are_left() -> None:
    obj = draining(with_spec(ready(), restartNonce="1"))
    word = gateway(client_sessions=1, client_running=1, running=2, streams=1)
    decision = decide(session_snapshot(obj, pod=pod(obj), gateway=word, running=1, streams=1))
    assert decision.commands == (Command.DRAIN_DRIVER,)
    assert decision.status.message == "waits for 1 running statements, 1 of them from clients"


@pytest.mark.parametrize("streams", [0, 1])
def test_session_is_not_idle_while_a_stream_runs(streams: int) -> None:
    obj = with_spec(ready(), idle={"timeoutSeconds": 60, "action": "Close"})
    facts = {"pod": pod(obj), "gateway": gateway(), "now": NOW + seconds(61), "running": streams, "streams": streams}
    assert decide(session_snapshot(obj, **facts)).status.phase == ("Ready" if streams else "Draining")
