"""Which session a client of the front gets, and how long it waits for it: with a scripted API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from sparksql.front import naming
from sparksql.front.directory import CLASS, SESSION, Directory
from sparksql.front.model import FrontError, Refusal, SessionKey, User
from sparksql.front.reviews import Reviews
from sparksql.front.sessions import FrontSessions
from sparksql.kube.client import KubeClient
from sparksql.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound
from sparksql.kube.tls import self_signed
from sparksql.wire.control import ClientProtocol
from sparksql.wire.front import front_token, new_handle
from tests.unit.front.test_session_directory import session_class

TOKEN = b"a-token-of-ada"
ADA = User("system:serviceaccount:team-a:ada", token=TOKEN)
MAIN = SessionKey("team-a", "main")
OWN = SessionKey("team-a", naming.own_name(ADA.name))
KEY = b"k" * 32
CERTIFICATE = self_signed(("localhost",), datetime.now(UTC))[0]
ENDPOINTS = {"rest": "r", "thrift": "t"}
DRIVER = {"podIP": "127.0.0.1", "certificate": CERTIFICATE}
TURNS = 50  # of the loop; a client takes a few from one change of a session to its wait for the next one


class Cluster:
    """Sessions as the API server has them; what is asked of it is written down."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.asked: list[tuple[str, str]] = []
        self.denied: set[str] = set()
        self.accounts: dict[str, dict[str, Any]] = {TOKEN.decode(): {"username": ADA.name}}
        self.is_silent = False
        self.reviewed: list[dict[str, Any]] = []
        self.leases: dict[str, dict[str, Any]] = {}
        self.on_create: Callable[[dict[str, Any]], None] | None = None
        self.on_wake: Callable[[SessionKey], None] | None = None

    async def create(self, resource: Any, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.is_silent:
            raise ApiError(0, "Timeout", "the API server does not answer")
        match body["kind"]:
            case "TokenReview":
                account = self.accounts.get(body["spec"]["token"])
                return {"status": {"authenticated": account is not None, "user": account or {}}}
            case "SubjectAccessReview":
                self.reviewed.append(body["spec"])
                return {"status": {"allowed": body["spec"]["resourceAttributes"]["verb"] not in self.denied}}
            case "Lease":
                return self.leases.setdefault(body["metadata"]["name"], body)
            case _:
                name = body["metadata"]["name"]
                self.asked.append(("create", name))
                if self.on_create is not None:
                    self.on_create(body)
                metadata = {**body["metadata"], "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
                return {**body, "metadata": metadata}

    async def get(self, resource: Any, namespace: str, name: str) -> dict[str, Any]:
        if name not in self.leases:
            raise NotFound(404, "NotFound", name)
        return self.leases[name]

    async def replace(self, resource: Any, namespace: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        self.leases[name] = body
        return body

    async def patch_merge(self, resource: Any, namespace: str, name: str, body: dict[str, Any]) -> None:
        self.asked.append(("wake", name))
        if self.on_wake is not None:
            self.on_wake(SessionKey(namespace, name))

    async def delete(self, resource: Any, namespace: str, name: str, *, uid: str) -> None:
        self.asked.append(("delete", name))
        self.put(SessionKey(namespace, name), uid=uid, change="DELETED")

    def put(
        self, key: SessionKey, phase: str | None = "Ready", reason: str = "", *, uid: str = "u1", user: str | None = None,
        change: str = "MODIFIED", stalled: bool = False, endpoints: dict[str, str] | None = None, share: str = "",
        desired: str = "Running", driver: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        metadata: dict[str, Any] = {"namespace": key.namespace, "name": key.name, "uid": uid, "annotations": {}}
        metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
        if user is not None:
            metadata["annotations"]["sparksql.dev/front-user"] = user
            metadata["labels"] = {"sparksql.dev/front-user": naming.user_label(user)}
        if share:
            metadata["annotations"]["sparksql.dev/front-share"] = share
        conditions = [
            {"type": "Ready", "status": "False", "reason": reason},
            {"type": "Stalled", "status": str(stalled)},
        ]
        served = ENDPOINTS if endpoints is None else endpoints
        status: dict[str, Any] = {
            "phase": phase,
            "conditions": conditions,
            "driver": DRIVER if driver is None else driver,
        }
        status |= {"endpoints": served} if phase == "Ready" else {}
        self.directory.take(
            SESSION, change, {"metadata": metadata, "spec": {"desiredState": desired}, "status": status}
        )


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(Directory())


@pytest.fixture
def sessions(cluster: Cluster) -> FrontSessions:
    client = cast(KubeClient, cluster)
    return FrontSessions(client, Reviews(client, 0), cluster.directory, KEY, "users", "system")


async def opened(sessions: FrontSessions, text: str | None = "team-a/main", seconds: float = 0.2) -> SessionKey:
    return (await sessions.open(ADA, naming.parse(text), ClientProtocol.THRIFT, seconds)).key


async def settled() -> None:
    """Lets every task go on that can: here tasks wait for what a test does, and for nothing else."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def refused(sessions: FrontSessions, text: str | None = "team-a/main", seconds: float = 0.2) -> FrontError:
    with pytest.raises(FrontError) as found:
        await opened(sessions, text, seconds)
    return found.value


async def test_a_ready_session_is_given_at_once(cluster: Cluster, sessions: FrontSessions) -> None:
    cluster.put(MAIN)
    target = await sessions.open(ADA, naming.parse("team-a/main"), ClientProtocol.THRIFT, 1)
    assert (target.key, target.host, target.token) == (MAIN, "127.0.0.1", front_token(KEY, "u1"))
    assert cluster.asked == []


async def test_nothing_is_told_of_a_session_to_a_user_without_the_right(
    cluster: Cluster, sessions: FrontSessions
) -> None:
    cluster.denied = {"connect"}
    first = await refused(sessions)
    cluster.put(MAIN, "Hibernated")
    second = await refused(sessions)
    assert (first.refusal, str(first)) == (second.refusal, str(second)) == (Refusal.FORBIDDEN, str(first))
    assert cluster.asked == []


async def test_a_session_that_sleeps_is_woken_once_and_awaited(cluster: Cluster, sessions: FrontSessions) -> None:
    cluster.put(MAIN, "Hibernated", "Hibernated")
    opening = asyncio.create_task(opened(sessions, seconds=30))
    await settled()
    for phase in ("Hibernated", "Pending", "Starting"):
        cluster.put(MAIN, phase, "DriverStarting")
        await settled()
    assert not opening.done() and cluster.asked == [("wake", "main")]
    cluster.put(MAIN)
    assert await opening == MAIN


@pytest.mark.parametrize("text", ["team-a/main", None])
async def test_wait_of_a_user_whose_right_is_withdrawn_ends_in_a_refusal(
    cluster: Cluster, sessions: FrontSessions, text: str | None
) -> None:
    key, user = (MAIN, None) if text else (OWN, ADA.name)
    cluster.put(key, "Starting", user=user)
    opening = asyncio.create_task(refused(sessions, text, 30))
    await settled()
    cluster.denied = {"connect", "create"}
    cluster.put(key, user=user)
    assert (await opening).refusal is Refusal.FORBIDDEN


async def test_wait_of_a_user_whose_token_is_revoked_ends_in_a_refusal(
    cluster: Cluster, sessions: FrontSessions
) -> None:
    cluster.put(MAIN, "Starting")
    opening = asyncio.create_task(refused(sessions, seconds=30))
    await settled()
    cluster.accounts.clear()
    cluster.put(MAIN)
    assert (await opening).refusal is Refusal.UNAUTHENTICATED


async def test_wait_for_a_session_that_is_replaced_meanwhile_goes_on_with_its_successor(
    cluster: Cluster, sessions: FrontSessions
) -> None:
    cluster.put(MAIN, "Starting")
    opening = asyncio.create_task(sessions.open(ADA, naming.parse("team-a/main"), ClientProtocol.THRIFT, 30))
    await settled()
    cluster.put(MAIN, uid="u1")
    cluster.put(MAIN, uid="u2")
    assert (await opening).uid == "u2"


@pytest.mark.parametrize("phase", ["Pending", "Starting", "Draining"])
async def test_a_wait_ends_with_where_the_session_is(cluster: Cluster, sessions: FrontSessions, phase: str) -> None:
    cluster.put(MAIN, phase, "WaitingInQueue")
    error = await refused(sessions, seconds=0.05)
    assert error.refusal is Refusal.NOT_READY
    assert f"{phase} (WaitingInQueue)" in str(error) and "0.05 s" in str(error)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"phase": "Failed", "reason": "InitFailed"}, "Failed (InitFailed)"),
        ({"phase": "Closed"}, "Closed"),
        ({"phase": "Ready", "desired": "Stopped"}, "serves no clients"),
        ({"phase": "Pending", "reason": "LimitExceeded", "stalled": True}, "LimitExceeded"),
        ({"endpoints": {"rest": "r"}}, "spec.endpoints.thrift"),
        ({"driver": {}}, "spec.restartNonce"),
    ],
)
async def test_a_session_that_will_never_serve_is_refused_at_once(
    cluster: Cluster, sessions: FrontSessions, fields: dict[str, Any], told: str
) -> None:
    cluster.put(MAIN, **fields)
    error = await refused(sessions, seconds=30)
    assert error.refusal is Refusal.NOT_SERVED and told in str(error)


async def test_a_user_without_a_session_gets_one_and_the_same_again(cluster: Cluster, sessions: FrontSessions) -> None:
    cluster.on_create = lambda _: asyncio.get_running_loop().call_later(
        0.01, lambda: cluster.put(OWN, uid=f"uid-{OWN.name}", user=ADA.name)
    )
    assert await opened(sessions, None, 30) == await opened(sessions, "team-a/", 30) == OWN
    assert cluster.asked == [("create", OWN.name)]


async def test_a_session_of_somebody_else_is_not_taken_for_the_users_own(
    cluster: Cluster, sessions: FrontSessions
) -> None:
    for user in (None, "mallory"):
        cluster.put(OWN, user=user)
        assert "not one that was made for user" in str(await refused(sessions, None))


@pytest.mark.parametrize("phase", ["Closed", "Failed"])
async def test_a_session_of_a_user_that_is_over_is_made_again(
    cluster: Cluster, sessions: FrontSessions, phase: str
) -> None:
    cluster.put(OWN, phase, user=ADA.name)
    cluster.on_create = lambda _: asyncio.get_running_loop().call_later(
        0.01, lambda: cluster.put(OWN, uid=f"uid-{OWN.name}", user=ADA.name)
    )
    assert await opened(sessions, None, 30) == OWN
    assert cluster.asked == [("delete", OWN.name), ("create", OWN.name)]


async def test_a_session_that_another_replica_makes_is_awaited(cluster: Cluster, sessions: FrontSessions) -> None:
    def elsewhere(_: dict[str, Any]) -> None:
        asyncio.get_running_loop().call_later(0.01, lambda: cluster.put(OWN, user=ADA.name))
        raise AlreadyExists(409, "AlreadyExists", "there")

    cluster.on_create = elsewhere
    assert await opened(sessions, None, 30) == OWN


async def test_a_refusal_of_the_api_server_is_told(cluster: Cluster, sessions: FrontSessions) -> None:
    def forbidden(_: dict[str, Any]) -> None:
        raise Forbidden(403, "Forbidden", "exceeded quota: sessions")

    cluster.on_create = forbidden
    error = await refused(sessions, None)
    assert error.refusal is Refusal.NOT_SERVED and "exceeded quota" in str(error)


async def test_classes_that_share_by_name_make_no_sessions(cluster: Cluster, sessions: FrontSessions) -> None:
    cluster.directory.take(CLASS, None, session_class("standard", "2026-01-01T00:00:00Z", share="Named"))
    assert "name one as NAMESPACE/NAME" in str(await refused(sessions, None))


async def test_connections_with_sessions_of_their_own_share_none_and_take_them_along(
    cluster: Cluster, sessions: FrontSessions
) -> None:
    policy = session_class("standard", "2026-01-01T00:00:00Z", share="Connection", maxSessionsPerUser=2)
    cluster.directory.take(CLASS, None, policy)

    def made(body: dict[str, Any]) -> None:
        key, idle = SessionKey("team-a", body["metadata"]["name"]), body["spec"]["idle"]
        assert idle == {"action": "Close"}
        asyncio.get_running_loop().call_later(
            0.01, lambda: cluster.put(key, uid=f"uid-{key.name}", user=ADA.name, share="Connection")
        )

    cluster.on_create = made
    targets = [await sessions.open(ADA, naming.OWN, ClientProtocol.THRIFT, 30, name) for name in ("a", "b", "a")]
    assert targets[0].key == targets[2].key != targets[1].key
    error = await refused(sessions, None, 30)
    assert error.refusal is Refusal.TOO_MANY_SESSIONS and str(targets[0].key) in str(error)
    cluster.denied = {"connect", "create"}  # what the user may not use is not named
    unnamed = await sessions._too_many(ADA, (targets[0].key,))
    assert str(targets[0].key) not in str(unnamed) and "1 sessions already" in str(unnamed)
    cluster.denied = set()
    await sessions.end(targets[0])
    assert cluster.asked[-1] == ("delete", targets[0].key.name)
    assert cluster.directory.find(targets[0].key) is None
    assert (await sessions.open(ADA, naming.OWN, ClientProtocol.THRIFT, 30, "c")).key not in {t.key for t in targets}


async def test_sessions_that_are_labelled_as_a_users_do_not_count_for_that_user(
    cluster: Cluster, sessions: FrontSessions
) -> None:
    policy = session_class("standard", "2026-01-01T00:00:00Z", maxSessionsPerUser=1)
    cluster.directory.take(CLASS, None, policy)
    for name in ("forged", naming.own_name(ADA.name, "any")):
        cluster.put(SessionKey("elsewhere", name), uid=name, user=ADA.name)
    cluster.on_create = lambda _: asyncio.get_running_loop().call_later(
        0.01, lambda: cluster.put(OWN, uid=f"uid-{OWN.name}", user=ADA.name)
    )
    assert await opened(sessions, None, 30) == OWN
    error = await refused(sessions, "elsewhere/", 30)
    assert error.refusal is Refusal.TOO_MANY_SESSIONS
    assert str(OWN) in str(error) and "forged" not in str(error)


async def test_a_handle_leads_to_its_driver_for_those_who_may_connect(
    cluster: Cluster, sessions: FrontSessions
) -> None:
    cluster.put(MAIN)
    handle = new_handle("u1")
    assert (await sessions.of_handle(ADA, handle, ClientProtocol.REST)).key == MAIN
    cluster.denied = {"connect"}
    bob = User("bob")
    for unknown in (handle, new_handle("u2")):
        with pytest.raises(FrontError, match=f"Session '{unknown}' does not exist"):
            await sessions.of_handle(bob, unknown, ClientProtocol.REST)


@pytest.fixture
def forgetful(cluster: Cluster) -> FrontSessions:
    """Asks the cluster each time."""
    client = cast(KubeClient, cluster)
    return FrontSessions(client, Reviews(client, 1e-9), cluster.directory, KEY, "users", "system")


async def test_a_user_whose_token_or_right_is_gone_may_not_use_a_session_any_more(
    cluster: Cluster, forgetful: FrontSessions
) -> None:
    cluster.put(MAIN)
    assert await forgetful.is_allowed(ADA, MAIN)
    cluster.is_silent = True
    assert await forgetful.is_allowed(ADA, MAIN), "the cluster does not answer"
    cluster.is_silent = False
    cluster.denied = {"connect"}
    assert not await forgetful.is_allowed(ADA, MAIN)
    cluster.denied = set()
    account = cluster.accounts.pop(TOKEN.decode())  # the account is deleted, and its rights are still there
    assert not await forgetful.is_allowed(ADA, MAIN)
    cluster.accounts[TOKEN.decode()] = {**account, "uid": "of-the-next-account-of-that-name"}
    assert not await forgetful.is_allowed(ADA, MAIN)
    cluster.accounts[TOKEN.decode()] = account
    assert await forgetful.is_allowed(ADA, MAIN)
    assert not await forgetful.is_allowed(User(ADA.name), MAIN), "there is no token"


async def test_work_for_a_user_ends_with_the_account_of_the_user(cluster: Cluster, forgetful: FrontSessions) -> None:
    cluster.put(MAIN)
    ended = asyncio.Event()

    async def last() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.create_task(forgetful.while_allowed(ADA, MAIN, last(), 0.01))
    await asyncio.sleep(0.1)
    assert not task.done()
    cluster.accounts.clear()
    with pytest.raises(FrontError) as refusal:
        await task
    assert refusal.value.refusal is Refusal.FORBIDDEN and ended.is_set()


async def test_work_for_a_user_ends_with_its_caller_and_gives_what_it_returns(
    cluster: Cluster, sessions: FrontSessions
) -> None:
    ended = asyncio.Event()

    async def one() -> int:
        return 1

    async def last() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    assert await sessions.while_allowed(ADA, MAIN, one(), 5) == 1
    task = asyncio.create_task(sessions.while_allowed(ADA, MAIN, last(), 5))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_rights_are_remembered_for_the_whole_identity(cluster: Cluster) -> None:
    """Equal names, uids and groups: what the cluster says may depend on what else it knows of a token."""
    reviews = Reviews(cast(KubeClient, cluster), 10)
    same = {"username": "ada", "uid": "1", "groups": ["g"]}
    cluster.accounts = {
        "one": {**same, "extra": {"scopes": ["read"], "pod": ["a"]}},
        "other": {**same, "extra": {"scopes": ["all"], "pod": ["a"]}},
        "again": {**same, "extra": {"pod": ["a"], "scopes": ["read"]}},
    }
    users = [await reviews.user(token) for token in (b"one", b"other", b"again")]
    assert users[0] == users[2] != users[1] and hash(users[0]) == hash(users[2])
    for user in users:
        await reviews.check_connect(user, MAIN)
    assert [asked["extra"] for asked in cluster.reviewed] == [
        {"pod": ["a"], "scopes": ["read"]},
        {"pod": ["a"], "scopes": ["all"]},
    ]
    assert "b'one'" not in repr(users[0])
