"""Networks, tokens and secrets: who reaches a session, and what of a secret is seen outside it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from harness import OPERATOR_NAMESPACE, STORAGE_SECRET, Cluster, Object, Space, phase, pod_ready

from sparksql.wire.driver import DRIVER_RPC_PORT, GATEWAY_PORT

PASSWORD = "Zauberwort-7719"
LITERAL = "Unverwechselbar-4242"
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3).close()
    print("open")
except OSError:
    print("closed")
"""
ASK = """
import ssl, sys, urllib.error, urllib.request
context = ssl._create_unverified_context()
request = urllib.request.Request(sys.argv[1], headers={"Authorization": sys.argv[2]})
try:
    print(urllib.request.urlopen(request, context=context, timeout=30).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


def python(cluster: Cluster, namespace: str, pod: str, program: str, *args: object) -> str:
    """What a Python program in a pod prints."""
    return cluster.kubectl("exec", "-n", namespace, pod, "--", "python3", "-c", program, *map(str, args)).strip()


@pytest.fixture(scope="module")
def stranger(main: Space) -> Iterator[str]:
    """A pod beside the session that has nothing to do with it."""
    main.cluster.idle_pod(main.name, "stranger")
    main.cluster.wait("Pod", main.name, "stranger", lambda p: pod_ready(p or {}), "ready")
    yield "stranger"
    main.cluster.delete("Pod", main.name, "stranger", grace_seconds=0)


def driver_address(space: Space) -> str:
    pod = space.cluster.get("Pod", space.name, space.driver_pod())
    assert pod is not None
    address: str = pod["status"]["podIP"]
    return address


def operator_pod(cluster: Cluster) -> str:
    name: str = cluster.operator_pods()[0]["metadata"]["name"]
    return name


def test_a_stranger_reaches_no_port_of_a_session(main: Space, stranger: str) -> None:
    address = driver_address(main)
    for port in (GATEWAY_PORT, DRIVER_RPC_PORT):
        assert python(main.cluster, main.name, stranger, CONNECT, address, port) == "closed"
    # It has a network, and the port is there.
    assert python(main.cluster, main.name, stranger, CONNECT, "kubernetes.default.svc", 443) == "open"
    operator = operator_pod(main.cluster)
    assert python(main.cluster, OPERATOR_NAMESPACE, operator, CONNECT, address, GATEWAY_PORT) == "open"
    assert python(main.cluster, OPERATOR_NAMESPACE, operator, CONNECT, address, DRIVER_RPC_PORT) == "closed"


def test_a_stranger_reaches_neither_metastore_nor_storage(main: Space, stranger: str) -> None:
    for service, port in (("metastore", 9083), ("objectstore", 7070)):
        host = f"spark-sql-operator-{service}.{OPERATOR_NAMESPACE}.svc"
        assert python(main.cluster, main.name, stranger, CONNECT, host, port) == "closed"
        assert python(main.cluster, main.name, main.driver_pod(), CONNECT, host, port) == "open"


def test_the_gateway_answers_nobody_without_its_token(main: Space) -> None:
    base = f"https://{driver_address(main)}:{GATEWAY_PORT}"

    def ask(path: str, token: str) -> str:
        operator = operator_pod(main.cluster)
        return python(main.cluster, OPERATOR_NAMESPACE, operator, ASK, base + path, token)

    assert ask("/control/v1/info", "") == "401"
    assert ask("/control/v1/info", "Bearer wrong") == "401"
    assert ask("/metrics", "") == "401"
    assert ask("/healthz", "") == "200"


def test_all_pods_meet_the_restricted_profile(main: Space) -> None:
    """The namespace enforces it; this is about what it does not ask for."""
    namespace = main.cluster.get("Namespace", "", main.name)
    assert (namespace or {})["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    main.rows("SELECT count(*) FROM range(0, 10, 1, 2)")
    pods = [p for p in main.cluster.list("Pod", main.name) if p["metadata"]["name"] != "stranger"]
    assert len(pods) >= 2, "a driver and an executor"
    for container in (c for pod in pods for c in pod["spec"]["containers"]):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert "cpu" not in container["resources"].get("limits", {})


def everything_said(space: Space) -> str:
    """Status, events and logs of a namespace, and the operator's log."""
    statements = [s["status"] for s in space.cluster.list("SqlStatement", space.name)]
    sessions = [s["status"] for s in space.cluster.list("SqlSession", space.name)]
    parts = [json.dumps([statements, sessions, space.cluster.events(space.name)])]
    parts += [space.cluster.logs(space.name, pod["metadata"]["name"]) for pod in space.cluster.list("Pod", space.name)]
    return "\n".join([*parts, operator_log(space.cluster)])


def operator_log(cluster: Cluster) -> str:
    return "\n".join(cluster.logs(OPERATOR_NAMESPACE, p["metadata"]["name"]) for p in cluster.operator_pods())


def secret_parameter(space: Space, name: str) -> list[Object]:
    space.secret(name, password=PASSWORD)
    return [{"name": "password", "valueFrom": {"secretKeyRef": {"name": name, "key": "password"}}}]


def test_a_secret_parameter_is_seen_nowhere(main: Space) -> None:
    parameters = secret_parameter(main, "credentials")
    statements = (
        "SELECT :password",
        "SELECT concat('<', :password, '>') AS shown, upper(:password) AS loud, length(:password) AS n",
        "SELECT sum(CAST(:password AS INT)) FROM range(0, 10, 1, 2)",
        "SELECT nothing, :password FROM range(10)",
        "SELECT raise_error(:password)",
        "SELECT count(*) FROM range(0, 100, 1, 2) WHERE CAST(id AS STRING) = :password",
    )
    for sql in statements:
        for mode in ("Execute", "Explain"):
            main.run(sql, parameters=parameters, mode=mode)
    used = main.run("SELECT length(:password) AS n", parameters=parameters)
    assert used["status"]["result"]["preview"] == [[str(len(PASSWORD))]]
    assert PASSWORD not in everything_said(main)


def test_sql_is_not_in_the_operators_log_or_metrics(main: Space) -> None:
    finished = main.run(f"SELECT '{LITERAL}' AS x", name="in-the-log")
    main.run(f"SELECT '{LITERAL}' FROM nowhere")
    assert phase(finished) == "Finished"
    log = operator_log(main.cluster)
    lines = [json.loads(line) for line in log.splitlines()]
    about = [line for line in lines if line.get("name") == "in-the-log" and line.get("namespace") == main.name]
    assert {line.get("phase") for line in about} >= {"Finished"}
    assert LITERAL not in log
    assert STORAGE_SECRET not in log
    assert LITERAL not in metrics(main.cluster)


def test_metrics_of_the_operator(main: Space) -> None:
    main.run("SELECT 1")
    text = metrics(main.cluster)
    finished = f'sparksql_statements_ended_total{{namespace="{main.name}",phase="Finished",reason="Finished"}}'
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values[finished]) >= 1
    assert float(values["sparksql_session_start_seconds_count"]) >= 1
    assert "sparksql_reconcile_total" in text and "sparksql_queue_depth" in text


def metrics(cluster: Cluster) -> str:
    service = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/services/spark-sql-operator-metrics:http/proxy/metrics"
    text: str = cluster.request("GET", service)
    return text


def test_storage_keys_are_not_shown(main: Space) -> None:
    for sql in ("SET", "SET -v", "SET spark.hadoop.fs.s3a.secret.key", "SET fs.s3a.secret.key"):
        ended = main.run(sql, result={"maxRows": 5000, "previewRows": 100})
        assert STORAGE_SECRET not in json.dumps(ended["status"]), sql
    assert STORAGE_SECRET not in everything_said(main)


def test_no_way_to_code_or_files_of_the_driver(main: Space) -> None:
    refused = {
        "SELECT java_method('java.lang.System', 'getenv')": "NotAllowed",
        "SELECT reflect('java.lang.Runtime', 'getRuntime')": "NotAllowed",
        "ADD JAR '/opt/spark/jars/x.jar'": "NotAllowed",
        "CREATE FUNCTION f AS 'x.Y' USING JAR 'https://somewhere.example/x.jar'": "NotAllowed",
        "SELECT TRANSFORM(id) USING 'cat' AS (x STRING) FROM range(3)": "NotAllowed",
    }
    for sql, expected in refused.items():
        ended = main.run(sql)
        reasons = {c["reason"] for c in ended["status"]["conditions"] if c["type"] == "Ready"}
        assert (phase(ended), reasons) == ("Error", {expected}), (sql, ended["status"])
