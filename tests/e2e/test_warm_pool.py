"""Warm pools on the cluster: drivers that wait are bound to sessions, once, and show nothing of the pool or of anybody else."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator

import pytest

from sparksql.api.names import child_base
from sparksql.wire.driver import GATEWAY_PORT, TLS_CERT_FILE, TLS_KEY_FILE, TOKEN_FILE
from tests.e2e.test_isolation import ASK, FIND, python
from tests.support.harness import Classes, Object, Space, condition, pod_ready

POOL = "sparksql.dev/warm-pool"
SECONDS = 180
# Names and addresses of the pod, and when it was started: those that a driver has in any case.
OF_EACH_DRIVER = frozenset(
    {
        "spark.app.id", "spark.app.name", "spark.app.startTime", "spark.app.submitTime", "spark.driver.host",
        "spark.kubernetes.driver.pod.name", "spark.kubernetes.executor.podNamePrefix",
    }
)  # fmt: skip


def waiting(space: Space, name: str) -> list[Object]:
    """Drivers of the pool that nobody has and that are ready."""
    found = space.cluster.list("Pod", space.name, f"{POOL}={name}")
    return [pod for pod in found if pod_ready(pod) and "deletionTimestamp" not in pod["metadata"]]


def filled(space: Space, name: str, size: int) -> list[Object]:
    space.cluster.wait_until(
        lambda: len(waiting(space, name)) == size, f"a pool of {size}", SECONDS,
        lambda: space.cluster.describe(space.cluster.get("SqlSessionClass", "", name), space.name),
    )  # fmt: skip
    return waiting(space, name)


@pytest.fixture(scope="module")
def pool(space: Space, classes: Classes) -> Iterator[str]:
    """A class with one warm driver in the namespace, another one after each that a session takes."""
    name = classes.make(warmPool={"size": 1, "namespaces": [space.name]}, limits={"previewRows": 1000})
    yield name
    space.cluster.patch("SqlSessionClass", "", name, {"spec": {"warmPool": {"size": 0}}})
    space.cluster.wait_until(
        lambda: not space.cluster.list("Pod", space.name, f"{POOL}={name}"), "an empty pool", SECONDS
    )


def test_a_session_takes_a_warm_driver_that_shows_nothing_of_its_pool(space: Space, pool: str) -> None:
    [driver] = filled(space, pool, 1)
    init = ["CREATE TEMPORARY VIEW mine AS SELECT 'init' AS who"]
    made = space.session(
        "warm", className=pool, init=init, conf={"spark.sql.shuffle.partitions": "3"}, endpoints={"rest": True}
    )
    taken = made["status"]["driver"]
    assert (taken["podName"], taken["podUID"]) == (driver["metadata"]["name"], driver["metadata"]["uid"]), made[
        "status"
    ]
    rows = space.rows("SELECT who, current_database() FROM mine", session="warm")
    assert rows == [["init", space.database]]
    assert space.rows("SET spark.sql.shuffle.partitions", session="warm") == [["spark.sql.shuffle.partitions", "3"]]
    # A job on the executors that were started with the driver.
    assert space.rows("SELECT count(DISTINCT id % 7) FROM range(1000)", session="warm") == [["7"]]
    pod = space.cluster.get("Pod", space.name, taken["podName"])
    assert pod is not None
    assert POOL not in pod["metadata"]["labels"] and pod["metadata"]["labels"]["sparksql.dev/session"] == "warm"
    [owner] = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("SqlSession", "warm")
    pool_secret = space.cluster.get("Secret", space.name, child_base(f"warm-{pool}", taken["poolUID"]))
    own_secret = space.cluster.get("Secret", space.name, child_base("warm", made["metadata"]["uid"]))
    assert pool_secret is not None and own_secret is not None
    for file in ("token", "tls.crt", "tls.key"):
        assert pool_secret["data"][file] != own_secret["data"][file]
    # Another driver comes in its place, and the next session gets that one.
    [following] = filled(space, pool, 1)
    assert following["metadata"]["uid"] != driver["metadata"]["uid"]
    again = space.session("warm-too", className=pool)
    assert again["status"]["driver"]["podUID"] == following["metadata"]["uid"]
    assert space.rows("SHOW VIEWS", session="warm-too") == []
    space.cluster.delete("SqlSession", space.name, "warm")
    space.cluster.wait_gone("Pod", space.name, taken["podName"])
    space.cluster.wait_gone("Secret", space.name, child_base(f"warm-{pool}", taken["poolUID"]))


def test_a_bound_driver_is_ready_in_a_part_of_a_start_and_shows_what_one_of_its_own_shows(
    space: Space, pool: str
) -> None:
    [driver] = filled(space, pool, 1)
    member = driver["metadata"]["labels"]["sparksql.dev/session-uid"]
    secret = space.cluster.get("Secret", space.name, child_base(f"warm-{pool}", member))
    assert secret is not None
    every = {"rest": True, "thrift": True, "connect": True}  # as drivers of pools are started
    seconds = {}
    for name in ("bound", "own"):  # the pool's next driver is still to come
        began = time.monotonic()
        space.session(name, className=pool, endpoints=every)
        seconds[name] = time.monotonic() - began
    assert seconds["bound"] < seconds["own"] / 5, seconds
    bound, own = (space.get_session(name)["status"]["driver"] for name in ("bound", "own"))
    assert bound["poolUID"] == member and "poolUID" not in own, (bound, own)
    # Catalogs, the namespace's database and what is in it, and who one is.
    for sql in (
        "SHOW CATALOGS", "SHOW DATABASES", "SHOW TABLES", "SHOW VIEWS", "SHOW USER FUNCTIONS",
        "SELECT current_catalog(), current_database(), current_user(), current_timezone()",
    ):  # fmt: skip
        assert space.rows(sql, session="bound") == space.rows(sql, session="own"), sql
    assert space.rows("SELECT current_database()", session="bound") == [[space.database]]
    settings = [dict(space.rows("SET", session=name, result={"previewRows": 1000})) for name in ("bound", "own")]
    differing = {key for key in settings[0].keys() | settings[1].keys() if settings[0].get(key) != settings[1].get(key)}
    assert differing <= OF_EACH_DRIVER, {key: [each.get(key) for each in settings] for key in differing}
    # What the pool's driver was known by is in no file and opens nothing; the session's own is what it shows to clients.
    token, key, certificate = (
        base64.b64decode(secret["data"][file]) for file in (TOKEN_FILE, TLS_KEY_FILE, TLS_CERT_FILE)
    )
    given = [base64.b64encode(value).decode() for value in (token, key.splitlines()[1], certificate.splitlines()[1])]
    assert python(space.cluster, space.name, bound["podName"], FIND, *given) == ""
    asked = f"https://127.0.0.1:{GATEWAY_PORT}/control/v1/info"
    for name, code in ((token.decode(), "401"), (space.credentials("bound")[0], "200")):
        assert python(space.cluster, space.name, bound["podName"], ASK, asked, f"Bearer {name}") == code
    assert bound["certificate"] == space.credentials("bound")[1] != certificate.decode()


def test_a_session_that_does_not_fit_or_finds_no_driver_starts_cold(space: Space, pool: str) -> None:
    [driver] = filled(space, pool, 1)
    other = space.session("fixed", className=pool, conf={"spark.sql.codegen.cache.maxEntries": "50"})
    assert other["status"]["driver"].get("poolUID") is None, other["status"]
    assert [each["metadata"]["uid"] for each in waiting(space, pool)] == [driver["metadata"]["uid"]]
    # A driver that is gone meanwhile costs its session no more than a start.
    space.cluster.delete("Pod", space.name, driver["metadata"]["name"], grace_seconds=0)
    space.session("cold", className=pool)


@pytest.mark.thorough
def test_a_changed_class_gets_other_drivers_and_a_pool_without_namespaces_says_so(
    space: Space, classes: Classes
) -> None:
    name = classes.make(warmPool={"size": 1, "namespaces": [space.name]})
    [before] = filled(space, name, 1)
    change = {"spec": {"defaults": {"conf": {"spark.sql.extensions": ""}}, "warmPool": {"size": 1}}}
    space.cluster.patch("SqlSessionClass", "", name, change)
    space.cluster.wait_gone("Pod", space.name, before["metadata"]["name"])
    filled(space, name, 1)
    seen = space.cluster.get("SqlSessionClass", "", name)
    assert seen is not None and seen["status"]["warmPool"]["ready"] <= 1
    space.cluster.patch("SqlSessionClass", "", name, {"spec": {"warmPool": {"namespaces": None}}})
    space.cluster.wait("SqlSessionClass", "", name, lambda o: condition(o, "WarmPool") == "False", "told", SECONDS)
    space.cluster.wait_until(lambda: not waiting(space, name), "an empty pool", SECONDS)
