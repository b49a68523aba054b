"""Asks the cluster who a token's holder is (TokenReview) and what a user may do (SubjectAccessReview); remembers it for seconds.

Invariants: what is remembered has no token, only its hash; an answer is used for `seconds` at most, so that what is taken from a
user is gone then; equal questions at a time are asked once; what is remembered has a bound.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from sparksql.api import names
from sparksql.front.model import FrontError, Refusal, SessionKey, User
from sparksql.kube.client import KubeClient
from sparksql.kube.errors import ApiError
from sparksql.kube.resources import ACCESS_REVIEWS, SESSIONS, TOKEN_REVIEWS

MOST_ENTRIES = 10_000
MAX_TOKEN_BYTES = 16 << 10
MOST_QUESTIONS = 32  # at a time: who tries many tokens makes others wait, and the API server does not feel it

T = TypeVar("T")


class Remembered(Generic[T]):
    """Answers that hold for `seconds` by the loop's clock. Failures are not remembered."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._known: OrderedDict[Hashable, tuple[float, asyncio.Task[T]]] = OrderedDict()

    async def get(self, question: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        """Returns the answer to a question, asked anew if it is too old. Raises what `ask` raises."""
        now = asyncio.get_running_loop().time()
        known = self._known.get(question)
        if known is None or now - known[0] >= self._seconds or (known[1].done() and _has_failed(known[1])):
            known = (now, asyncio.ensure_future(_as_coroutine(ask)))
            known[1].add_done_callback(_has_failed)  # who asked may have gone meanwhile
            self._known[question] = known
            self._known.move_to_end(question)
            if len(self._known) > MOST_ENTRIES:
                self._known.popitem(last=False)
        return await asyncio.shield(known[1])  # one that hangs up does not take the answer from the others


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None


async def _as_coroutine(ask: Callable[[], Awaitable[T]]) -> T:
    return await ask()


@dataclass(frozen=True)
class Right:
    """A right on SqlSessions: `name` is empty for `create`."""

    verb: str
    namespace: str
    name: str = ""


class Reviews:
    """Asks and remembers."""

    def __init__(self, client: KubeClient, seconds: float) -> None:
        self._client = client
        self._questions = asyncio.Semaphore(MOST_QUESTIONS)
        self._users: Remembered[User | None] = Remembered(seconds)
        self._rights: Remembered[bool] = Remembered(seconds)

    async def user(self, token: bytes) -> User:
        """Returns whose token it is. Raises FrontError UNAUTHENTICATED, UNAVAILABLE."""
        if not token:
            raise FrontError(
                Refusal.UNAUTHENTICATED, "no token: give a Kubernetes token, such as `kubectl create token` prints"
            )
        if len(token) > MAX_TOKEN_BYTES:
            raise FrontError(Refusal.UNAUTHENTICATED, f"a token has at most {MAX_TOKEN_BYTES} bytes")
        found = await self._users.get(hashlib.sha256(token).digest(), lambda: self._review(token))
        if found is None:
            raise FrontError(
                Refusal.UNAUTHENTICATED, "the cluster does not accept this token, or it has expired: get a new one"
            )
        return replace(found, token=token)  # what is remembered has none

    async def check_connect(self, user: User, key: SessionKey) -> None:
        """Raises FrontError FORBIDDEN unless the user may connect to the session; UNAVAILABLE."""
        if not await self._may(user, Right("connect", key.namespace, key.name)):
            what = f"user {user.name} may not connect to session {key}"
            raise FrontError(
                Refusal.FORBIDDEN,
                f"{what}: this needs the verb `connect` on sqlsessions.sparksql.dev in namespace {key.namespace}",
            )

    async def check_create(self, user: User, namespace: str) -> None:
        """Raises FrontError FORBIDDEN unless the user may make sessions in the namespace; UNAVAILABLE."""
        if not await self._may(user, Right("create", namespace)):
            what = f"user {user.name} may not have a session of their own in namespace {namespace}"
            raise FrontError(
                Refusal.FORBIDDEN,
                f"{what}: this needs the verb `create` on sqlsessions.sparksql.dev there; or name a session",
            )

    async def _may(self, user: User, right: Right) -> bool:
        known = replace(user, token=b"")
        return await self._rights.get((known, right), lambda: self._ask(known, right))

    async def _review(self, token: bytes) -> User | None:
        try:
            text = token.decode("ascii")
        except UnicodeDecodeError:
            return None
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": text}}
        status = (await self._asked(TOKEN_REVIEWS, body)).get("status", {})
        if not status.get("authenticated"):
            return None
        told = status.get("user", {})
        extra = tuple((key, tuple(values)) for key, values in sorted((told.get("extra") or {}).items()))
        return User(told.get("username", ""), told.get("uid", ""), tuple(told.get("groups") or ()), extra)

    async def _ask(self, user: User, right: Right) -> bool:
        attributes = {
            "group": names.GROUP, "resource": SESSIONS.plural, "verb": right.verb, "namespace": right.namespace, "name": right.name,
        }  # fmt: skip
        spec = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
            "resourceAttributes": attributes,
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        return bool((await self._asked(ACCESS_REVIEWS, body)).get("status", {}).get("allowed"))

    async def _asked(self, resource: Any, body: dict[str, Any]) -> dict[str, Any]:
        try:
            async with self._questions:
                return await self._client.create(resource, "", body)
        except ApiError as error:
            raise FrontError(
                Refusal.UNAVAILABLE, f"the cluster does not answer for now: {error.reason}; try again"
            ) from error
