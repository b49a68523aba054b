"""The front on the cluster: who comes in, which session they get, and what happens when sessions sleep and replicas go."""

from __future__ import annotations

import base64
import json
import re
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.connect.client.core import DefaultChannelBuilder

from sparksql.cli.gateway import forwarded_port
from sparksql.wire.front import SESSION_PROPERTY
from tests.e2e.front_load import Load
from tests.e2e.protocol_clients import OPENS, PROTOCOLS, Client, Way
from tests.e2e.test_clients import Hand
from tests.support.accounts import account, rule, token, user
from tests.support.connect_client import Failed
from tests.support.harness import API_VERSION, OPERATOR_NAMESPACE, Cluster, Object, Space, phase, pod_ready
from tests.support.installation import new_space
from tests.support.thorough import thorough_but
from tests.support.thrift_client import Refused

FRONT = "spark-sql-front"
LABELS = f"app.kubernetes.io/name={FRONT},app.kubernetes.io/component=front"
ENDPOINTS = {"rest": True, "connect": True, "thrift": True}
SLEEPS = {"idle": {"timeoutSeconds": 3, "action": "Hibernate"}}
KILLS = 2
SECONDS = 300.0  # catches what hangs


class Front:
    """The front as its users have it: tokens of service accounts, one address a protocol."""

    def __init__(self, cluster: Cluster, hand: Hand) -> None:
        self.cluster = cluster
        self.hand = hand
        secret = cluster.get("Secret", OPERATOR_NAMESPACE, FRONT)
        assert secret is not None
        self.certificate = base64.b64decode(secret["data"]["tls.crt"]).decode()
        self._ports: dict[tuple[str, str], int] = {}

    def port(self, protocol: str, target: str = f"service/{FRONT}") -> int:
        if (protocol, target) not in self._ports:
            forward = self.hand.kubectl(
                "port-forward",
                f"--namespace={OPERATOR_NAMESPACE}",
                target,
                f":{PROTOCOLS[protocol]}",
                "--address=127.0.0.1",
            )
            port = forwarded_port(self.hand.said(forward, "Forwarding from"))
            assert port is not None
            self._ports[protocol, target] = port
        return self._ports[protocol, target]

    def way(self, protocol: str, presented: str, session: str | None = None, target: str = f"service/{FRONT}") -> Way:
        return Way(self.port(protocol, target), presented, self.certificate, session)

    def enter(self, protocol: str, presented: str, session: str | None = None, name: str = "ada") -> Client:
        return self.hand.enter(protocol, self.way(protocol, presented, session), name)

    def replicas(self) -> list[str]:
        pods = self.cluster.list("Pod", OPERATOR_NAMESPACE, LABELS)
        return [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def address(self) -> str:
        """The Service's address, which leads to any replica."""
        service = self.cluster.get("Service", OPERATOR_NAMESPACE, FRONT)
        assert service is not None
        address: str = service["spec"]["clusterIP"]
        return address

    def kill_one(self) -> None:
        """Kills the replica that is there longest once another is Ready: one that has just come may have no connection to lose."""

        def ready() -> list[Object]:
            return [each for each in self.cluster.list("Pod", OPERATOR_NAMESPACE, LABELS) if pod_ready(each)]

        self.cluster.wait_until(lambda: len(ready()) > 1, "two replicas that are Ready", SECONDS, ready)
        oldest = min(ready(), key=lambda each: str(each["metadata"]["creationTimestamp"]))
        self.cluster.delete("Pod", OPERATOR_NAMESPACE, oldest["metadata"]["name"], grace_seconds=0)

    def scale(self, replicas: int) -> None:
        self.cluster.kubectl("scale", "-n", OPERATOR_NAMESPACE, f"deployment/{FRONT}", f"--replicas={replicas}")
        self.cluster.kubectl("rollout", "status", "-n", OPERATOR_NAMESPACE, f"deployment/{FRONT}", "--timeout=120s")


@pytest.fixture(scope="module")
def team(space: Space) -> Space:
    """A namespace with the session `shared`, ada who may connect to it, and bob who has one of his own."""
    account(space, "ada", rule("connect", names=("shared",)))
    account(space, "bob", rule("create"))
    account(space, "nobody")
    space.session("shared", endpoints=ENDPOINTS)
    return space


@pytest.fixture(scope="module")
def other(cluster: Cluster) -> Iterator[Space]:
    """Another team's namespace, where eve may do everything with sessions."""
    with new_space(cluster, "front-other") as made:
        account(made, "eve", rule("connect", "create"))
        yield made


@pytest.fixture
def front(cluster: Cluster, team: Space, tmp_path: Path) -> Iterator[Front]:
    with ExitStack() as stack:
        yield Front(cluster, Hand(team, tmp_path, stack))


def refusal(front: Front, protocol: str, presented: str, session: str | None = None) -> str:
    """What a client of a protocol is told that is not let in."""
    way = front.way(protocol, presented, session)
    match protocol:
        case "thrift":
            try:
                OPENS[protocol](way, "ada").leave()
            except (Refused, AssertionError) as refused:
                return str(refused)
        case "connect":
            client = OPENS[protocol](way, "ada")
            try:
                client.value("SELECT 1")
            except Failed as failed:
                return f"{failed.failure.code.name} {failed.failure.message}"
            finally:
                client.vanish()  # type: ignore[attr-defined]
        case _:
            try:
                OPENS[protocol](way, "ada").leave()
            except urllib.error.HTTPError as error:
                return f"{error.code} {error.read().decode()}"
    raise AssertionError(f"{protocol} lets in {session}")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_user_connects_to_a_session_by_its_name(front: Front, team: Space, protocol: str) -> None:
    client = front.enter(protocol, token(team, "ada"), f"{team.name}/shared")
    assert int(client.value("SELECT sum(id) FROM range(100)")) == 4950


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_whoever_has_no_right_to_a_session_is_told_so_and_nothing_of_it(
    front: Front, team: Space, other: Space, protocol: str
) -> None:
    eve = token(other, "eve")
    told = [refusal(front, protocol, eve, f"{team.name}/{name}") for name in ("shared", "there-is-none")]
    assert all(f"eve may not connect to session {team.name}/" in each for each in told), told
    assert told[0].replace("shared", "there-is-none") == told[1]
    assert "does not exist" in refusal(front, protocol, eve, f"{other.name}/there-is-none")
    assert "no name of a Kubernetes object" in refusal(front, protocol, eve, "not/a-Session")
    assert "may not have a session of their own" in refusal(front, protocol, token(team, "nobody"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_wrong_token_is_refused_in_the_words_of_the_protocol(front: Front, team: Space, protocol: str) -> None:
    session = f"{team.name}/shared"
    told = [refusal(front, protocol, each, session) for each in ("wrong", team.credentials("shared")[0])]
    assert all("does not accept this token" in each for each in told), told
    assert {"rest": "401", "connect": "UNAUTHENTICATED", "thrift": ""}[protocol] in told[0]


def test_a_user_without_a_session_gets_one_that_all_of_its_connections_share(front: Front, team: Space) -> None:
    bob = token(team, "bob")
    client = front.enter("thrift", bob)
    assert client.value("SELECT current_user()") == user(team, "bob")
    [made] = [
        each
        for each in team.cluster.list("SqlSession", team.name)
        if each["metadata"].get("annotations", {}).get("sparksql.dev/front-user") == user(team, "bob")
    ]
    assert phase(made) == "Ready", made["status"]
    for protocol in ("rest", "connect"):
        assert int(front.enter(protocol, bob, f"{team.name}/").value("SELECT 1 + 1")) == 2
    assert len(team.cluster.list("SqlSession", team.name)) == 2
    team.cluster.wait_until(
        lambda: user(team, "bob") in team.cluster.cli(team.name, "status", made["metadata"]["name"]).stdout,
        "told by its name",
        60,
    )
    refused = refusal(front, "rest", token(team, "ada"), f"{team.name}/{made['metadata']['name']}")
    assert "may not connect" in refused


def test_a_handle_belongs_to_the_user_who_has_opened_it(front: Front, team: Space) -> None:
    account(team, "amy", rule("connect", names=("shared",)))
    ada, amy = token(team, "ada"), token(team, "amy")
    handle = ask(front, "POST", "/v4/sessions", ada, named(team, "shared"))["sessionHandle"]
    assert ask(front, "GET", f"/v4/sessions/{handle}", ada)["properties"]
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(front, "GET", f"/v4/sessions/{handle}", amy)
    assert "does not exist" in refused.value.read().decode()
    listed = ask(front, "GET", f"/v4/sessions?session={team.name}/shared", amy)["sessions"]
    assert handle not in {each["sessionHandle"] for each in listed}
    assert ask(front, "DELETE", f"/v4/sessions/{handle}", ada)


@pytest.mark.parametrize("protocol", thorough_but(["thrift"], PROTOCOLS))
def test_a_session_that_sleeps_is_woken_by_a_client(front: Front, team: Space, protocol: str) -> None:
    name = f"sleeper-{protocol}"
    team.session(name, endpoints=ENDPOINTS, **SLEEPS)
    team.wait_session(name, "Hibernated")
    account(team, f"guest-{protocol}", rule("connect", names=(name,)))
    client = front.enter(protocol, token(team, f"guest-{protocol}"), f"{team.name}/{name}")
    assert int(client.value("SELECT 40 + 2")) == 42
    client.leave()
    team.cluster.delete("SqlSession", team.name, name)


def test_any_replica_serves_any_request(front: Front, team: Space) -> None:
    front.scale(2)
    try:
        first, second = (f"pod/{name}" for name in front.replicas())
        ada = token(team, "ada")
        handle = ask(front, "POST", "/v4/sessions", ada, named(team, "shared"), first)["sessionHandle"]
        statement = {"statement": "SELECT id FROM range(100000)"}
        operation = ask(front, "POST", f"/v4/sessions/{handle}/statements", ada, statement, second)["operationHandle"]
        path = f"/v4/sessions/{handle}/operations/{operation}"
        team.cluster.wait_until(
            lambda: ask(front, "GET", f"{path}/status", ada, target=first)["status"] == "FINISHED", "FINISHED"
        )
        page = ask(front, "GET", f"{path}/result/0?rowFormat=JSON", ada, target=first)
        team.cluster.delete("Pod", OPERATOR_NAMESPACE, first.removeprefix("pod/"), grace_seconds=0)
        following = ask(front, "GET", page["nextResultUri"], ada, target=second)
        rows = [row["fields"][0] for each in (page, following) for row in each["results"]["data"]]
        assert rows == list(range(len(rows))) and len(page["results"]["data"]) < len(rows)
    finally:
        front.scale(1)


def test_a_statement_is_pending_by_any_replica_until_its_session_is_there(front: Front, team: Space) -> None:
    account(team, "early", rule("create"))
    early = token(team, "early")
    front.scale(2)
    try:
        first, second = (f"pod/{name}" for name in front.replicas())
        handle = ask(front, "POST", "/v4/sessions", early, {}, first)["sessionHandle"]
        statement = {"statement": "SELECT current_user()"}
        operation = ask(front, "POST", f"/v4/sessions/{handle}/statements", early, statement, second)["operationHandle"]
        path = f"/v4/sessions/{handle}/operations/{operation}"
        assert ask(front, "GET", f"{path}/status", early, target=first) == {"status": "PENDING"}
        assert ask(front, "GET", f"{path}/result/0?rowFormat=JSON", early, target=second)["resultType"] == "NOT_READY"
        team.cluster.wait_until(
            lambda: ask(front, "GET", f"{path}/status", early, target=first)["status"] == "FINISHED", "FINISHED", 180
        )
        page = ask(front, "GET", f"{path}/result/0?rowFormat=JSON", early, target=second)
        assert page["results"]["data"][0]["fields"] == [user(team, "early")]
    finally:
        front.scale(1)


def test_replicas_killed_under_load_cost_no_answer_and_no_session(front: Front, team: Space) -> None:
    """Two hundred clients for ten minutes are tests/bench/soak/front.py's."""
    front.scale(2)
    try:
        load = Load(
            host=front.address(), certificate=front.certificate, token=token(team, "ada"),
            session=f"{team.name}/shared",
        )  # fmt: skip
        with load.running(hive=8, rest=8):
            load.until_each_has(1, SECONDS)
            for _ in range(KILLS):
                front.kill_one()
                load.until_each_has(2, SECONDS)  # the first of them may have been under way
        assert load.wrong == [], load.seen
        assert load.seen["reconnects"] > 0, load.seen
    finally:
        front.scale(1)


def test_the_plugin_shows_the_way_by_the_front(front: Front, team: Space) -> None:
    printed = team.cluster.cli(team.name, "connect", "shared").stdout
    assert f"jdbc:hive2://{FRONT}.{OPERATOR_NAMESPACE}.svc:10000/{team.name}/shared;ssl=true" in printed, printed
    assert "create token" in printed
    [url] = re.findall(r"sc://\S+", printed)
    assert ("x-sparksql-session", f"{team.name}/shared") in DefaultChannelBuilder(url).metadata()
    forward = front.hand.plugin("connect", "shared", "--protocol", "rest", "--port-forward")
    front.hand.said(forward, "Forwarding from 127.0.0.1:8443")
    socket.create_connection(("127.0.0.1", 8443), 5).close()
    forward.terminate()
    assert forward.wait(30) == 130
    with pytest.raises(ConnectionRefusedError):  # what it had started has ended with it
        socket.create_connection(("127.0.0.1", 8443), 5)


def test_the_front_may_do_to_sessions_only_what_it_does(team: Space) -> None:
    account_of_front = f"--as=system:serviceaccount:{OPERATOR_NAMESPACE}:{FRONT}"

    def refused(*command: str, stdin: bytes | None = None) -> str:
        done = subprocess.run(
            ["kubectl", f"--kubeconfig={team.cluster.kubeconfig}", account_of_front, "-n", team.name, *command],
            input=stdin, capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode != 0, f"{command} is let through"
        return done.stderr.decode()

    patch = json.dumps({"spec": {"image": "localhost/other:dev"}})
    assert "annotation sparksql.dev/wake" in refused("patch", "sqlsess", "shared", "--type=merge", "-p", patch)
    assert "annotation sparksql.dev/wake" in refused("annotate", "sqlsess", "shared", "a=b")
    assert "made for a user only" in refused("delete", "sqlsess", "shared")
    other: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "SqlSession", "metadata": {"name": "other"}, "spec": {}}
    assert "made for a user only" in refused("create", "-f", "-", stdin=json.dumps(other).encode())
    marks = {"labels": {"sparksql.dev/front-user": "u"}, "annotations": {"sparksql.dev/front-user": "u"}}
    other |= {"metadata": {"name": "other", **marks}, "spec": {"init": [{"sql": "SELECT 1"}]}}
    assert "default class as it is" in refused("create", "-f", "-", stdin=json.dumps(other).encode())
    assert "forbidden" in refused("get", "secrets")


def named(space: Space, session: str) -> dict[str, Any]:
    return {"properties": {SESSION_PROPERTY: f"{space.name}/{session}"}}


def ask(
    front: Front, method: str, path: str, presented: str, body: Any = None, target: str = f"service/{FRONT}"
) -> Any:
    way = front.way("rest", presented, target=target)
    request = urllib.request.Request(
        f"https://localhost:{way.port}{path}",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {presented}", "Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, context=way.tls(), timeout=120) as response:
        return json.load(response)
