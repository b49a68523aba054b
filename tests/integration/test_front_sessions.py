"""How many sessions the replicas of a front make for one user, on a real API server."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from sparksql.front import naming
from sparksql.front.directory import CLASS, Directory
from sparksql.front.model import FrontError, Refusal, SessionKey, User
from sparksql.front.reviews import Reviews
from sparksql.front.sessions import FrontSessions
from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.resources import SESSIONS
from tests.support.apiserver import ApiServer
from tests.unit.front.test_session_directory import session_class

MOST = 2
OPENS = 40


class Permissive:
    """Every user may do everything."""

    async def check_create(self, user: User, namespace: str) -> None:
        return

    async def check_connect(self, user: User, key: SessionKey) -> None:
        return


def replica(client: KubeClient, namespace: str, own: str) -> FrontSessions:
    """A replica that knows of no session but those that it has made: its watch is behind."""
    directory = Directory()
    policy = session_class("standard", "2026-01-01T00:00:00Z", share="Connection", maxSessionsPerUser=MOST)
    directory.take(CLASS, None, policy)
    return FrontSessions(client, cast(Reviews, Permissive()), directory, b"k" * 32, namespace, own)


@pytest.mark.parametrize("homes", [1, 4])
async def test_simultaneous_opens_by_two_replicas_make_as_many_sessions_as_the_class_allows(
    crds: ApiServer, namespace: str, homes: int
) -> None:
    own = crds.namespace("front")
    places = [namespace, *(crds.namespace(f"home{number}") for number in range(1, homes))]
    async with KubeClient(Credentials.from_kubeconfig(crds.kubeconfig)) as client:
        replicas = [replica(client, namespace, own) for _ in range(2)]

        async def opened(number: int) -> SessionKey | FrontError:
            asked = naming.parse(f"{places[number % homes]}/")
            try:
                return await replicas[number % 2].chosen(User("ada"), asked, f"connection-{number}")
            except FrontError as refused:
                return refused

        found = await asyncio.gather(*(opened(number) for number in range(OPENS)))
        made = [each for place in places for each in (await client.list(SESSIONS, place)).items]
    keys = {each for each in found if isinstance(each, SessionKey)}
    refusals = [each.refusal for each in found if isinstance(each, FrontError)]
    assert len(made) == len(keys) == MOST
    assert refusals == [Refusal.TOO_MANY_SESSIONS] * (OPENS - MOST)
