"""The front of the cluster under attack from outside, with the chart's own limits: other users are served, and no log has a token."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path

import pytest

from sparksql.api.quantities import memory_mib
from tests.attack import fill
from tests.attack.malformed import everything, found, new_mark, send
from tests.e2e.protocol_clients import PROTOCOLS
from tests.e2e.test_clients import Hand
from tests.e2e.test_front import ENDPOINTS, LABELS, Front
from tests.support.accounts import account, rule, token
from tests.support.harness import OPERATOR_NAMESPACE, Cluster, Object, Space

pytestmark = [pytest.mark.alone, pytest.mark.thorough]  # others kill replicas of the front; integration/front is daily
MIB = 1 << 20
SERVED_SECONDS = 2.0  # and what it takes while nothing attacks
SENDERS = 8
ATTACKS = ["handshakes", "silent connections", "bodies", "logins", "frames", "messages with a wrong token", "calls"]


@pytest.fixture(scope="module")
def attacked(space: Space) -> Space:
    """A namespace with the session `shared`, ada who may connect to it, and eve who has no right."""
    account(space, "ada", rule("connect", names=("shared",)))
    account(space, "eve")
    space.session("shared", endpoints=ENDPOINTS)
    space.wait_session("shared", "Ready")
    return space


@pytest.fixture
def front(cluster: Cluster, attacked: Space, tmp_path: Path) -> Iterator[Front]:
    with ExitStack() as stack:
        yield Front(cluster, Hand(attacked, tmp_path, stack))


def served(front: Front, presented: str, session: str) -> float:
    """Seconds that the slowest protocol takes from a new connection to the answer."""
    taken = []
    for protocol in PROTOCOLS:
        began = time.monotonic()
        client = front.enter(protocol, presented, session)
        assert int(client.value("SELECT 1")) == 1
        taken.append(time.monotonic() - began)
        client.leave()
    return max(taken)


def the_pod(cluster: Cluster) -> Object:
    (pod,) = [
        each for each in cluster.list("Pod", OPERATOR_NAMESPACE, LABELS) if "deletionTimestamp" not in each["metadata"]
    ]
    return pod


def resident(pod: Object) -> int:
    """Bytes that the processes of a pod have in memory: those of a kubelet on this machine are processes of this machine."""
    uid = pod["metadata"]["uid"]
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if uid in (folder / "cgroup").read_text().replace("_", "-"):
                status = (folder / "status").read_text()
                total += int(status.partition("VmRSS:")[2].split(maxsplit=1)[0]) * 1024
        except (OSError, IndexError):
            continue  # it has ended, or is the kernel's
    assert total > 0, f"no process of pod {pod['metadata']['name']}"
    return total


def attack(name: str, host: str, certificate: str, eve: str) -> AbstractAsyncContextManager[int]:
    rest, thrift, connect = (fill.At(host, PROTOCOLS[each], certificate) for each in ("rest", "thrift", "connect"))
    match name:
        case "handshakes":
            return fill.half_open(connect, 800)
        case "silent connections":
            return fill.silent(rest, 400)
        case "bodies":
            return fill.unfinished_bodies(rest, eve, 60, 8 * MIB)
        case "logins":
            return fill.idle_logins(thrift, eve, 300)
        case "frames":
            return fill.unfinished_frames(thrift, eve, 60, 8 * MIB)
        case "messages with a wrong token":
            return fill.large_messages(connect, "wrong", 8, 70 * MIB)
        case "calls":
            return fill.open_calls(connect, eve, 11, 200)
        case _:
            raise AssertionError(name)


@pytest.mark.parametrize("name", ATTACKS)
def test_another_user_is_served_while_a_client_takes_all_it_can_get(front: Front, attacked: Space, name: str) -> None:
    cluster, session = front.cluster, f"{attacked.name}/shared"
    ada, eve, host = token(attacked, "ada"), token(attacked, "eve"), front.address()
    served(front, ada, session)  # what is slow once: ways to the ports, and the driver's first statements
    quiet, before = served(front, ada, session), the_pod(cluster)
    (container,) = before["spec"]["containers"]
    limit = memory_mib(container["resources"]["limits"]["memory"]) * MIB

    async def during() -> tuple[int, float, int]:
        async with attack(name, host, front.certificate, eve) as held:
            seconds = await asyncio.to_thread(served, front, ada, session)
            return held, seconds, resident(before)

    held, seconds, size = asyncio.run(during())
    after = the_pod(cluster)
    print(f"{name}: {held} held, {size >> 20} of {limit >> 20} MiB, {quiet:.2f} s before, {seconds:.2f} s meanwhile")
    assert size < limit
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert [each["restartCount"] for each in after["status"]["containerStatuses"]] == [
        each["restartCount"] for each in before["status"]["containerStatuses"]
    ]
    assert seconds < SERVED_SECONDS + quiet


def test_malformed_requests_leave_nothing_of_their_tokens_in_any_log(front: Front, attacked: Space) -> None:
    mark, tls = new_mark(), ssl.create_default_context(cadata=front.certificate)
    with ThreadPoolExecutor(SENDERS) as senders:
        for port in PROTOCOLS.values():
            [*senders.map(lambda each, to=port: send(front.address(), to, each[1], tls), everything(mark))]
    logs = [
        attacked.cluster.kubectl("logs", "-n", namespace, pod["metadata"]["name"], "--all-containers")
        for namespace in (OPERATOR_NAMESPACE, attacked.name)
        for pod in attacked.cluster.list("Pod", namespace)
    ]
    assert len(logs) > 2 and not [found(mark, log) for log in logs if found(mark, log)]
