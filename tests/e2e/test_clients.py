"""Clients of a session on a cluster: who reaches which frontend, who is seen and canceled, and that use keeps a session awake."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from sparksql.api.names import gateway_server_name
from sparksql.cli.errors import Exit
from sparksql.cli.gateway import forwarded_port
from sparksql.wire.driver import BLOCK_MANAGER_PORT, CONNECT_PORT, DRIVER_RPC_PORT, GATEWAY_PORT, THRIFT_PORT
from tests.e2e.protocol_clients import CANCELED, OPENS, PROTOCOLS, Client, Connect, Way
from tests.support.harness import ENDLESS, OPERATOR_NAMESPACE, Classes, Cluster, Space, phase, pod_ready, reason
from tests.support.installation import new_space

EVERY_PROTOCOL = dict.fromkeys(PROTOCOLS, True)
UNTOLD_PORT = 9999  # of whatever else may listen in a driver
PORTS = (*PROTOCOLS.values(), DRIVER_RPC_PORT, BLOCK_MANAGER_PORT, UNTOLD_PORT)
ANALYST = {"role": "analyst"}
COUNT_SECONDS = 90.0  # counts are written every 5 s at most; on a loaded machine it takes a while until they are seen
# Of the SqlSession, and of a client's session in it; many times what a statement takes on a busy machine.
IDLE_SECONDS = 10
IDLE = {"timeoutSeconds": IDLE_SECONDS, "action": "Close"}
CLIENT_IDLE = {
    "spark.sql.gateway.session.idle-timeout": f"{IDLE_SECONDS}s",
    "spark.sql.gateway.session.check-interval": "1s",
}
SECONDS = 420.0  # catches what hangs

TRY = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor
def is_open(target):
    host, port = target.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=3).close()
        return True
    except OSError:
        return False
with ThreadPoolExecutor(32) as pool:
    print(json.dumps([target for target, found in zip(sys.argv[1:], pool.map(is_open, sys.argv[1:])) if found]))
"""
LISTEN = """
import socket, sys
listening = [socket.create_server(("", int(port))) for port in sys.argv[1:]]
print("listening", flush=True)
sys.stdin.read()
"""
GREET = """
import json, socket, ssl, sys
context = ssl.create_default_context(cadata=sys.argv[1])
for target in sys.argv[2:]:
    host, port = target.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=30) as raw:
        context.wrap_socket(raw, server_hostname=host).close()
print(json.dumps(sys.argv[2:]))
"""

Pod = tuple[str, str]  # namespace and name


def python(cluster: Cluster, pod: Pod, program: str, *arguments: str) -> list[str]:
    """The list that a Python program in a pod prints."""
    printed = cluster.kubectl("exec", "-n", pod[0], pod[1], "--", "python3", "-c", program, *arguments)
    found: list[str] = json.loads(printed)
    return found


class Hand:
    """Starts programs and clients for a test; they end with it. What a program says goes to a file."""

    def __init__(self, space: Space, folder: Path, stack: ExitStack) -> None:
        self._space = space
        self._folder = folder
        self._stack = stack
        self._logs: dict[int, Path] = {}

    def start(self, *command: object) -> subprocess.Popen[bytes]:
        log = self._folder / f"program-{len(self._logs)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        self._logs[process.pid] = log
        self._stack.callback(_end, process)
        return process

    def kubectl(self, *arguments: object) -> subprocess.Popen[bytes]:
        flags = (f"--kubeconfig={self._space.cluster.kubeconfig}", f"--namespace={self._space.name}")
        return self.start("kubectl", *flags, *arguments)

    def plugin(self, *arguments: object) -> subprocess.Popen[bytes]:
        program = Path(sys.executable).with_name("kubectl-sparksql")
        flags = (f"--kubeconfig={self._space.cluster.kubeconfig}", f"--namespace={self._space.name}")
        return self.start(program, *flags, *arguments)

    def said(self, process: subprocess.Popen[bytes], *texts: str) -> str:
        """What a program has said once all of the texts are there."""
        log = self._logs[process.pid]

        def is_said() -> bool:
            return all(text in log.read_text() for text in texts)

        self._space.cluster.wait_until(is_said, f"saying {texts}", 120, log.read_text)
        return log.read_text()

    def listen(self, session: str, *ports: int) -> None:
        """Has something answer on ports of a driver."""
        pod = self._space.driver_pod(session)
        self.said(self.kubectl("exec", "-i", pod, "--", "python3", "-c", LISTEN, *ports), "listening")

    def client(self, session: str, protocol: str, name: str = "ada") -> Client:
        """A client that comes by a forwarded port of its own."""
        pod = f"pod/{self._space.driver_pod(session)}"
        forward = self.kubectl("port-forward", pod, f":{PROTOCOLS[protocol]}", "--address=127.0.0.1")
        port = forwarded_port(self.said(forward, "Forwarding from"))
        assert port is not None
        return self.enter(protocol, Way(port, *self._space.credentials(session)), name)

    def enter(self, protocol: str, way: Way, name: str = "ada") -> Client:
        client = OPENS[protocol](way, name)
        self._stack.callback(client.leave)
        return client


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.communicate(timeout=90)


@pytest.fixture
def hand(served: Space, tmp_path: Path) -> Iterator[Hand]:
    with ExitStack() as stack:
        yield Hand(served, tmp_path, stack)


@pytest.fixture(scope="module")
def abroad(cluster: Cluster) -> Iterator[Space]:
    """A namespace beside that of the sessions."""
    with new_space(cluster, "abroad") as made:
        yield made


@pytest.fixture(scope="module")
def served(space: Space, abroad: Space, classes: Classes) -> Space:
    """Sessions: `open` with every protocol, `plain` as sessions are by default, `brief` in which clients are soon forgotten. Pods
    that are labelled as analysts may use them, from here and from abroad."""
    here = {"podSelector": {"matchLabels": ANALYST}}
    there = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": abroad.name}}, **here}
    name = classes.make(networkPolicy={"clients": [here, there]})
    space.session("open", className=name, wait=False, endpoints=EVERY_PROTOCOL, maxConcurrentStatements=4)
    space.session("plain", className=name, wait=False)
    space.session("brief", className=name, wait=False, endpoints=EVERY_PROTOCOL, conf=CLIENT_IDLE)
    for session in ("open", "plain", "brief"):
        space.wait_session(session, "Ready")
    return space


@pytest.fixture(scope="module")
def pods(served: Space, abroad: Space) -> Mapping[str, Pod]:
    """Pods that try to get in."""
    wanted = {"analyst": (served, ANALYST), "stranger": (served, {}), "guest": (abroad, ANALYST), "alien": (abroad, {})}
    for name, (space, labels) in wanted.items():
        space.cluster.idle_pod(space.name, name, labels)
    for name, (space, _) in wanted.items():
        space.cluster.wait("Pod", space.name, name, lambda pod: pod_ready(pod or {}), "ready")
    return {name: (space.name, name) for name, (space, _) in wanted.items()}


# --- who reaches what


@pytest.mark.thorough
def test_the_network_is_open_on_what_is_on_to_whom_the_class_names(
    served: Space, pods: Mapping[str, Pod], hand: Hand
) -> None:
    cluster = served.cluster
    drivers = {name: (served.name, served.driver_pod(name)) for name in ("open", "plain")}
    addresses = {(cluster.get("Pod", *driver) or {})["status"]["podIP"]: name for name, driver in drivers.items()}
    hand.listen("open", UNTOLD_PORT)
    hand.listen("plain", CONNECT_PORT, THRIFT_PORT, UNTOLD_PORT)

    def reached(pod: Pod) -> set[tuple[str, int]]:
        found = python(cluster, pod, TRY, *(f"{address}:{port}" for address in addresses for port in PORTS))
        return {(addresses[host], int(port)) for host, port in (target.split(":") for target in found)}

    operator = (OPERATOR_NAMESPACE, cluster.operator_pods()[0]["metadata"]["name"])
    origins = {**pods, "operator": operator, **drivers}
    with ThreadPoolExecutor(len(origins)) as pool:
        seen = dict(zip(origins, pool.map(reached, origins.values()), strict=True))
    for_clients = {*(("open", port) for port in PROTOCOLS.values()), ("plain", GATEWAY_PORT)}
    assert seen == {
        "analyst": for_clients,
        "guest": for_clients,
        "stranger": set(),
        "alien": set(),
        "operator": {("open", GATEWAY_PORT), ("plain", GATEWAY_PORT)},
        # From itself a driver is open on every port: something does listen on those that nobody reaches.
        "open": {("open", port) for port in PORTS},
        "plain": {("plain", port) for port in PORTS},
    }


# --- what is known of clients


@pytest.fixture
def busy(served: Space, hand: Hand) -> Mapping[str, Client]:
    """A client by each protocol of `open` whose statement runs, named after the protocol; the session's status knows of them."""
    wait_counts(served, 0, 0)
    clients = {protocol: hand.client("open", protocol, f"by-{protocol}") for protocol in PROTOCOLS}
    for client in clients.values():
        client.start(ENDLESS)
    wait_counts(served, len(clients), len(clients))
    return clients


def counts(space: Space, session: str) -> tuple[int, int]:
    """Clients and running statements, by the session's status."""
    status = space.get_session(session)["status"]
    return status["clients"]["sessions"], status["statements"]["running"]


def wait_counts(space: Space, *wanted: int) -> None:
    """Until these are the counts of `open`."""

    def seen() -> str:
        return f"{counts(space, 'open')}\n{space.cluster.cli(space.name, 'status', 'open').stdout}"

    space.cluster.wait_until(lambda: counts(space, "open") == wanted, f"{wanted} in the status", COUNT_SECONDS, seen)


def test_clients_statements_are_shown_and_canceled(served: Space, busy: Mapping[str, Client]) -> None:
    cli = served.cluster.cli
    printed = cli(served.name, "status", "open", "-o", "json")
    assert printed.returncode == 0, printed.stderr
    listed = json.loads(printed.stdout)
    clients = {(client["client"], client["door"], client["session"]) for client in listed["clients"]}
    assert clients == {(f"by-{protocol}", protocol, "open") for protocol in PROTOCOLS}
    operations = {(o["client"], o["door"], o["state"], o["type"]) for o in listed["operations"]}
    assert operations == {(f"by-{protocol}", protocol, "Running", "SELECT") for protocol in PROTOCOLS}
    shown = cli(served.name, "status", "open").stdout
    for operation in listed["operations"]:
        protocol, name = operation["door"], operation["operation"]
        assert name in shown
        canceled = cli(served.name, "cancel", "-s", "open", "--operation", name)
        assert (canceled.returncode, canceled.stdout) == (0, f"{name} Canceled\n"), canceled.stderr
        assert busy[protocol].end() == CANCELED[protocol]
        again = cli(served.name, "cancel", "-s", "open", "--operation", name)
        assert again.returncode == Exit.ERROR and "no client of session open" in again.stderr, again
    for client in busy.values():
        assert client.value("SELECT 'alive'") == "alive"


def test_the_status_tells_where_clients_come_in_and_how_many_there_are(
    served: Space, busy: Mapping[str, Client]
) -> None:
    host = gateway_server_name("open", served.get_session("open")["metadata"]["uid"], served.name)
    assert served.get_session("open")["status"]["endpoints"] == {
        "rest": f"https://{host}:8443",
        "connect": f"sc://{host}:15002/;use_ssl=true",
        "thrift": f"jdbc:hive2://{host}:10000/default;ssl=true",
    }
    assert served.get_session("plain")["status"]["endpoints"].keys() == {"rest"}
    busy["thrift"].leave()  # what it runs ends with it
    wait_counts(served, 2, 2)
    busy["connect"].leave()
    busy["rest"].leave()
    wait_counts(served, 0, 0)


# --- what `connect` prints


def told(printed: str) -> dict[str, str]:
    """The rows that `connect` prints."""
    rows = (re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in printed.splitlines()[1:])
    return {row[0]: row[1] for row in rows if len(row) == 2}


def shell(command: str) -> str:
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True, timeout=120).stdout


def test_addresses_and_commands_printed_by_cli_connect_let_clients_in(
    served: Space, pods: Mapping[str, Pod], hand: Hand
) -> None:
    printed = served.cluster.cli(served.name, "connect", "open", "--direct")
    assert printed.returncode == 0, printed.stderr
    row = told(printed.stdout)
    token, certificate = shell(row["token"]), shell(row["certificate"])
    assert token not in printed.stdout
    addresses = [re.search(r"//([\w.-]+:\d+)", row[protocol])[1] for protocol in PROTOCOLS]  # type: ignore[index]
    assert python(served.cluster, pods["analyst"], GREET, certificate, *addresses) == addresses
    # Its ports on this machine are those of the frontends, as in the clients' documentation.
    forward = hand.start(*shlex.split(row["from outside"]))
    hand.said(forward, *(f"127.0.0.1:{port} -> {port}" for port in PROTOCOLS.values()))
    for protocol, port in PROTOCOLS.items():
        client = hand.enter(protocol, Way(port, token, certificate))
        assert client.value("SELECT 'in'") == "in"
        assert client.value("SELECT current_database()") == served.database, protocol


def test_connect_prints_what_is_on(served: Space) -> None:
    printed = served.cluster.cli(served.name, "connect", "plain", "--direct").stdout
    assert not told(printed).keys() & {"connect", "thrift"} and "rest" in told(printed), printed
    refused = served.cluster.cli(served.name, "connect", "plain", "--direct", "--door", "thrift")
    assert (refused.returncode, refused.stdout) == (Exit.ERROR, "")
    assert "endpoint thrift of session plain is off" in refused.stderr


@pytest.mark.parametrize("interrupt", [os.kill, os.killpg], ids=["plugin", "terminal"])
def test_cli_connect_forwards_a_port_until_it_is_interrupted(
    served: Space, hand: Hand, interrupt: Callable[[int, int], None]
) -> None:
    """A terminal interrupts the plugin and its child at the same time."""
    plugin = hand.plugin("connect", "open", "--direct", "--protocol", "thrift", "--port-forward")
    hand.said(plugin, f"jdbc:hive2://localhost:{THRIFT_PORT}/default;ssl=true", f"127.0.0.1:{THRIFT_PORT} ->")
    children = shell(f"ps --ppid {plugin.pid} -o pid=").split()
    assert len(children) == 1
    client = hand.enter("thrift", Way(THRIFT_PORT, *served.credentials("open")))
    assert client.value("SELECT 'in'") == "in"
    interrupt(plugin.pid, signal.SIGINT)
    assert plugin.wait(60) == Exit.CANCELED, hand.said(plugin)
    assert not Path("/proc", children[0]).exists()
    assert "rror" not in hand.said(plugin)
    with pytest.raises(ConnectionRefusedError):
        hand.enter("thrift", Way(THRIFT_PORT, *served.credentials("open")))


# --- use and idleness


def keep_using(space: Space, client: Client, unused: str) -> None:
    """Statements in `brief`, until a session that nobody uses has come and gone by the same timeout."""
    space.session(unused, wait=False, idle=IDLE)

    def has_gone() -> bool:
        assert client.value("SELECT 1") == 1
        session = space.get_session("brief")
        assert phase(session) == "Ready", space.cluster.describe(session, space.name)
        return phase(space.get_session(unused)) == "Closed"

    space.cluster.wait_until(has_gone, f"without {unused}", SECONDS, lambda: space.get_session(unused)["status"])
    assert reason(space.get_session(unused)) == "IdleTimeout"
    session = space.get_session("brief")
    assert session["status"]["observedGeneration"] == session["metadata"]["generation"]


@pytest.mark.thorough
def test_use_through_one_protocol_keeps_a_session_awake(served: Space, hand: Hand) -> None:
    thrift = hand.client("brief", "thrift")

    def is_known() -> bool:
        return thrift.value("SELECT 1") == 1 and counts(served, "brief")[0] == 1

    # Or the operator may not have heard of the client when it sees the timeout, which has long passed then.
    served.cluster.wait_until(is_known, "known to the operator", COUNT_SECONDS)
    served.change("SqlSession", "brief", idle=IDLE)
    keep_using(served, thrift, "unused-beside-thrift")
    connect = hand.client("brief", "connect")
    assert isinstance(connect, Connect)

    def are_known() -> bool:
        return connect.value("SELECT 1") == 1 and counts(served, "brief")[0] == 2

    # The first use of that frontend takes longer than the session may be without use.
    served.cluster.wait_until(are_known, "known to the operator", COUNT_SECONDS)
    thrift.leave()
    keep_using(served, connect, "unused-beside-connect")
    connect.vanish()
    closed = served.wait_session("brief", "Closed")
    assert reason(closed) == "IdleTimeout"
    assert not closed["status"].keys() & {"endpoints", "clients"}, closed["status"]
