"""Brings a client to the driver of its session: finds it or makes it, wakes it, and waits until it serves.

Invariants: nothing is told of a session, not even whether there is one, and nothing is done to it, for a user who may not connect
to it; a session that the front makes carries its user, and is given to no other; a wait has an end.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

from sparksql.api import names
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.api.session_class import Share
from sparksql.front import naming
from sparksql.front.directory import ANNOTATION_SHARE, SESSION, Directory, FrontPolicy, SessionEntry
from sparksql.front.model import FrontError, Refusal, SessionKey, Target, User
from sparksql.front.naming import Asked
from sparksql.front.quota import SessionQuota
from sparksql.front.reviews import Reviews
from sparksql.kube.client import KubeClient
from sparksql.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from sparksql.kube.resources import SESSIONS
from sparksql.kube.tls import ssl_context
from sparksql.wire.control import ClientProtocol
from sparksql.wire.front import front_token

log = logging.getLogger(__name__)

T = TypeVar("T")

FOUND_SECONDS = 10.0  # until the watch tells of a session that was made, or made by another replica


class FrontSessions:
    """Finds, makes, wakes and awaits sessions for clients that have proven who they are."""

    def __init__(
        self,
        client: KubeClient,
        reviews: Reviews,
        directory: Directory,
        key: bytes,
        default_namespace: str,
        own_namespace: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._reviews = reviews
        self._directory = directory
        self._key = key
        self._default_namespace = default_namespace
        self._clock = clock
        self._quota = SessionQuota(client, own_namespace, directory, clock)
        self._context = lru_cache(maxsize=1000)(ssl_context)

    async def open(
        self, user: User, asked: Asked, protocol: ClientProtocol, seconds: float, connection: str | None = None
    ) -> Target:
        """Returns the driver for a new connection, made or woken if need be, once it serves the protocol.

        `connection` tells connections apart where each has a session of its own; without one this one is new. Raises FrontError.
        """
        key = await self.chosen(user, asked, connection or uuid.uuid4().hex)
        return await self.ready(user, key, protocol, seconds)

    async def check(self, user: User, asked: Asked) -> None:
        """Raises FrontError for a user who may not have the session that is meant, whether it is there or not."""
        if asked.name is not None and asked.namespace is not None:
            await self._reviews.check_connect(user, SessionKey(asked.namespace, asked.name))
        else:
            self._sharing_policy()
            await self._reviews.check_create(user, self._own_key(user, asked, "").namespace)

    def on_its_way(self, key: SessionKey, protocol: ClientProtocol) -> SessionEntry | None:
        """Returns a session whose driver does not serve yet and will; None where it does, or nothing is known of the session.

        Raises FrontError where it never will by itself.
        """
        entry = self._directory.find(key)
        return entry if entry is not None and self._target(entry, protocol) is None else None

    async def check_handle(self, user: User, handle: str) -> None:
        """Raises FrontError for a user who may not use the session that a handle leads to, or where there is none."""
        await self._entry_of(user, handle)

    async def coming(self, user: User, handle: str, protocol: ClientProtocol) -> SessionKey | None:
        """Returns the session that a handle leads to if its driver does not serve yet and will, None if it does.

        Raises FrontError.
        """
        entry = await self._entry_of(user, handle)
        return entry.key if self._target(entry, protocol) is None else None

    async def of_handle(self, user: User, handle: str, protocol: ClientProtocol) -> Target:
        """Returns the driver that has given a handle to a client. Raises FrontError."""
        entry = await self._entry_of(user, handle)
        target = self._target(entry, protocol)
        if target is None:  # its clients' sessions went with the driver
            raise FrontError(
                Refusal.UNKNOWN_SESSION, f"Session '{handle}' does not exist: session {entry.key} is {entry.state}"
            )
        return target

    async def _entry_of(self, user: User, handle: str) -> SessionEntry:
        entry = self._directory.by_handle(handle)
        if entry is None or not await self._may_use(user, entry):
            raise FrontError(Refusal.UNKNOWN_SESSION, f"Session '{handle}' does not exist.")
        return entry

    async def own(self, user: User, asked: Asked, protocol: ClientProtocol) -> Target | None:
        """Returns the driver of a session that is there and serves, without making or waking one; None if it does not.

        Raises FrontError.
        """
        if asked.name is not None and asked.namespace is not None:
            key = SessionKey(asked.namespace, asked.name)
            await self._reviews.check_connect(user, key)
        else:
            key = self._own_key(user, asked, "")
        entry = self._directory.find(key)
        if entry is None or (asked.name is None and entry.user != user.name):
            return None
        return self._target(entry, protocol)

    async def ready(self, user: User, key: SessionKey, protocol: ClientProtocol, seconds: float) -> Target:
        """Returns the session's driver once it serves the protocol, after it was woken if it sleeps. Raises FrontError.

        The user is checked at the end of the wait: what was allowed before it may be withdrawn by then.
        """
        woken = False
        deadline = asyncio.get_running_loop().time() + seconds
        with self._directory.watching(key) as changed:
            while True:
                changed.clear()
                entry = self._directory.find(key)
                if entry is not None:
                    if self._target(entry, protocol) is not None:
                        await self._check_still(user, key)
                        if (target := self._same(entry, protocol)) is not None:
                            return target
                        continue
                    if sleeps(entry) and not woken:
                        woken = True
                        await self._wake(key)
                left = deadline - asyncio.get_running_loop().time()
                if entry is None:
                    left = min(left, FOUND_SECONDS)
                try:
                    await asyncio.wait_for(changed.wait(), max(0.0, left))
                except TimeoutError:
                    raise self._late(key, entry, seconds) from None

    async def is_allowed(self, user: User, key: SessionKey) -> bool:
        """Tells whether a user who has come to a session may still use it: by the token, which has to be good, and by right.

        Where the cluster does not answer the user may.
        """
        try:
            await self._check_still(user, key)
        except FrontError as refused:
            return refused.refusal is Refusal.UNAVAILABLE
        return True

    async def while_allowed(self, user: User, key: SessionKey, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Returns what a user has asked for, and ends the work on it once the user may not use the session any more.

        `seconds` pass between two checks. Raises FrontError FORBIDDEN, and what `work` raises.
        """
        task = asyncio.create_task(work)
        try:
            while not (await asyncio.wait({task}, timeout=seconds))[0]:
                if not await self.is_allowed(user, key):
                    raise FrontError(Refusal.FORBIDDEN, f"user {user.name} may not use session {key} any more")
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def is_permitted(self, user: User, key: SessionKey) -> bool:
        """Tells whether a user may use a session; False for one that does not exist. Raises FrontError UNAVAILABLE."""
        entry = self._directory.find(key)
        return entry is not None and await self._may_use(user, entry)

    async def end(self, target: Target) -> None:
        """Removes a session that was made for a connection that has ended; others stay."""
        if not target.is_of_connection:
            return
        await self._delete_for_good(target.key, target.uid)

    async def clean(self, entry: SessionEntry) -> None:
        """Removes a session that was made for a connection whose replica went before it could; its idle time has closed it."""
        if entry.is_of_connection and entry.phase is Phase.CLOSED:
            await self._delete_for_good(entry.key, entry.uid)

    async def chosen(self, user: User, asked: Asked, connection: str) -> SessionKey:
        """Returns the session that a client means, made if it is the user's own and not there. Raises FrontError."""
        if asked.name is not None and asked.namespace is not None:
            key = SessionKey(asked.namespace, asked.name)
            await self._reviews.check_connect(user, key)
            if self._directory.find(key) is None:
                raise FrontError(
                    Refusal.UNKNOWN_SESSION, f"session {key} does not exist; NAMESPACE/ means your own session there"
                )
            return key
        policy = self._sharing_policy()
        is_of_connection = policy.share is Share.CONNECTION
        key = self._own_key(user, asked, connection if is_of_connection else "")
        await self._reviews.check_create(user, key.namespace)
        await self._make(user, key, is_of_connection=is_of_connection, most=policy.max_sessions_per_user)
        return key

    def _sharing_policy(self) -> FrontPolicy:
        """The default class's policy. Raises FrontError INVALID for one that makes no sessions for users."""
        policy = self._directory.policy
        if policy.share is Share.NAMED:
            what = f"class {policy.class_name} makes no sessions for users: name one as NAMESPACE/NAME"
            raise FrontError(Refusal.INVALID, what)
        return policy

    def _own_key(self, user: User, asked: Asked, connection: str) -> SessionKey:
        namespace = asked.namespace or naming.home_of(user.name, self._default_namespace)
        return SessionKey(namespace, naming.own_name(user.name, connection))

    async def _check_still(self, user: User, key: SessionKey) -> None:
        """Raises FrontError where the user's token is not valid any more, or the right was withdrawn."""
        if await self._reviews.user(user.token) != user:
            raise FrontError(Refusal.UNAUTHENTICATED, "the token is another user's by now: connect again")
        if not await self.is_permitted(user, key):
            raise FrontError(Refusal.FORBIDDEN, f"user {user.name} may not connect to session {key} any more")

    def _same(self, entry: SessionEntry, protocol: ClientProtocol) -> Target | None:
        """The driver of a session as it is now, None if that is another session, or serves no more."""
        now = self._directory.find(entry.key)
        return self._target(now, protocol) if now is not None and now.uid == entry.uid else None

    async def _may_use(self, user: User, entry: SessionEntry) -> bool:
        """By the right to have sessions of one's own for those, and by the right to connect for any."""
        if entry.user == user.name and await _holds(self._reviews.check_create(user, entry.key.namespace)):
            return True
        return await _holds(self._reviews.check_connect(user, entry.key))

    async def _make(self, user: User, key: SessionKey, *, is_of_connection: bool, most: int) -> None:
        """Makes the user's session unless it is there. Raises FrontError."""
        label = naming.user_label(user.name)
        entry = self._directory.find(key)
        if entry is not None and entry.phase in (Phase.CLOSED, Phase.FAILED) and entry.user == user.name:
            await self._delete(key, entry.uid)  # over for good: the next one has its name
            await self._gone(key, entry.uid)
            entry = None
        if entry is None:
            if most and (taken := await self._quota.reserve(user.name, key, most)):
                raise await self._too_many(user, taken)
            try:
                obj = await self._client.create(SESSIONS, key.namespace, _session(key, user, label, is_of_connection))
            except AlreadyExists:
                await self._found(key)
            except ApiError as error:
                if most:
                    await self._quota.release(user.name, key)
                raise _refused(error, f"session {key} cannot be made") from error
            else:
                self._directory.take(SESSION, "ADDED", obj)
                log.info("session made for a user", extra={"fields": {"namespace": key.namespace, "name": key.name}})
            entry = self._directory.find(key)
        if entry is None or entry.user != user.name:
            what = f"session {key} is not one that was made for user {user.name}"
            raise FrontError(Refusal.NOT_SERVED, f"{what}: name a session as NAMESPACE/NAME, or have it deleted")

    async def _too_many(self, user: User, taken: tuple[SessionKey, ...]) -> FrontError:
        """The refusal, which names the sessions that the user may use."""
        named = [str(key) for key in taken if await self.is_permitted(user, key)][:10]
        what = f"user {user.name} has {len(taken)} sessions already, as many as the class allows"
        return FrontError(Refusal.TOO_MANY_SESSIONS, ": ".join([what, *([", ".join(named)] if named else [])]))

    async def _found(self, key: SessionKey) -> None:
        """Waits for a session that another replica has made. Raises FrontError."""
        with self._directory.watching(key) as changed:
            while self._directory.find(key) is None:
                changed.clear()
                try:
                    await asyncio.wait_for(changed.wait(), FOUND_SECONDS)
                except TimeoutError:
                    raise FrontError(Refusal.NOT_READY, f"session {key} is being made or removed; try again") from None

    async def _gone(self, key: SessionKey, uid: str) -> None:
        with self._directory.watching(key) as changed:
            while (entry := self._directory.find(key)) is not None and entry.uid == uid:
                changed.clear()
                try:
                    await asyncio.wait_for(changed.wait(), FOUND_SECONDS)
                except TimeoutError:
                    raise FrontError(Refusal.NOT_READY, f"session {key} is being removed; try again") from None

    async def _delete_for_good(self, key: SessionKey, uid: str) -> None:
        """Removes a session that none follows under its name; its user may have another one at once."""
        entry = self._directory.find(key)
        user = entry.user if entry is not None and entry.uid == uid else None
        await self._delete(key, uid)
        if user is not None and self._directory.policy.max_sessions_per_user:
            await self._quota.release(user, key)

    async def _delete(self, key: SessionKey, uid: str) -> None:
        try:
            await self._client.delete(SESSIONS, key.namespace, key.name, uid=uid)
        except (NotFound, Conflict):
            pass  # somebody was faster
        except ApiError as error:
            fields = {"namespace": key.namespace, "name": key.name, "error": str(error)}
            log.warning("a session that was made for a connection is not removed", extra={"fields": fields})

    async def _wake(self, key: SessionKey) -> None:
        wish = {"metadata": {"annotations": {names.ANNOTATION_WAKE: self._clock().isoformat()}}}
        try:
            await self._client.patch_merge(SESSIONS, key.namespace, key.name, wish)
        except ApiError as error:
            raise _refused(error, f"session {key} cannot be woken") from error

    def _target(self, entry: SessionEntry, protocol: ClientProtocol) -> Target | None:
        """The driver if it serves, None while it may come to. Raises FrontError where it never will by itself."""
        if entry.phase in (Phase.STOPPED, Phase.CLOSED, Phase.FAILED) or not entry.is_wanted:
            raise FrontError(Refusal.NOT_SERVED, f"session {entry.key} serves no clients: {entry.state}")
        if entry.is_stalled:
            raise FrontError(Refusal.NOT_SERVED, f"session {entry.key} does not start: {entry.state}")
        if entry.phase is not Phase.READY or entry.reason == Reason.HIBERNATING:
            return None
        if protocol not in entry.protocols:
            what = f"session {entry.key} has no endpoint {protocol.value}: set spec.endpoints.{protocol.value} to true"
            raise FrontError(Refusal.NOT_SERVED, what)
        if entry.host is None or entry.certificate is None:
            what = f"session {entry.key} has a driver that was made before there was a front: restart it (spec.restartNonce)"
            raise FrontError(Refusal.NOT_SERVED, what)
        return Target(
            key=entry.key,
            uid=entry.uid,
            host=entry.host,
            server_name=names.gateway_server_name(entry.key.name, entry.uid, entry.key.namespace),
            certificate=entry.certificate,
            token=front_token(self._key, entry.uid),
            tls=self._context(entry.certificate),
            is_of_connection=entry.is_of_connection,
        )

    def _late(self, key: SessionKey, entry: SessionEntry | None, seconds: float) -> FrontError:
        if entry is None:
            return FrontError(Refusal.UNKNOWN_SESSION, f"session {key} does not exist any more")
        return FrontError(
            Refusal.NOT_READY, f"session {key} is not Ready after {seconds:g} s: {entry.state}; try again"
        )


async def _holds(check: Awaitable[None]) -> bool:
    """Whether a check of a right passes. Raises FrontError for one that could not be made."""
    try:
        await check
    except FrontError as refused:
        if refused.refusal is Refusal.FORBIDDEN:
            return False
        raise
    return True


def sleeps(entry: SessionEntry) -> bool:
    """Tells whether a session must be woken: it hibernates, or is about to."""
    return entry.phase is Phase.HIBERNATED or entry.reason == Reason.HIBERNATING


def _session(key: SessionKey, user: User, label: str, is_of_connection: bool) -> dict[str, Any]:
    """The object of a session that is made for a user; what it does not say is the class's."""
    annotations = {names.ANNOTATION_FRONT_USER: user.name}
    spec: dict[str, Any] = {"endpoints": {"rest": True, "connect": True, "thrift": True}}
    if is_of_connection:
        annotations[ANNOTATION_SHARE] = Share.CONNECTION.value
        spec["idle"] = {"action": "Close"}
    metadata: Mapping[str, Any] = {
        "name": key.name,
        "namespace": key.namespace,
        "labels": {names.LABEL_FRONT_USER: label, names.LABEL_MANAGED_BY: names.FRONT_APP_NAME},
        "annotations": annotations,
    }
    return {"apiVersion": names.API_VERSION, "kind": SESSION, "metadata": dict(metadata), "spec": spec}


def _refused(error: ApiError, what: str) -> FrontError:
    refusal = Refusal.UNAVAILABLE if error.status == 0 or error.status >= 500 else Refusal.NOT_SERVED
    return FrontError(refusal, f"{what}: {error.message[:500]}")
