"""Leader election on a real API server: one holder at a time, takeover only after the lease, quick after a release."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

import pytest
import pytest_asyncio

from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.lease import LeaseElector, LeaseLost
from sparksql.kube.resources import LEASES
from tests.support.apiserver import ApiServer
from tests.support.watching import watching

LEASE_SECONDS, RENEW_DEADLINE, RETRY_SECONDS = (
    300,
    150.0,
    0.1,
)  # no lease runs out within a test, but by a clock of its own
DEADLINE_SECONDS = 90.0  # of a test
NAME = "spark-sql-operator"


@pytest_asyncio.fixture
async def client(apiserver: ApiServer) -> AsyncIterator[KubeClient]:
    async with KubeClient(Credentials.from_kubeconfig(apiserver.kubeconfig)) as client:
        yield client


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._asked = 0

    def __call__(self) -> float:
        self._asked += 1
        return self.now

    async def looked_at(self, task: asyncio.Task[None]) -> None:
        """Waits for some more tries of the candidate, none of which may end the task."""
        before = self._asked
        while self._asked < before + 12:  # a try looks at it a few times
            assert not task.done(), task
            await asyncio.sleep(RETRY_SECONDS)


def candidate(
    client: KubeClient, namespace: str, identity: str, clock: Callable[[], float] = time.monotonic
) -> LeaseElector:
    return LeaseElector(
        client,
        namespace,
        NAME,
        identity,
        lease_seconds=LEASE_SECONDS,
        renew_deadline=RENEW_DEADLINE,
        retry_seconds=RETRY_SECONDS,
        clock=clock,
    )


async def spec(client: KubeClient, namespace: str) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(LEASES, namespace, NAME))["spec"]
    return found


async def cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_second_lease_candidate_waits_and_takes_over_after_the_holder_dies(
    client: KubeClient, namespace: str
) -> None:
    clock = Clock()
    first, second = candidate(client, namespace, "first"), candidate(client, namespace, "second", clock)
    async with asyncio.timeout(DEADLINE_SECONDS):
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        waiting = asyncio.create_task(second.acquire())
        renewals: set[str] = set()
        while len(renewals) < 20:  # well beyond the lease, had it not been renewed
            assert not waiting.done()
            renewed = (await spec(client, namespace))["renewTime"]
            clock.now += 0 if renewed in renewals else LEASE_SECONDS / 3
            renewals.add(renewed)
            await asyncio.sleep(RETRY_SECONDS / 2)
        assert (await spec(client, namespace))["holderIdentity"] == "first"
        assert not holding.done()

        await cancel(holding)  # dies without a word
        await clock.looked_at(waiting)
        clock.now += LEASE_SECONDS
        await waiting
        taken = await spec(client, namespace)
    assert (taken["holderIdentity"], taken["leaseTransitions"]) == ("second", 1)
    assert taken["leaseDurationSeconds"] == LEASE_SECONDS
    assert datetime.fromisoformat(taken["acquireTime"]) <= datetime.fromisoformat(taken["renewTime"])
    with pytest.raises(LeaseLost):
        await first.hold()


async def test_candidates_at_once_make_one_leader(client: KubeClient, namespace: str) -> None:
    electors = {f"candidate-{number}": candidate(client, namespace, f"candidate-{number}") for number in range(4)}
    tasks = {name: asyncio.create_task(elector.acquire()) for name, elector in electors.items()}
    async with asyncio.timeout(DEADLINE_SECONDS):
        done, _ = await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        holder = (await spec(client, namespace))["holderIdentity"]
        assert done == {tasks[holder]}
        for name, task in tasks.items():
            if name != holder:
                await cancel(task)


async def test_a_release_is_taken_up_at_once(client: KubeClient, namespace: str) -> None:
    first, second = candidate(client, namespace, "first"), candidate(client, namespace, "second")
    async with asyncio.timeout(DEADLINE_SECONDS):
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await first.release()
        await waiting  # had it to wait for the lease to run out, it would be too late for this test
    await first.release()  # it is the other's now, and stays so
    assert (await spec(client, namespace))["holderIdentity"] == "second"


async def test_a_holder_that_cannot_renew_gives_up_before_the_lease_ends(
    client: KubeClient, apiserver: ApiServer, namespace: str
) -> None:
    own = KubeClient(Credentials.from_kubeconfig(apiserver.kubeconfig))
    clock = Clock()
    elector = candidate(own, namespace, "first", clock)
    async with asyncio.timeout(DEADLINE_SECONDS), own:
        await elector.acquire()
        # The lease's namespace is cut off for this holder only: its requests go to a closed port from now on.
        own.credentials = Credentials("https://127.0.0.1:1")
        holding = asyncio.create_task(elector.hold())
        clock.now += RENEW_DEADLINE - 1
        await clock.looked_at(holding)
        clock.now += 1  # before the lease ends
        with pytest.raises(LeaseLost, match="not renewed"):
            await holding


async def test_a_lease_taken_away_is_lost_at_once(client: KubeClient, namespace: str) -> None:
    elector = candidate(client, namespace, "first")
    async with asyncio.timeout(DEADLINE_SECONDS):
        await elector.acquire()
        await client.patch_merge(LEASES, namespace, NAME, {"spec": {"holderIdentity": "second"}})
        with pytest.raises(LeaseLost, match="held by second"):
            await elector.hold()


async def test_a_lease_deleted_under_its_holder_is_made_anew(
    client: KubeClient, apiserver: ApiServer, namespace: str
) -> None:
    elector = candidate(client, namespace, "first")
    async with asyncio.timeout(DEADLINE_SECONDS), watching(apiserver.kubeconfig) as watcher:
        await elector.acquire()
        uid = (await client.get(LEASES, namespace, NAME))["metadata"]["uid"]
        holding = asyncio.create_task(elector.hold())
        await client.delete(LEASES, namespace, NAME)
        changes = watcher.watch(LEASES, namespace)
        async for kind, obj in changes:
            if kind == "ADDED" and obj["metadata"]["uid"] != uid:
                break
        await changes.aclose()
        assert obj["spec"]["holderIdentity"] == "first"
        await cancel(holding)


def test_durations_that_allow_two_holders_are_refused(client: KubeClient) -> None:
    with pytest.raises(ValueError, match="renew_deadline < lease_seconds"):
        LeaseElector(client, "n", NAME, "x", lease_seconds=10, renew_deadline=10.0)
