"""How many sessions the front has made for a user, by its own record: across replicas, and whatever labels sessions have.

The record is a Lease in the front's namespace for each user whose sessions are bounded. It has the names of the sessions that
were made for that user. A place is taken there before the session is made, by a write that only succeeds if no other replica has
written meanwhile. A session that somebody else labels as the user's is not in it, and counts for nobody.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any
from weakref import WeakValueDictionary

from sparksql.api import names
from sparksql.front import naming
from sparksql.front.directory import Directory
from sparksql.front.model import FrontError, Refusal, SessionKey
from sparksql.kube.client import KubeClient
from sparksql.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from sparksql.kube.resources import LEASES

log = logging.getLogger(__name__)

ANNOTATION_SESSIONS = f"{names.GROUP}/front-sessions"
RESERVED_SECONDS = 60.0
"""How long a place is held for a session that is not there: it is on its way, or this replica's watch does not have it yet."""
ATTEMPT_SECONDS = 10.0  # while other replicas write the same record

Object = dict[str, Any]
Places = dict[SessionKey, float]


def lease_name(user: str) -> str:
    """Returns the name of the Lease with the sessions of a user."""
    return f"front-user-{naming.user_label(user)}"


class SessionQuota:
    """Takes and gives back places for sessions of users."""

    def __init__(self, client: KubeClient, namespace: str, directory: Directory, clock: Callable[[], datetime]) -> None:
        self._client = client
        self._namespace = namespace
        self._directory = directory
        self._clock = clock
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by user: this replica's own turns

    async def reserve(self, user: str, key: SessionKey, most: int) -> tuple[SessionKey, ...]:
        """Takes a place for a session that is about to be made, and returns nothing; or all that have places, if `most` do.

        Raises FrontError NOT_READY, UNAVAILABLE.
        """
        taken: tuple[SessionKey, ...] = ()

        def take(places: Places) -> bool:
            nonlocal taken
            taken = () if key in places or len(places) < most else tuple(sorted(places))
            if not taken:
                places[key] = self._clock().timestamp()
            return not taken

        await self._change(user, take)
        return taken

    async def release(self, user: str, key: SessionKey) -> None:
        """Gives a place back. Never raises: one that stays taken is free after RESERVED_SECONDS."""
        with suppress(FrontError):
            await self._change(user, lambda places: places.pop(key, None) is not None)

    async def _change(self, user: str, change: Callable[[Places], bool]) -> None:
        """Has `change` change the places of a user, and writes them if it returns True. Raises FrontError."""
        turn = self._turns.setdefault(user, asyncio.Lock())
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS), turn:
                while not await self._attempt(user, change):
                    continue
        except TimeoutError:
            raise FrontError(Refusal.NOT_READY, f"user {user} opens many sessions at a time; try again") from None
        except ApiError as error:
            what = f"the sessions of user {user} cannot be counted for now: {error.reason}; try again"
            raise FrontError(Refusal.UNAVAILABLE, what) from error

    async def _attempt(self, user: str, change: Callable[[Places], bool]) -> bool:
        """Tells whether it is done; False if another replica has written meanwhile. Raises ApiError."""
        name = lease_name(user)
        try:
            lease: Object | None = await self._client.get(LEASES, self._namespace, name)
        except NotFound:
            lease = None
        places = {key: since for key, since in _places(lease).items() if self._is_held(user, key, since)}
        if not change(places):
            return True
        body = _lease(name, self._namespace, lease, places)
        try:
            if lease is None:
                await self._client.create(LEASES, self._namespace, body)
            else:
                await self._client.replace(LEASES, self._namespace, name, body)
        except (AlreadyExists, Conflict):
            return False
        return True

    def _is_held(self, user: str, key: SessionKey, since: float) -> bool:
        entry = self._directory.find(key)
        if entry is not None:
            return entry.user == user
        return self._clock().timestamp() - since < RESERVED_SECONDS


def _places(lease: Mapping[str, Any] | None) -> Places:
    """The places in a record: by `namespace/name` the time at which each was taken."""
    written = ((lease or {}).get("metadata", {}).get("annotations") or {}).get(ANNOTATION_SESSIONS, "{}")
    places: Places = {}
    for text, since in json.loads(written).items():
        namespace, _, name = text.partition("/")
        places[SessionKey(namespace, name)] = float(since)
    return places


def _lease(name: str, namespace: str, before: Object | None, places: Places) -> Object:
    written = json.dumps({str(key): since for key, since in sorted(places.items())})
    metadata = {
        **(before["metadata"] if before is not None else {"name": name, "namespace": namespace}),
        "labels": {names.LABEL_MANAGED_BY: names.FRONT_APP_NAME},
        "annotations": {ANNOTATION_SESSIONS: written},
    }
    return {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": metadata, "spec": {}}
