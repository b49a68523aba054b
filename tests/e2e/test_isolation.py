"""Networks, tokens and secrets: who reaches a session, and what of a secret is seen outside it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest

from sparksql.wire.driver import DRIVER_RPC_PORT, GATEWAY_PORT
from tests.support.harness import OPERATOR_NAMESPACE, STORAGE_SECRET, Cluster, Object, Space, phase, pod_ready

PASSWORD = "Zauberwort-7719"
LITERAL = "Unverwechselbar-4242"
# Prints where a value is found. The values come in base64, so that this program's own command line does not hold them.
FIND = """
import base64, os, sys
values = [base64.b64decode(value) for value in sys.argv[1:]]
roots = ("/dev/shm", "/etc", "/home", "/metastore", "/opt/spark/work-dir", "/root", "/run", "/tmp", "/var")
files = [os.path.join(folder, name) for root in roots for folder, _, names in os.walk(root) for name in names]
files += [f"/proc/{pid}/{name}" for pid in os.listdir("/proc") if pid.isdigit() for name in ("cmdline", "environ")]
for file in files:
    try:
        with open(file, "rb") as content:
            text = content.read(64 << 20)
    except OSError:
        continue
    for value in values:
        if value in text:
            print(file)
"""
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


def test_the_operators_labels_open_no_gateway_from_another_namespace(main: Space) -> None:
    labels = {"app.kubernetes.io/name": "spark-sql-operator", "app.kubernetes.io/component": "operator"}
    main.cluster.idle_pod(main.name, "impostor", labels=labels)
    try:
        main.cluster.wait("Pod", main.name, "impostor", lambda p: pod_ready(p or {}), "ready")
        address = driver_address(main)
        assert python(main.cluster, main.name, "impostor", CONNECT, address, GATEWAY_PORT) == "closed"
        assert python(main.cluster, main.name, "impostor", CONNECT, "kubernetes.default.svc", 443) == "open"
    finally:
        main.cluster.delete("Pod", main.name, "impostor", grace_seconds=0)


def test_a_stranger_reaches_neither_metastore_nor_storage(main: Space, stranger: str) -> None:
    for service, port in (("metastore", 9083), ("objectstore", 7070)):
        host = f"spark-sql-operator-{service}.{OPERATOR_NAMESPACE}.svc"
        assert python(main.cluster, main.name, stranger, CONNECT, host, port) == "closed"
        assert python(main.cluster, main.name, main.driver_pod(), CONNECT, host, port) == "open"


def test_the_gateway_answers_only_health_probes_without_its_token(main: Space) -> None:
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


def test_operator_metrics_count_ended_statements_and_session_starts(main: Space) -> None:
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


def test_tables_of_one_name_in_two_namespaces_are_two_tables(main: Space, fresh: Space) -> None:
    """In a shared session and in a dedicated one; a name with a database in front reaches the other one."""
    fresh.session("main")
    for space, owner in ((main, "first"), (fresh, "second")):
        ended = space.run(f"CREATE TABLE shared_name USING iceberg AS SELECT '{owner}' AS owner")
        assert phase(ended) == "Finished", ended["status"]
    mine = "SELECT concat(current_database(), ' ', owner) FROM shared_name"
    assert main.rows(mine) == [[f"{main.database} first"]]
    assert fresh.rows(mine) == fresh.rows(mine, session={}) == [[f"{fresh.database} second"]]
    assert fresh.rows(f"SELECT owner FROM {main.database}.shared_name") == [["first"]]
    described = dict(row[:2] for row in fresh.rows(f"DESCRIBE DATABASE {fresh.database}"))
    assert str(described["Location"]).endswith(f"/tables/{fresh.database}.db"), described


def test_storage_keys_are_not_shown(main: Space) -> None:
    for sql in ("SET", "SET -v", "SET spark.hadoop.fs.s3a.secret.key", "SET fs.s3a.secret.key"):
        ended = main.run(sql, result={"maxRows": 5000, "previewRows": 100})
        assert STORAGE_SECRET not in json.dumps(ended["status"]), sql
    assert STORAGE_SECRET not in everything_said(main)


def driver_secrets(space: Space) -> dict[str, dict[str, str]]:
    """The Secrets that the driver's init container copies, by name: their data in base64."""
    pod = space.cluster.get("Pod", space.name, space.driver_pod())
    assert pod is not None
    [volume] = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "sparksql-secrets"]
    names = [source["secret"]["name"] for source in volume["projected"]["sources"]]
    return {name: (space.cluster.get("Secret", space.name, name) or {})["data"] for name in names}


def test_no_file_and_no_process_of_a_driver_shows_its_secrets(main: Space) -> None:
    main.rows("SELECT count(*) FROM range(0, 10, 1, 2)")
    data = {file: value for secret in driver_secrets(main).values() for file, value in secret.items()}
    secrets = [data[file] for file in ("token", "tls.key", "config.json", "executor-secret")]
    secrets.append(base64.b64encode(STORAGE_SECRET.encode()).decode())
    assert python(main.cluster, main.name, main.driver_pod(), FIND, *secrets) == ""
    # The program does find what is there.
    [hosts] = [base64.b64encode(main.driver_pod().encode()).decode()]
    assert "/etc/hosts" in python(main.cluster, main.name, main.driver_pod(), FIND, hosts)


def test_the_executors_secret_is_not_in_their_specifications(main: Space) -> None:
    main.rows("SELECT count(*) FROM range(0, 10, 1, 2)")
    name, data = next((n, d) for n, d in driver_secrets(main).items() if n == f"{main.driver_pod()}-executor")
    pods = json.dumps(main.cluster.list("Pod", main.name))
    assert "_SPARK_AUTH_SECRET" not in pods and data["executor-secret"] not in pods
    owner = (main.cluster.get("Secret", main.name, name) or {})["metadata"]["ownerReferences"]
    assert [(one["kind"], one["name"]) for one in owner] == [("Pod", main.driver_pod())]


PRIVATE_PATHS = (
    "/etc/sparksql/executor.json", "/etc/sparksql/*", "/e*c/sparksql/token", "/{etc}/sparksql/token", "/x?/../etc/sparksql/token",
    "/etc/sparksql-executor/executor-secret", "/var/run/secrets/kubernetes.io/serviceaccount/token",
    "/v*r/run/secrets/kubernetes.io/serviceaccount/token", "/proc/self/environ", "/proc/1/environ", "/etc/hosts", "/",
)  # fmt: skip


def test_sql_sees_no_file_outside_the_sessions_own_folders(main: Space) -> None:
    main.rows("CREATE TABLE loot (line STRING) STORED AS TEXTFILE")
    token = python(
        main.cluster,
        main.name,
        main.driver_pod(),
        "print(open('/var/run/secrets/kubernetes.io/serviceaccount/token').read())",
    )
    for path in PRIVATE_PATHS:
        for sql in (
            f"SELECT * FROM text.`{path}`",
            f"LOAD DATA LOCAL INPATH '{path}' INTO TABLE loot",
            f"CREATE TEMPORARY VIEW a USING avro OPTIONS (path '/tmp', avroSchemaUrl 'file://{path}')",
        ):
            ended = main.run(sql)
            assert phase(ended) == "Error", (sql, ended["status"])
            assert token[:40] not in json.dumps(ended["status"])
    ready = [c for c in main.run("SELECT * FROM text.`/etc/hosts`")["status"]["conditions"] if c["type"] == "Ready"]
    assert [condition["reason"] for condition in ready] == ["NotAllowed"]
    assert main.rows("SELECT count(*) FROM loot") == [["0"]]
    main.rows("DROP TABLE loot")


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
