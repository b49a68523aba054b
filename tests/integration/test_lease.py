"""Leader election on a real API server: one holder at a time, takeover only after the lease, quick after a release."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
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

LEASE_SECONDS, RENEW_DEADLINE, RETRY_SECONDS = 3, 2.5, 0.1
LONG_SECONDS = 300  # a lease that does not run out within a test
DEADLINE_SECONDS = 90.0  # of a test
NAME = "spark-sql-operator"


@pytest_asyncio.fixture
async def client(apiserver: ApiServer) -> AsyncIterator[KubeClient]:
    async with KubeClient(Credentials.from_kubeconfig(apiserver.kubeconfig)) as client:
        yield client


def candidate(
    client: KubeClient,
    namespace: str,
    identity: str,
    lease_seconds: int = LONG_SECONDS,
    renew_deadline: float = LONG_SECONDS / 2,
) -> LeaseElector:
    return LeaseElector(
        client,
        namespace,
        NAME,
        identity,
        lease_seconds=lease_seconds,
        renew_deadline=renew_deadline,
        retry_seconds=RETRY_SECONDS,
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
    first, second = (candidate(client, namespace, name, LEASE_SECONDS, RENEW_DEADLINE) for name in ("first", "second"))
    async with asyncio.timeout(DEADLINE_SECONDS):
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        waiting = asyncio.create_task(second.acquire())
        renewals = set()
        while len(renewals) < 40:  # well beyond the lease, had it not been renewed
            assert not waiting.done()
            renewals.add((await spec(client, namespace))["renewTime"])
            await asyncio.sleep(RETRY_SECONDS)
        assert (await spec(client, namespace))["holderIdentity"] == "first"
        assert not holding.done()

        await cancel(holding)  # dies without a word
        died = time.monotonic()
        await waiting
        assert time.monotonic() - died > LEASE_SECONDS / 2
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
    elector = candidate(own, namespace, "first", renew_deadline=RENEW_DEADLINE)
    async with asyncio.timeout(DEADLINE_SECONDS), own:
        began = time.monotonic()  # the last renewal is not before this
        await elector.acquire()
        # The lease's namespace is cut off for this holder only: its requests go to a closed port from now on.
        own.credentials = Credentials("https://127.0.0.1:1")
        with pytest.raises(LeaseLost, match="not renewed"):
            await elector.hold()
        lasted = time.monotonic() - began
    assert RENEW_DEADLINE <= lasted < LONG_SECONDS


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
