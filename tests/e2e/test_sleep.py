"""Sessions that sleep on the cluster: nothing runs meanwhile, and everything is there again when somebody wants it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sparksql.api.names import state_secret_name
from tests.e2e.streams import QUICK, assert_each_once, count_up, resume, savepoint, stop, stream, wait_batch
from tests.support.harness import Object, Space, condition, phase

SLEEPS = {"timeoutSeconds": 2, "action": "Hibernate"}
PREPARED = "SET spark.sql.shuffle.partitions = 3; CREATE TEMPORARY VIEW seen AS SELECT 'by the view' AS a; DECLARE n INT DEFAULT 41"


def asleep(space: Space, name: str) -> Object:
    """The session once it sleeps and no pod of it is left."""
    session = space.wait_session(name, "Hibernated")
    assert (condition(session, "Ready"), condition(session, "Hibernation")) == ("True", "True"), session["status"]
    assert "endpoints" not in session["status"]
    selector = f"sparksql.dev/session-uid={session['metadata']['uid']}"
    space.cluster.wait_until(
        lambda: not space.cluster.list("Pod", space.name, selector),
        "without a pod",
        seen=lambda: str([pod["metadata"]["name"] for pod in space.cluster.list("Pod", space.name, selector)]),
    )
    return session


def test_a_session_sleeps_and_has_all_that_statements_made_of_it_when_it_wakes(space: Space) -> None:
    space.session("keeps", idle={"timeoutSeconds": 0})
    assert phase(space.run(PREPARED, session="keeps")) == "Finished"
    space.change("SqlSession", "keeps", idle=SLEEPS)

    def says(status: str) -> Any:
        return lambda o: condition(o, "Hibernation") == status

    held = space.cluster.wait("SqlSession", space.name, "keeps", says("False"), "kept awake")
    assert condition(held, "Hibernation", "reason") == "HoldsSessionState"
    space.change("SqlSession", "keeps", idle={**SLEEPS, "restoreState": True})
    session = asleep(space, "keeps")
    assert session["status"]["keptState"] == {"statements": 3, "incarnation": 1}
    assert "by the view" not in json.dumps(session)
    secret = space.cluster.get("Secret", space.name, state_secret_name("keeps", session["metadata"]["uid"]))
    assert secret is not None
    assert space.rows("SELECT a, n + 1, current_database() FROM seen", session="keeps") == [
        ["by the view", "42", space.database]
    ]
    woken = space.get_session("keeps")
    assert woken["status"]["driver"]["incarnation"] == 2
    assert condition(woken, "SessionStateLost") is None
    events = {event["reason"] for event in space.cluster.events(space.name)}
    assert {"Hibernating", "Waking"} <= events
    asleep(space, "keeps")
    space.change("SqlSession", "keeps", idle={**SLEEPS, "timeoutSeconds": 30, "restoreState": True})
    connected = space.cluster.cli(space.name, "connect", "keeps", "--direct")
    assert connected.returncode == 0, connected.stderr
    assert "session keeps hibernates: wakes it" in connected.stderr
    assert "https://" in connected.stdout
    assert space.get_session("keeps")["status"]["driver"]["incarnation"] == 3


@pytest.mark.thorough
def test_a_stream_keeps_its_session_awake_and_wakes_it(space: Space) -> None:
    """Without the wait for a driver whose end nobody saw; a savepoint of a stream that rests wakes the session, too."""
    space.session("streams")
    made = space.run("CREATE TABLE ticked (value BIGINT) USING iceberg", session="streams")
    assert phase(made) == "Finished", made["status"]
    count_up(space, session="streams")
    text = "INSERT INTO ticked SELECT value FROM STREAM ticks"
    space.statement(text, name="ticking", session="streams", streaming=QUICK)
    wait_batch(space, "ticking")
    space.change("SqlSession", "streams", idle=SLEEPS)
    wait_batch(space, "ticking", more=10)
    assert space.get_session("streams")["status"]["driver"]["incarnation"] == 1
    stop(space, "ticking")
    asleep(space, "streams")
    taken = savepoint(space, "resting", "ticking")
    assert phase(taken) == "Completed", taken["status"]
    assert asleep(space, "streams")["status"]["driver"]["incarnation"] == 2
    resume(space, "ticking")
    running = wait_batch(space, "ticking")
    session = space.get_session("streams")
    assert session["status"]["driver"]["incarnation"] == 3
    assert not session["status"]["driver"].get("unconfirmed"), session["status"]
    assert stream(running)["committedBatchId"] > taken["status"]["batchId"]
    stop(space, "ticking")
    assert_each_once(space, "ticked", session="streams")
