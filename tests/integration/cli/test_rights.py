"""The rights that docs/cli.md lists are enough: each command as a user of a real API server who has these and no others."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.cli_cluster import DEADLINE_SECONDS, FOREVER, Cluster, eventually, session_status

Rule = tuple[str, str, str]  # API group, resources, verbs
STATEMENTS, SESSIONS = "sqlstatements", "sqlsessions"
FRONT = "spark-sql-front.spark-sql-system.svc"
SPARK = "sparksql.dev"


def user(cluster: Cluster, folder: Path, *rules: Rule, cluster_roles: tuple[str, ...] = ()) -> Cluster:
    """The cluster as a new user sees it who has these rights in its namespace, and these roles of Kubernetes."""
    name = f"user-of-{cluster.namespace}"
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{cluster.namespace}"
    request = cluster.server.request
    made = [{"apiGroups": [group], "resources": kinds.split(), "verbs": verbs.split()} for group, kinds, verbs in rules]
    assert request("POST", f"{rbac}/roles", {"metadata": {"name": "own"}, "rules": made}).status == 201
    for kind, role in (("Role", "own"), *(("ClusterRole", each) for each in cluster_roles)):
        binding: dict[str, Any] = {
            "metadata": {"name": role.replace(":", "-")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
        }
        assert request("POST", f"{rbac}/rolebindings", binding).status == 201
    kubeconfig = folder / "kubeconfig"
    admin = cluster.server.kubeconfig.read_text()
    kubeconfig.write_text(admin.replace("    client-key:", f"    as: {name}\n    client-key:"))
    server = dataclasses.replace(cluster.server, kubeconfig=kubeconfig)
    return dataclasses.replace(cluster, server=server)


def analytics(cluster: Cluster, **status: Any) -> None:
    cluster.create(SESSIONS, "SqlSession", "analytics", {"className": "standard"})
    endpoints = {"rest": "https://analytics:8443"}
    cluster.write_status(SESSIONS, "analytics", {**session_status(), "endpoints": endpoints, **status})


CONFIGURED = {"configuration": [{"name": "driver.memory", "value": "1Gi", "layer": "Operator"}]}
LISTED: dict[str, tuple[list[str], list[Rule], str]] = {
    "run": (["run", "-e", "SELECT 1 AS a"], [(SPARK, STATEMENTS, "create get list watch")], "1"),
    "run -s": (
        ["run", "-e", "SELECT 1 AS a", "-s", "analytics"],
        [(SPARK, STATEMENTS, "create get list watch"), (SPARK, SESSIONS, "get list")],
        "1",
    ),
    "run --no-wait": (
        ["run", "--no-wait", "-e", "SELECT 1", "--name", "mine"],
        [(SPARK, STATEMENTS, "create")],
        "mine",
    ),
    "wait": (["wait", "good"], [(SPARK, STATEMENTS, "get list watch")], "good Finished"),
    "results": (["results", "good"], [(SPARK, STATEMENTS, "get")], "1"),
    "validate": (["validate", "good"], [(SPARK, STATEMENTS, "create get list watch delete")], "good: valid"),
    "validate -s": (
        ["validate", "good", "-s", "analytics"],
        [(SPARK, STATEMENTS, "create get list watch delete"), (SPARK, SESSIONS, "get list")],
        "good: valid",
    ),
    "cancel": (["cancel", "long"], [(SPARK, STATEMENTS, "get list watch patch")], "long Canceled"),
    "describe": (["describe", "good"], [(SPARK, STATEMENTS, "get"), ("", "events", "list")], "good"),
    "describe -s": (["describe", "-s", "analytics"], [(SPARK, SESSIONS, "get"), ("", "events", "list")], "standard"),
    "config": (["config", "analytics"], [(SPARK, SESSIONS, "get")], "1Gi"),
    "connect": (["connect", "analytics"], [(SPARK, SESSIONS, "get")], FRONT),
    "status": (["status"], [(SPARK, SESSIONS, "list"), (SPARK, STATEMENTS, "list")], "analytics"),
    "status SESSION": (
        ["status", "analytics"],
        [(SPARK, SESSIONS, "get list"), (SPARK, STATEMENTS, "list")],
        "analytics",
    ),
}


@pytest.mark.parametrize("command", LISTED)
def test_command_with_the_listed_rights_alone_succeeds(
    cluster: Cluster, operator: None, tmp_path: Path, command: str
) -> None:
    arguments, rules, shown = LISTED[command]
    analytics(cluster, front=FRONT, **CONFIGURED)
    cluster.create_statement("good", "SELECT 1 AS a")
    cluster.create_statement("long", FOREVER)
    eventually("finished", lambda: cluster.phase("good") == "Finished")
    done = user(cluster, tmp_path, *rules).run(*arguments)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


@pytest.mark.parametrize(("verbs", "code", "told"), [("patch ", 130, "Canceled"), ("", 1, "it runs on")])
def test_ctrl_c_needs_the_right_to_patch_and_tells_without_it_that_the_statement_runs_on(
    cluster: Cluster, operator: None, tmp_path: Path, verbs: str, code: int, told: str
) -> None:
    allowed = user(cluster, tmp_path, (SPARK, STATEMENTS, f"{verbs}create get list watch"))
    plugin = allowed.start("run", "-e", FOREVER, "--name", "long")
    try:
        eventually("running", lambda: cluster.phase("long") == "Running")
        plugin.send_signal(signal.SIGINT)
        _, err = plugin.communicate(timeout=DEADLINE_SECONDS)
    finally:
        plugin.kill()
    assert plugin.returncode == code, err
    assert told in err
    assert f"kubectl sparksql wait long --namespace {cluster.namespace}" in err or verbs
    assert (cluster.phase("long") == "Running") is not bool(verbs)


OWN_ROLES = {
    "view": ("system:aggregate-to-view", [(SPARK, f"{SESSIONS} {STATEMENTS}", "get list watch")]),
    "edit": (
        "system:aggregate-to-edit",
        [(SPARK, f"{SESSIONS} {STATEMENTS}", "get list watch create update patch delete deletecollection connect")],
    ),
}


@pytest.mark.parametrize("role", OWN_ROLES)
@pytest.mark.parametrize("phase", ["Ready", "Hibernated"])
def test_user_with_a_role_in_one_namespace_is_shown_the_front_and_only_open_endpoints(
    cluster: Cluster, tmp_path: Path, role: str, phase: str
) -> None:
    on = {"name": "endpoints.rest", "value": "true", "layer": "Operator"}
    analytics(cluster, front=FRONT, phase=phase, configuration=[on])
    kubernetes_role, rules = OWN_ROLES[role]
    allowed = user(cluster, tmp_path, *rules, cluster_roles=(kubernetes_role,))
    done = allowed.run("connect", "analytics")
    assert (done.returncode, done.stderr) == (0, "")
    told = dict(line.split(maxsplit=1) for line in done.stdout.splitlines()[1:])
    session = f"{cluster.namespace}/analytics"
    assert told["rest"] == f"https://{FRONT}:8443 with property sparksql.session={session}"
    assert told.keys() == {"rest", "token", "certificate", "from"}
    assert (
        "ask your cluster's administrators for tls.crt of Secret spark-sql-system/spark-sql-front"
        in told["certificate"]
    )
    assert "port-forward service/spark-sql-front 8443" in done.stdout
    refused = allowed.run("connect", "analytics", "--protocol", "thrift")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "endpoint thrift of session analytics is off: turn it on in spec.endpoints.thrift" in refused.stderr


@pytest.mark.parametrize("is_known", [True, False], ids=["with a front", "without a front"])
def test_connect_leads_to_no_service_that_a_tenant_has_labelled_as_the_front(
    cluster: Cluster, tmp_path: Path, is_known: bool
) -> None:
    """The front is the one that the session's status names, which tenants cannot write; without one there is none."""
    analytics(cluster, **({"front": FRONT} if is_known else {}))
    labels = {"app.kubernetes.io/name": "spark-sql-front", "app.kubernetes.io/component": "front"}
    labels["app.kubernetes.io/managed-by"] = "Helm"
    annotations = {"meta.helm.sh/release-namespace": "spark-sql-system"}
    ports = [{"name": name, "port": port} for name, port in (("rest", 8443), ("thrift", 10000), ("connect", 15002))]
    for name in ("spark-sql-front", "analytics-front"):
        metadata = {"name": name, "labels": labels, "annotations": annotations}
        body = {"metadata": metadata, "spec": {"ports": ports, "selector": {"app": "trap"}}}
        made = cluster.server.request("POST", f"/api/v1/namespaces/{cluster.namespace}/services", body)
        assert made.status == 201, made.message
    allowed = user(cluster, tmp_path, *OWN_ROLES["edit"][1], cluster_roles=("system:aggregate-to-edit",))
    done = allowed.run("connect", "analytics")
    assert done.returncode == 0, done.stderr
    assert "service/analytics-front" not in done.stdout
    assert f"spark-sql-front.{cluster.namespace}" not in done.stdout
    assert f"--namespace={cluster.namespace} port-forward service/spark-sql-front" not in done.stdout
    assert (FRONT in done.stdout) is is_known


def test_connect_through_the_front_prints_for_an_administrator_how_its_certificate_is_read(cluster: Cluster) -> None:
    analytics(cluster, front=FRONT)
    done = cluster.run("connect", "analytics")
    assert "--namespace=spark-sql-system get secret spark-sql-front" in done.stdout, done.stderr


def test_connect_to_a_stopped_session_through_the_front_notes_that_no_client_gets_in(cluster: Cluster) -> None:
    analytics(cluster, front=FRONT, phase="Stopped", endpoints=None)
    done = cluster.run("connect", "analytics")
    assert (done.returncode, "sc://" in done.stdout) == (0, False)
    assert "No client gets in now: session analytics is Stopped" in done.stderr


def test_connect_without_a_front_shows_the_sessions_own_address(cluster: Cluster, tmp_path: Path) -> None:
    analytics(cluster)
    allowed = user(cluster, tmp_path, (SPARK, SESSIONS, "get"))
    assert "https://analytics:8443" in allowed.run("connect", "analytics").stdout


def test_waiting_by_kubectl_alone_ends_at_once_for_a_failed_statement(cluster: Cluster, operator: None) -> None:
    """The README's two commands: the first ends with the statement, the second looks once whether that was a success."""

    def kubectl(*arguments: str) -> int:
        command = ["kubectl", *cluster.flags(), *arguments]
        return subprocess.run(command, capture_output=True, timeout=DEADLINE_SECONDS, check=False).returncode

    for name, sql, code in (("good", "SELECT 1 AS a", 0), ("bad", "SELECT * FROM nope", 1)):
        cluster.create_statement(name, sql)
        assert kubectl("wait", "--for=condition=Finished", f"sqlstmt/{name}", "--timeout=1m") == 0
        assert kubectl("wait", "--for=condition=Succeeded", f"sqlstmt/{name}", "--timeout=0") == code
