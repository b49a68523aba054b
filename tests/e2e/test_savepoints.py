"""Savepoints on the cluster: taken, restored, forked, taken before a stop and on a schedule, and removed with their data."""

from __future__ import annotations

import pytest

from tests.e2e.streams import (
    QUICK,
    SECONDS,
    ask_savepoint,
    count_up,
    resume,
    savepoint,
    savepoint_over,
    stop,
    stream,
    wait_batch,
)
from tests.support.harness import Object, Space, condition, phase, reason

KEYS = 5
MORE = 1_000_000  # what a repair adds to one count
FEW = {"spark.sql.shuffle.partitions": "2"}
UPSERT = {**QUICK, "outputMode": "Update", "upsert": {"keys": ["k"]}}


@pytest.fixture(scope="module")
def counted(main: Space) -> Space:
    """A session with the stream `counting`, which counts the ticks by key."""
    count_up(main)
    for table in ("counted", "forked"):
        made = main.run(f"CREATE TABLE {table} (k BIGINT, n BIGINT, top BIGINT) USING iceberg")
        assert phase(made) == "Finished", made["status"]
    main.statement(counting("counted"), name="counting", conf=FEW, streaming=UPSERT)
    wait_batch(main, "counting")
    return main


def counting(table: str, where: str = "", number: str = "count(*)") -> str:
    return f"INSERT INTO {table} SELECT value % {KEYS} AS k, {number} AS n, max(value) AS top FROM STREAM ticks {where} GROUP BY 1"


def check(space: Space, table: str) -> None:
    """Every tick up to the last one is counted once: k, k + KEYS, ... up to `top`."""
    rows = space.rows(f"SELECT k, n, top FROM {table} ORDER BY k")
    assert len(rows) == KEYS, rows
    wrong = [row for row in rows if int(row[1] or 0) != (int(row[2] or 0) - int(row[0] or 0)) // KEYS + 1]
    assert not wrong, rows


def savepoints(space: Space, statement: str) -> list[Object]:
    found = space.cluster.list("SqlSavepoint", space.name)
    return [each for each in found if each["spec"]["statementRef"]["name"] == statement]


def test_a_savepoint_of_a_running_stream_starts_another_stream(counted: Space) -> None:
    made = savepoint(counted, "first", "counting")
    status = made["status"]
    assert (phase(made), condition(made, "Ready"), condition(made, "Succeeded")) == ("Completed", "True", "True"), (
        status
    )
    origin = counted.get("counting")
    assert status["queryId"] == stream(origin)["queryId"]
    assert status["trigger"] == "Manual"
    assert {"batchId", "sqlHash", "sparkVersion", "sizeBytes", "fileCount", "startTime", "completionTime"} <= set(
        status
    )
    assert status["location"].startswith("s3a://"), status

    counted.statement(
        counting("forked"),
        name="fork",
        conf=FEW,
        streaming={**UPSERT, "startFrom": {"savepointRef": {"name": "first"}}},
    )
    fork = wait_batch(counted, "fork", more=status["batchId"] + 3)
    assert stream(fork)["queryId"] != status["queryId"]
    assert stream(fork)["restoredFrom"] == status["location"]
    assert stream(fork)["checkpointLocation"] != stream(origin)["checkpointLocation"]
    counted.cluster.wait(
        "SqlSavepoint", counted.name, "first", lambda s: "fork" in (s or {})["status"].get("usedBy", ()), "used", 60
    )
    stop(counted, "fork")
    check(counted, "forked")
    assert stream(wait_batch(counted, "counting"))["lastSavepoint"]["name"] == "first"


def test_the_state_of_a_savepoint_is_read_and_previewed_by_its_name(counted: Space) -> None:
    made = savepoint(counted, "read", "counting")
    assert phase(made) == "Completed", made["status"]
    query = "SELECT k, n, top FROM savepoint_state('read', 'aggregate')"
    counted.statement(f"CREATE TABLE saved AS {query}", name="saved")
    assert phase(counted.cluster.wait_finished(counted.name, "saved", SECONDS)) == "Finished", counted.get("saved")[
        "status"
    ]
    check(counted, "saved")
    [[saved]] = counted.rows("SELECT max(top) FROM saved")
    unknown = counted.run("SELECT * FROM savepoint_state('nowhere')")
    assert "nowhere" in str(condition(unknown, "Ready", "message")), unknown["status"]

    start = {**UPSERT, "startFrom": {"savepointRef": {"name": "read"}}}
    shown = counted.rows(counting("counted"), mode="Preview", conf=FEW, streaming=start, result={"maxRows": KEYS})
    later = [(int(k or 0), int(n or 0), int(top or 0)) for k, n, top in shown if int(top or 0) > int(saved or 0)]
    assert later and all(n == (top - k) // KEYS + 1 for k, n, top in later), shown


@pytest.mark.thorough
def test_a_stream_goes_on_from_a_state_that_a_query_gives(counted: Space) -> None:
    """A repair of one group; both savepoints are applied at once, and the second one waits for the first."""
    read = "SELECT {} FROM savepoint_state('counted-wrong', 'aggregate')"
    repair = read.format(f"k, IF(k = 0, n + {MORE}, n) AS n, top")
    ask_savepoint(counted, "counted-wrong", "counting")
    ask_savepoint(counted, "repaired", "counting", source="Query", sql=repair)
    ask_savepoint(counted, "refused", "counting", source="Query", sql=read.format("k, n"))
    made, refused = savepoint_over(counted, "repaired"), savepoint_over(counted, "refused")
    assert phase(made) == "Completed", made["status"]
    origin = stream(counted.get("counting"))
    assert made["status"]["queryId"] == origin["queryId"] and made["status"]["sizeBytes"] > 0, made["status"]
    assert (phase(refused), reason(refused)) == ("Failed", "InvalidSpec"), refused["status"]
    assert "the query lacks column top" in refused["status"]["message"], refused["status"]

    counted.run("CREATE TABLE repaired (k BIGINT, n BIGINT, top BIGINT) USING iceberg")
    start = {**UPSERT, "startFrom": {"savepointRef": {"name": "repaired"}}}
    counted.statement(counting("repaired"), name="goes-on", conf=FEW, streaming=start)
    wait_batch(counted, "goes-on", more=made["status"]["batchId"] + 3)
    stop(counted, "goes-on")
    rows = counted.rows("SELECT k, n, top FROM repaired ORDER BY k")
    expected = [(int(top or 0) - int(k or 0)) // KEYS + 1 + (MORE if k == "0" else 0) for k, _, top in rows]
    assert [int(n or 0) for _, n, _ in rows] == expected and len(rows) == KEYS, rows


def test_a_state_that_does_not_fit_is_computed_anew_where_the_statement_says_rebuild(counted: Space) -> None:
    upsert = {**UPSERT, "upsert": {"keys": ["item"]}, "upgradeMode": "Rebuild"}
    text = "INSERT INTO sold SELECT item, {} AS total FROM STREAM sales GROUP BY item"
    made = counted.run(
        "CREATE TABLE sales (item STRING, n INT) USING iceberg; CREATE TABLE sold (item STRING, total BIGINT) USING iceberg; "
        "INSERT INTO sales VALUES ('a', 1), ('a', 2), ('b', 5)"
    )
    assert phase(made) == "Finished", made["status"]
    counted.statement(text.format("count(*)"), name="rebuilt", conf=FEW, streaming=upsert)
    before = wait_batch(counted, "rebuilt", more=1)
    counted.change("SqlStatement", "rebuilt", sql=text.format("sum(n)"))
    assert phase(counted.run("INSERT INTO sales VALUES ('b', 10), ('c', 7)")) == "Finished"
    counted.cluster.wait_until(
        lambda: counted.rows("SELECT item, total FROM sold ORDER BY item") == [["a", "3"], ["b", "15"], ["c", "7"]],
        "the sums of all sales",
        SECONDS,
        lambda: counted.get("rebuilt")["status"],
    )
    after = counted.get("rebuilt")
    assert stream(after)["rewrittenFrom"] == stream(before)["checkpointLocation"], after["status"]
    assert stream(after)["queryId"] == stream(before)["queryId"], after["status"]
    stop(counted, "rebuilt")


@pytest.mark.thorough
def test_a_stream_upgrade_takes_a_savepoint_first_and_keeps_the_counts(counted: Space) -> None:
    before = counted.get("counting")
    counted.change("SqlStatement", "counting", streaming={"upgradeMode": "Savepoint"})
    stopped = stop(counted, "counting")
    last = stream(stopped)["lastSavepoint"]["name"]
    assert last.startswith("counting-stop-"), stopped["status"]
    taken = counted.cluster.get("SqlSavepoint", counted.name, last)
    assert taken is not None and phase(taken) == "Completed"
    assert taken["status"]["trigger"] == "Upgrade"
    assert taken["status"]["batchId"] == stream(stopped)["committedBatchId"]
    counted.change("SqlStatement", "counting", sql=counting("counted", where="WHERE value >= 0"))
    resume(counted, "counting")
    upgraded = wait_batch(counted, "counting")
    for field in ("queryId", "checkpointLocation"):
        assert stream(upgraded)[field] == stream(before)[field]
    counted.crash_driver()
    wait_batch(counted, "counting")
    stop(counted, "counting")
    check(counted, "counted")
    resume(counted, "counting")
    wait_batch(counted, "counting")


@pytest.mark.thorough
def test_a_text_that_the_state_does_not_fit_leaves_the_query_alone(counted: Space) -> None:
    before = counted.get("counting")
    counted.change("SqlStatement", "counting", sql=counting("counted", number="sum(value)"))
    refused = counted.wait_reason("SqlStatement", "counting", "StateIncompatible", seconds=SECONDS)
    assert (phase(refused), condition(refused, "Stalled")) == ("Running", "True"), refused["status"]
    assert "is sum" in (condition(refused, "Ready", "message") or ""), refused["status"]
    goes_on = wait_batch(counted, "counting")
    counted.change("SqlStatement", "counting", sql=before["spec"]["sql"])
    healed = counted.wait_reason("SqlStatement", "counting", "Running", seconds=SECONDS)
    for seen in (refused, goes_on, healed):
        assert stream(seen)["runId"] == stream(before)["runId"], seen["status"]
    assert condition(healed, "Ready") == "True", healed["status"]


def test_a_text_is_validated_against_a_query_that_runs(counted: Space) -> None:
    before = counted.get("counting")
    against = {"mode": "Validate", "validateAgainst": {"statementRef": {"name": "counting"}}}
    fits = counted.run(counting("counted", where="WHERE value >= 0"), conf=FEW, **against)
    assert phase(fits) == "Finished", fits["status"]
    unfit = counted.run(counting("counted", number="sum(value)"), conf=FEW, **against)
    assert (phase(unfit), reason(unfit)) == ("Error", "StateIncompatible"), unfit["status"]
    assert [row[0] for row in unfit["status"]["result"]["preview"]] == ["AggregateChanged"], unfit["status"]
    after = counted.get("counting")
    for field in ("runId", "checkpointLocation"):
        assert stream(after)[field] == stream(before)[field], after["status"]


def test_changed_sql_of_a_stopped_stream_is_validated_without_a_start(counted: Space) -> None:
    text = counted.get("counting")["spec"]["sql"]
    stop(counted, "counting")
    before = counted.get("counting")
    for sql, status in ((counting("counted", number="sum(value)"), "False"), (text, "True")):
        counted.change("SqlStatement", "counting", sql=sql)
        counted.cluster.wait(
            "SqlStatement", counted.name, "counting",
            lambda s, status=status: condition(s, "Compatible") == status, f"Compatible {status}", SECONDS,
        )  # fmt: skip
        printed = counted.cluster.cli(counted.name, "validate", "counting")
        assert (printed.returncode == 0) is (status == "True"), printed.stderr
    after = counted.get("counting")
    assert (phase(after), stream(after)["runId"]) == ("Stopped", stream(before)["runId"]), after["status"]
    made = [each for each in counted.cluster.list("SqlStatement", counted.name) if each["spec"]["mode"] == "Validate"]
    assert not [each for each in made if each["metadata"]["name"].startswith("validate-")]
    resume(counted, "counting")
    wait_batch(counted, "counting")


@pytest.mark.thorough
def test_a_stopped_stream_with_incompatible_sql_is_parked_until_the_old_sql_is_back(counted: Space) -> None:
    text = counted.get("counting")["spec"]["sql"]
    stop(counted, "counting")
    counted.change("SqlStatement", "counting", sql=counting("counted", number="sum(value)"))
    resume(counted, "counting")
    parked = counted.wait_reason("SqlStatement", "counting", "StateIncompatible", seconds=SECONDS)
    assert (phase(parked), condition(parked, "Stalled")) == ("Stopped", "True"), parked["status"]
    counted.change("SqlStatement", "counting", sql=text)
    wait_batch(counted, "counting")
    stop(counted, "counting")
    check(counted, "counted")


@pytest.mark.thorough
def test_a_stream_with_a_new_restore_nonce_goes_back_to_its_savepoint(counted: Space) -> None:
    before, first = counted.get("counting"), counted.cluster.get("SqlSavepoint", counted.name, "first")
    assert first is not None
    restore = {"startFrom": {"savepointRef": {"name": "first"}}, "restoreNonce": "1"}
    counted.change("SqlStatement", "counting", desiredState="Running", streaming=restore)
    counted.cluster.wait(
        "SqlStatement", counted.name, "counting",
        lambda s: stream(s or {}).get("observedRestoreNonce") == "1", "restored", SECONDS,
    )  # fmt: skip
    again = wait_batch(counted, "counting")
    assert stream(again)["restoredFrom"] == first["status"]["location"]
    assert stream(again)["queryId"] != stream(before)["queryId"]
    stop(counted, "counting")
    check(counted, "counted")


def test_a_deleted_savepoint_object_goes_only_after_its_data(counted: Space) -> None:
    resume(counted, "counting")
    wait_batch(counted, "counting")
    taken = savepoint(counted, "deleted", "counting", reclaimPolicy="Delete")
    name, location = taken["metadata"]["name"], taken["status"]["location"]
    adopted = savepoint(counted, "adopted", "counting", source="Existing", location=location)
    assert phase(adopted) == "Completed", adopted["status"]
    assert adopted["status"]["batchId"] == taken["status"]["batchId"]
    counted.cluster.delete("SqlSavepoint", counted.name, name)
    counted.cluster.wait_gone("SqlSavepoint", counted.name, name, seconds=240)
    orphaned = [e for e in counted.cluster.events(counted.name) if e["reason"] == "FinalizerDeadline"]
    assert orphaned == []
    gone = savepoint(counted, "gone", "counting", source="Existing", location=location)
    assert (phase(gone), reason(gone)) == ("Failed", "LocationInvalid"), gone["status"]


def test_periodic_savepoints_obey_retention_and_go_with_their_statement(counted: Space) -> None:
    every = {"schedule": {"intervalSeconds": 3}, "retention": {"keepLast": 1}, "onDelete": "Delete"}
    name = counted.statement(
        "INSERT INTO ticked SELECT value FROM STREAM ticks",
        streaming={**QUICK, "savepoints": every},
        dependsOn=[{"name": counted.statement("CREATE TABLE ticked (value BIGINT) USING iceberg")}],
    )
    seen: set[str] = set()

    def several() -> bool:
        seen.update(each["metadata"]["name"] for each in savepoints(counted, name))
        return len(seen) >= 4

    counted.cluster.wait_until(several, "with four savepoints", SECONDS, lambda: sorted(seen))
    triggers = {each.get("status", {}).get("trigger", "Periodic") for each in savepoints(counted, name)}
    assert triggers == {"Periodic"}
    counted.change("SqlStatement", name, streaming={"savepoints": {"schedule": {"paused": True}}})
    counted.cluster.wait_until(
        lambda: len(savepoints(counted, name)) == 1,
        "with the last one only",
        SECONDS,
        lambda: [each["metadata"]["name"] for each in savepoints(counted, name)],
    )
    counted.cluster.delete("SqlStatement", counted.name, name)
    counted.cluster.wait_gone("SqlStatement", counted.name, name)
    counted.cluster.wait_until(
        lambda: not savepoints(counted, name),
        "without savepoints",
        120,
        lambda: [each["metadata"]["name"] for each in savepoints(counted, name)],
    )
    assert counted.cluster.get("SqlSavepoint", counted.name, "first") is not None
