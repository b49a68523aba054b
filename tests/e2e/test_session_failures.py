"""Sessions that cannot start: each says why, waits for the cause to go where it can, and gives up where it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.harness import Classes, Object, Space, condition, phase, reason

BROKEN = {"spec": {"containers": [{"name": "spark", "env": [{"name": "PYTHONHOME", "value": "/nowhere"}]}]}}
PLACE = "e2e.sparksql.dev/room-for-homeless"  # a label of no node, until a test gives it to one
NOWHERE = {"spec": {"nodeSelector": {PLACE: "true"}}}


def test_a_missing_class_is_waited_for(space: Space, classes: Classes) -> None:
    name = f"late-{space.name[-6:]}"
    space.session("no-class", wait=False, className=name)
    waiting = space.wait_reason("SqlSession", "no-class", "ClassNotFound")
    assert (phase(waiting), condition(waiting, "Stalled")) == ("Pending", "True")
    assert name in waiting["status"]["message"]
    classes.make(name, podTemplate={"driver": NOWHERE})
    healed = space.wait_session("no-class", "Starting")
    assert condition(healed, "Stalled") == "False"


REFUSALS: dict[str, tuple[str, Any, str]] = {
    "denied-conf": ("conf", {"spark.kubernetes.namespace": "kube-system"}, "NotAllowed"),
    "unlisted-conf": ("conf", {"spark.speculation": "true"}, "NotAllowed"),
    "account": ("serviceAccountName", "default", "NotAllowed"),
    "image": ("image", "registry.example/other:1", "NotAllowed"),
    "driver-memory": ("driver", {"memory": "100Gi"}, "LimitExceeded"),
    "executor-cpu": ("executors", {"cpu": "64"}, "LimitExceeded"),
    "executors": ("executors", {"instances": 1000}, "LimitExceeded"),
    "gateway-setting": ("conf", {"spark.sql.gateway.session.max-num": "many"}, "InvalidSpec"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_session_field_that_its_class_does_not_allow_is_refused(space: Space, case: str) -> None:
    field, value, expected = REFUSALS[case]
    space.session(case, wait=False, **{field: value})
    refused = space.wait_reason("SqlSession", case, expected)
    assert (phase(refused), condition(refused, "Stalled"), condition(refused, "Ready")) == ("Pending", "True", "False")
    assert f"spec.{field}" in refused["status"]["message"]
    assert "driver" not in refused["status"]
    space.cluster.delete("SqlSession", space.name, case)


def test_a_namespace_that_the_class_does_not_select(space: Space, classes: Classes) -> None:
    name = classes.make(allow={"namespaces": {"matchLabels": {"team": "chosen"}}}, podTemplate={"driver": NOWHERE})
    space.session("stranger", wait=False, className=name)
    assert phase(space.wait_reason("SqlSession", "stranger", "NotAllowed")) == "Pending"
    space.cluster.patch("Namespace", "", space.name, {"metadata": {"labels": {"team": "chosen"}}})
    space.wait_session("stranger", "Starting")


def test_session_beyond_the_limit_of_its_namespace_waits(space: Space, classes: Classes) -> None:
    name = classes.make(limits={"sessionsPerNamespace": 1}, podTemplate={"driver": NOWHERE})
    space.session("first", wait=False, className=name)
    space.wait_session("first", "Starting")
    space.session("second", wait=False, className=name)
    space.wait_reason("SqlSession", "second", "LimitExceeded")
    space.cluster.delete("SqlSession", space.name, "first")
    space.wait_session("second", "Starting")


def test_session_whose_volume_claim_is_missing_is_stalled_and_names_the_claim(space: Space, classes: Classes) -> None:
    claim = {"volumeClaim": {"name": "not-there", "mountPath": "/data"}}
    space.session("claimless", wait=False, className=classes.make(storage=claim))
    refused = space.wait_reason("SqlSession", "claimless", "StorageNotReady")
    assert condition(refused, "Stalled") == "True"
    assert "not-there" in refused["status"]["message"]


def test_session_whose_driver_cannot_be_scheduled_is_stalled(space: Space, classes: Classes) -> None:
    space.session("homeless", wait=False, className=classes.make(podTemplate={"driver": NOWHERE}))
    waiting = space.wait_reason("SqlSession", "homeless", "Unschedulable")
    assert (phase(waiting), condition(waiting, "Stalled")) == ("Starting", "False")
    failed = space.wait_session("homeless", "Pending")
    assert (reason(failed), condition(failed, "Stalled")) == ("Unschedulable", "True")
    space.cluster.wait_gone("Pod", space.name, failed["status"]["driver"]["podName"])
    node = space.cluster.list("Node", "")[0]["metadata"]["name"]
    label(space, node, "true")
    try:  # the session is not changed: there is room for it now
        assert space.wait_session("homeless", "Ready")["status"]["driver"]["incarnation"] == 2
    finally:
        label(space, node, None)


def label(space: Space, node: str, value: str | None) -> None:
    space.cluster.patch("Node", "", node, {"metadata": {"labels": {PLACE: value}}})


def test_an_image_that_cannot_be_pulled(space: Space, classes: Classes) -> None:
    name = classes.make(allow={"images": ["registry.invalid/*"]})
    space.session("imageless", wait=False, className=name, image="registry.invalid/none:1")
    waiting = space.wait_reason("SqlSession", "imageless", "ImagePullFailed")
    assert phase(waiting) in ("Starting", "Pending")
    failed = space.wait_session("imageless", "Pending")
    assert reason(failed) == "ImagePullFailed"
    assert "registry.invalid/none:1" in failed["status"]["message"]


@pytest.fixture
def without_pods(fresh: Space) -> Space:
    """A namespace whose quota allows no pod."""
    path = f"/api/v1/namespaces/{fresh.name}/resourcequotas"
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    fresh.cluster.request("POST", path, body)

    def is_enforced() -> bool:
        return bool(fresh.cluster.request("GET", f"{path}/none").get("status", {}).get("hard"))

    fresh.cluster.wait_until(is_enforced, "seen by the quota controller")
    return fresh


def test_a_quota_is_waited_for(without_pods: Space) -> None:
    without_pods.session("squeezed", wait=False)
    waiting = without_pods.wait_reason("SqlSession", "squeezed", "QuotaExceeded")
    assert phase(waiting) in ("Pending", "Starting")
    assert "exceeded quota" in waiting["status"]["message"]
    quota = f"/api/v1/namespaces/{without_pods.name}/resourcequotas/none"
    without_pods.cluster.request("PATCH", quota, {"spec": {"hard": {"pods": "9"}}}, "application/merge-patch+json")
    without_pods.wait_session("squeezed", "Ready")


def test_a_driver_that_always_ends_is_given_up(space: Space, classes: Classes) -> None:
    space.session("hopeless", wait=False, className=classes.make(podTemplate={"driver": BROKEN}))
    failed = space.wait_session("hopeless", "Failed", seconds=900)
    assert (reason(failed), condition(failed, "Stalled")) == ("MaxRestartsExceeded", "True")
    assert "DriverLost" in failed["status"]["message"]
    assert failed["status"]["driver"]["incarnation"] == 4, failed["status"]
    waiting = space.statement("SELECT 1", session="hopeless")
    space.wait_reason("SqlStatement", waiting, "SessionNotReady")
    space.cancel(waiting)
    assert phase(space.cluster.wait_finished(space.name, waiting)) == "Canceled"


def test_a_session_with_a_failing_init_statement_fails_once_and_names_it(space: Space) -> None:
    wrong = "CREATE TABLE half_done USING parquet AS SELECT missing FROM nowhere"
    space.session("bad-init", wait=False, init=[wrong])
    failed = space.wait_session("bad-init", "Failed")
    assert (reason(failed), condition(failed, "Stalled")) == ("InitFailed", "True")
    assert "statement 1" in failed["status"]["message"] and wrong in failed["status"]["message"]
    assert failed["status"]["driver"]["incarnation"] == 1
    space.change("SqlSession", "bad-init", init=[{"sql": "SELECT 1"}])
    again = space.cluster.wait(
        "SqlSession", space.name, "bad-init", lambda o: phase(o) == "Failed" and _incarnation(o) == 2, "Failed again", 420
    )  # fmt: skip
    assert reason(again) == "InitFailed", again["status"]
    assert "SELECT 1" in again["status"]["message"]  # a query is no preparation
    space.change("SqlSession", "bad-init", init=[{"sql": "SET spark.sql.shuffle.partitions=5"}])
    space.wait_session("bad-init", "Ready")
    assert space.rows("SET spark.sql.shuffle.partitions", session="bad-init")[0][1] == "5"


@pytest.mark.thorough
def test_init_from_a_config_map_is_waited_for(space: Space) -> None:
    source = {"configMapKeyRef": {"name": "prepare", "key": "init.sql"}}
    space.cluster.create(
        {
            "apiVersion": "sparksql.dev/v1alpha1",
            "kind": "SqlSession",
            "metadata": {"name": "prepared", "namespace": space.name},
            "spec": {"init": [{"sqlFrom": source}]},
        }
    )
    waiting = space.wait_reason("SqlSession", "prepared", "InitSourceNotFound")
    assert condition(waiting, "Stalled") == "True"
    space.config_map(
        "prepare", **{"init.sql": "DECLARE VARIABLE answer INT DEFAULT 42; SET spark.sql.ansi.enabled=true"}
    )
    space.wait_session("prepared", "Ready")
    assert space.rows("SELECT answer", session="prepared") == [["42"]]


def test_the_class_has_the_last_word_on_configuration(space: Space, classes: Classes) -> None:
    name = classes.make(
        defaults={"conf": {"spark.driver.maxResultSize": "1m"}},
        enforcedConf={"spark.sql.ansi.enabled": "false"},
        limits={"previewRows": 0, "executionSeconds": 50},
        allow={"conf": ["spark.sql.ansi.enabled"]},
    )
    space.session("classy", className=name, conf={"spark.sql.ansi.enabled": "true"})

    def run(sql: str, **spec: Any) -> Object:
        return space.run(sql, session="classy", **spec)

    shown = run("SELECT 1 AS one")
    assert (shown["status"]["result"]["rowCount"], shown["status"]["result"].get("preview", [])) == (1, [])
    assert phase(run("SELECT CAST('no number' AS INT)")) == "Finished"  # ANSI mode would fail it
    assert phase(run("SELECT CAST('no number' AS INT)", conf={"spark.sql.ansi.enabled": "true"})) == "Finished"
    assert reason(run("SET spark.sql.ansi.enabled=true")) == "NotAllowed"
    assert reason(run("SELECT 1", conf={"spark.sql.caseSensitive": "true"})) == "NotAllowed"
    assert reason(run("SELECT 1", timeouts={"executionSeconds": 51})) == "LimitExceeded"
    large = "SELECT /*+ BROADCAST(b) */ count(*) FROM range(9) a JOIN (SELECT id, uuid() u FROM range(0, 300000, 1, 4)) b USING (id)"
    assert reason(run(large)) == "ResultTooLarge"


def _incarnation(session: Object | None) -> int:
    number: int = (session or {})["status"]["driver"]["incarnation"]
    return number
