"""How long a user waits for a session that is not there, that sleeps and that is there, and what the front costs on the way.

Usage: python -m tests.bench.sessions [ROUNDS] [ROWS]. On a cluster with the chart (`KUBECONFIG`), whose pods this machine can
reach. Starts are HiveServer2's clients from their first byte to the first row, through the front. Its cost is that of statements
and of rows through it beside the same of the same driver directly; the two take turns.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc

from sparksql.api.names import FRONT_APP_NAME
from sparksql.protocols.hiveserver2 import messages
from sparksql.wire.driver import CONNECT_PORT, THRIFT_PORT
from sparksql.wire.front import SESSION_HEADER
from tests.bench.latency.common import machine
from tests.support.accounts import account, own_session, rule, token
from tests.support.connect_client import ConnectSession, sql_relation
from tests.support.harness import DEFAULT_CLASS, OPERATOR_NAMESPACE, Classes, Cluster, Space, pod_ready
from tests.support.installation import new_space
from tests.support.thrift_client import ThriftClient

PAGE_ROWS = 50_000
STATEMENTS = 100  # of one turn
HIVE_PROTOCOL = 9
QUERY = "SELECT id, CAST(id AS DOUBLE) / 7 AS x, concat('row-', id) AS s FROM range(0, {rows}, 1, 4)"


@dataclass(frozen=True)
class Way:
    """Where a client goes and as whom; `session` is what a client of the front names."""

    name: str
    host: str
    token: str
    certificate: str
    session: str | None = None

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.certificate)


class Hive:
    """A connection of HiveServer2 with its session."""

    def __init__(self, way: Way) -> None:
        self._client = ThriftClient(THRIFT_PORT, way.tls(), way.token, seconds=600, host=way.host)
        configuration = {} if way.session is None else {"use:database": way.session}
        opened = self._client.call("OpenSession", messages.TOpenSessionReq(HIVE_PROTOCOL, "bench", configuration))
        assert opened[1][1] == 0, opened
        self._session = messages.TSessionHandle(messages.THandleIdentifier(opened[3][1][1], opened[3][1][2]))

    def query(self, sql: str) -> int:
        """Rows that were read, as bytes: none is decoded."""
        answer = self._client.call("ExecuteStatement", messages.TExecuteStatementReq(self._session, sql))
        assert answer[1][1] == 0, answer
        identifier = messages.THandleIdentifier(answer[2][1][1], answer[2][1][2])
        operation = messages.TOperationHandle(identifier, answer[2][2])
        read = 0
        while True:
            self._client.send("FetchResults", messages.TFetchResultsReq(operation, max_rows=PAGE_ROWS))
            size = len(self._client.receive_frame())
            read += size
            if size < 1_000:  # an empty page
                break
        self._client.call("CloseOperation", messages.OperationRequest(operation))
        return read

    def close(self) -> None:
        self._client.socket.close()


async def connect_bytes(way: Way, sql: str) -> int:
    credentials = grpc.ssl_channel_credentials(way.certificate.encode())
    options = (("grpc.ssl_target_name_override", "localhost"), ("grpc.max_receive_message_length", 128 << 20))
    async with grpc.aio.secure_channel(f"{way.host}:{CONNECT_PORT}", credentials, options=options) as channel:
        headers = {} if way.session is None else {SESSION_HEADER: way.session}
        session = ConnectSession(channel, "bench", token=way.token, headers=headers)
        stream = await session.execute(root=sql_relation(sql))
        await session.close()
        return sum(len(each.arrow_batch.data) for each in stream.responses if each.HasField("arrow_batch"))


def seconds_of(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def shown(name: str, figures: Sequence[float], unit: str = "s") -> None:
    ordered = sorted(figures)
    print(
        f"{name:<44} median {statistics.median(ordered):8.3f} {unit}, {ordered[0]:.3f} to {ordered[-1]:.3f}", flush=True
    )


def first_row(way: Way) -> float:
    def work() -> None:
        client = Hive(way)
        client.query("SELECT 1")
        client.close()

    return seconds_of(work)


def front_of(cluster: Cluster) -> tuple[str, str]:
    """A replica's address, and the certificate."""
    [pod, *_] = cluster.list("Pod", OPERATOR_NAMESPACE, f"app.kubernetes.io/name={FRONT_APP_NAME}")
    secret = cluster.get("Secret", OPERATOR_NAMESPACE, FRONT_APP_NAME)
    assert secret is not None
    return pod["status"]["podIP"], base64.b64decode(secret["data"]["tls.crt"]).decode()


def starts(space: Space, front: Way, rounds: int) -> None:
    """Sessions that are not there, that are there, and that sleep."""
    cold, there, woken = [], [], []
    for number in range(rounds):
        name = f"user-{number}"
        account(space, name, rule("create"))
        way = replace(front, token=token(space, name))
        cold.append(first_row(way))
        there += [first_row(way) for _ in range(5)]
        session, _ = own_session(space, name)
        space.change("SqlSession", session, idle={"timeoutSeconds": 1})
        space.wait_session(session, "Hibernated")
        woken.append(first_row(way))
        space.cluster.delete("SqlSession", space.name, session)
    shown("a session that is not there, to first row", cold)
    shown("a session that sleeps, to first row", woken)
    shown("a session that is there, to first row", there)


def warm(space: Space, front: Way, rounds: int) -> None:
    """Sessions that get a driver of a pool: from the object to Ready, and from a client's first byte to its first row."""
    ready, row = [], []
    classes = Classes(space.cluster)
    name = classes.make(warmPool={"size": 1, "namespaces": [space.name]})
    space.cluster.patch(
        "SqlSessionClass", "", DEFAULT_CLASS, {"spec": {"warmPool": {"size": 1, "namespaces": [space.name]}}}
    )
    try:
        for number in range(rounds):
            _filled(space, name)
            began = time.perf_counter()
            space.session(f"warm-{number}", className=name)
            ready.append(time.perf_counter() - began)
            space.cluster.delete("SqlSession", space.name, f"warm-{number}")
            _filled(space, DEFAULT_CLASS)
            account(space, f"warm-user-{number}", rule("create"))
            row.append(first_row(replace(front, token=token(space, f"warm-user-{number}"))))
            space.cluster.delete("SqlSession", space.name, own_session(space, f"warm-user-{number}")[0])
    finally:
        space.cluster.patch("SqlSessionClass", "", DEFAULT_CLASS, {"spec": {"warmPool": None}})  # the chart's as it was
        classes.remove()
    shown("a driver of a warm pool, object to Ready", ready)
    shown("a driver of a warm pool, to first row", row)


def _filled(space: Space, class_name: str) -> None:
    def is_filled() -> bool:
        return any(map(pod_ready, space.cluster.list("Pod", space.name, f"sparksql.dev/warm-pool={class_name}")))

    space.cluster.wait_until(is_filled, "a driver in the pool", 180)


def cost(ways: Sequence[Way], rounds: int, rows: int) -> None:
    """Statements and rows by each way, in turns."""
    clients = {way.name: Hive(way) for way in ways}
    for client in clients.values():
        client.query(QUERY.format(rows=100_000))
    statement: dict[str, list[float]] = {way.name: [] for way in ways}
    result: dict[str, list[float]] = {way.name: [] for way in ways}
    arrow: dict[str, list[float]] = {way.name: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            client = clients[way.name]
            statement[way.name] += [1000 * seconds_of(lambda c=client: c.query("SELECT 1")) for _ in range(STATEMENTS)]
        for way in ways:
            took = seconds_of(lambda c=clients[way.name]: c.query(QUERY.format(rows=rows)))
            result[way.name].append(rows / took / 1e6)
        for way in ways:
            took = seconds_of(lambda w=way: asyncio.run(connect_bytes(w, QUERY.format(rows=rows // 2))))
            arrow[way.name].append(rows / 2 / took / 1e6)
    for title, figures, unit in (
        ("HiveServer2, SELECT 1", statement, "ms"), ("HiveServer2, rows", result, "million rows/s"),
        ("Connect, rows", arrow, "million rows/s"),
    ):  # fmt: skip
        for way in ways:
            shown(f"{title}, {way.name}", figures[way.name], unit)
        direct, front = (statistics.median(figures[way.name]) for way in ways)
        print(f"{title}: front / direct = {front / direct:.2f}", flush=True)


@contextmanager
def served(space: Space, front: Way) -> Iterator[tuple[Way, Way]]:
    """A session, directly and by the front."""
    account(space, "reader", rule("connect"))
    space.session("read", endpoints={"rest": True, "thrift": True, "connect": True}, driver={"memory": "1Gi"})
    direct_token, certificate = space.credentials("read")
    pod = space.cluster.get("Pod", space.name, space.driver_pod("read"))
    assert pod is not None
    direct = Way("direct", pod["status"]["podIP"], direct_token, certificate)
    yield direct, replace(front, token=token(space, "reader"), session=f"{space.name}/read")


def main(arguments: list[str]) -> None:
    rounds, rows = int(arguments[0]) if arguments else 3, int(arguments[1]) if len(arguments) > 1 else 2_000_000
    cluster = Cluster(Path(os.environ["KUBECONFIG"]))
    host, certificate = front_of(cluster)
    print(f"{machine()}; {rounds} rounds, {rows:,} rows", flush=True)
    with new_space(cluster, "bench-sessions") as space:
        front = Way("front", host, "", certificate)
        with served(space, front) as ways:
            cost(ways, rounds, rows)
        space.cluster.delete("SqlSession", space.name, "read")
        starts(space, front, rounds)
        warm(space, front, rounds)


if __name__ == "__main__":
    main(sys.argv[1:])
