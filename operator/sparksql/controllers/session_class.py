"""SqlSessionClass: its status says whether it was understood, and its warm pool has as many drivers as it says."""

from __future__ import annotations

import json
import logging
import secrets
import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any, assert_never

from sparksql.api.names import driver_pod_name, pool_member_name
from sparksql.api.session import SessionPhase
from sparksql.api.session_class import SqlSessionClass, SqlSessionClassStatus, WarmPoolMember
from sparksql.cache.classes import find_class
from sparksql.cache.indexes import CLASS, POD, SESSION
from sparksql.cache.namespaces import is_terminating, labels_of
from sparksql.cache.pools import members_of, recorded_intents, recorded_members, strays_of
from sparksql.cache.views import SessionView
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.pool_children import PoolChildren
from sparksql.controllers.reconciler import Again, Controller, Done, Outcome
from sparksql.controllers.start_failures import violation_of
from sparksql.domain.ownership import CLASS_OWNER, owned_by
from sparksql.domain.public_text import Message, compose
from sparksql.domain.session.resolve import Resolved
from sparksql.domain.session.warm import pool_key, pool_resolution
from sparksql.domain.session_class import ClearUp, Command, Decision, PoolSituation, RemoveDriver, StartDriver, decide
from sparksql.domain.violation import Violation
from sparksql.domain.warm_pool import PoolMember, plan
from sparksql.engine.key import Key, log_extra
from sparksql.kube.builders.driver_config import driver_config
from sparksql.kube.builders.warm import INCARNATION, Credentials, executor_template_of, warm_children
from sparksql.kube.client import Object
from sparksql.kube.errors import ApiError, Conflict, NotFound
from sparksql.kube.resources import PODS
from sparksql.kube.tls import session_certificate

logger = logging.getLogger(__name__)

TOKEN_BYTES = 32
_WITH_DRIVER = frozenset({SessionPhase.STARTING, SessionPhase.READY, SessionPhase.DRAINING})


class SessionClassController(Controller[SqlSessionClass, SqlSessionClassStatus, Command]):
    """Decides on a class and on the drivers of its pool."""

    kind = CLASS

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._refused: dict[
            tuple[str, str], str
        ] = {}  # by class and namespace: what kept the last driver from being made
        # By the class's UID: drivers whose pods its status does not have yet.
        self._made: dict[str, list[WarmPoolMember]] = {}
        self._cleared: set[str] = set()  # UIDs of drivers of which nothing is left and that the status may still have
        self._children = PoolChildren(context)

    def parse(self, obj: Object) -> SqlSessionClass:
        """Returns the model of a raw SqlSessionClass. Raises ValueError if the CRD would refuse it."""
        return SqlSessionClass.parse(obj)

    async def decide(self, obj: Object, parsed: SqlSessionClass, refusal: Violation | None) -> Decision:
        """Decides from the class and from what the store has of its pool."""
        now = self._context.clock()
        return decide(parsed, now, self._pool(parsed, now))

    async def act(self, command: Command, parsed: SqlSessionClass) -> Outcome:
        """Starts a driver for the pool or takes one away. Raises ApiError."""
        match command:
            case StartDriver(intent):
                is_made = await self._start(parsed, intent)
                return Again() if is_made else Done()  # its record is written at once
            case ClearUp(intent):
                await self._clear(parsed, intent)
                return Again()
            case RemoveDriver(member):
                await self._remove(parsed, member)
            case _:
                assert_never(command)
        return Done()

    def _pool(self, session_class: SqlSessionClass, now: datetime) -> PoolSituation:
        pool, made = session_class.spec.warm_pool, self._unrecorded(session_class)
        members = members_of(self._context.store, session_class, made)
        known = [each.pod_uid for each in (*recorded_members(session_class), *made)]
        strays = tuple(each for each in strays_of(self._context.store, session_class, known) if not each.is_over)
        unfinished = self._unfinished(session_class, made)
        if not pool.size and not members and not strays and not unfinished:
            return PoolSituation()
        keys: dict[str, str] = {}
        problems: dict[str, str] = {}
        for namespace in pool.namespaces if pool.size and not session_class.metadata.is_deleting else ():
            resolution = self._resolve(session_class, namespace, "")
            if is_terminating(self._context.store, namespace):
                problems[namespace] = "it is being deleted"
            elif isinstance(resolution, Violation):
                problems[namespace] = resolution.message
            else:
                keys[namespace] = pool_key(resolution.effective)
                if (refusal := self._refused.get((session_class.metadata.name, namespace))) is not None:
                    problems[namespace] = refusal  # it is tried again all the same
        sessions = [SessionView(obj) for obj in self._context.store.list(SESSION)]
        held = [each for each in sessions if each.phase in _WITH_DRIVER]
        default = find_class(self._context.store, None)
        default_name = default.metadata.name if isinstance(default, SqlSessionClass) else None
        own = [each for each in held if (each.class_name or default_name) == session_class.metadata.name]
        taken = max((since for each in own if (since := each.pool_driver_since) is not None), default=None)
        room, limit = self._room(session_class, len(held), len(own))
        planned = plan(pool, keys, members, room, now, taken)
        intents = tuple(_intent(session_class, namespace, keys[namespace]) for namespace in planned.start)
        return PoolSituation(planned, problems, limit, tuple(members), strays, intents, unfinished)

    def _unfinished(self, session_class: SqlSessionClass, made: Iterable[WarmPoolMember]) -> tuple[WarmPoolMember, ...]:
        """The drivers whose start was recorded and whose pods neither this process nor the status knows."""
        recorded = recorded_intents(session_class)
        self._cleared &= {each.uid for each in recorded}
        done = self._cleared | {each.uid for each in made}
        return tuple(each for each in recorded if each.uid not in done)

    def _unrecorded(self, session_class: SqlSessionClass) -> list[WarmPoolMember]:
        """The drivers that were made by this process and that the class's status does not have yet."""
        recorded = {each.pod_uid for each in recorded_members(session_class)}
        made = self._made.pop(session_class.metadata.uid, [])
        left = [each for each in made if each.pod_uid not in recorded and self._is_there(each)]
        if left:
            self._made[session_class.metadata.uid] = left
        return left

    def _is_there(self, member: WarmPoolMember) -> bool:
        pod = self._context.store.get(POD, member.namespace, member.pod_name)
        return pod is not None and bool(pod["metadata"]["uid"] == member.pod_uid)

    def _room(self, session_class: SqlSessionClass, held: int, own: int) -> tuple[int | None, Message]:
        """How many drivers the limits leave beside those of all sessions and of the class's own, None without limits.

        With it the limit that leaves the fewest.
        """
        bounds = (
            (compose("spec.limits.sessions"), session_class.spec.limits.sessions, own),
            (compose("Helm value operator.limits.sessions"), self._context.config.limits.sessions or None, held),
        )
        rooms = [
            (limit - taken, compose("{name} ({limit})", name=name, limit=limit))
            for name, limit, taken in bounds
            if limit is not None
        ]
        return min(rooms, default=(None, compose("")))

    def _resolve(self, session_class: SqlSessionClass, namespace: str, uid: str) -> Resolved | Violation:
        labels = labels_of(self._context.store, namespace)
        return pool_resolution(session_class, namespace, uid, labels, self._context.config.defaults)

    async def _start(self, session_class: SqlSessionClass, intent: WarmPoolMember) -> bool:
        """Makes the children of a new member, and tells whether it is made. Raises ApiError.

        What is left of one that could not be made is deleted, here or at the next look: its record has no pod.
        """
        namespace, uid = intent.namespace, intent.uid
        resolved = self._resolve(session_class, namespace, uid)
        if isinstance(resolved, Violation):
            return False
        member = resolved.effective
        certificate, key = session_certificate(member.name, uid, namespace, self._context.clock())
        credentials = Credentials(secrets.token_hex(TOKEN_BYTES), certificate, key, secrets.token_bytes(TOKEN_BYTES))
        config = driver_config(resolved, session_class, INCARNATION, database="", warm=True).to_file()
        children = warm_children(
            member, session_class.metadata.uid, pool_key(member), config, json.dumps(executor_template_of(member), sort_keys=True), credentials,
            self._context.pod_namespace,
        )  # fmt: skip
        try:
            pod = await self._children.make(member, children)
        except Conflict:
            raise
        except ApiError as refused:  # a quota, a webhook, a namespace that does not exist
            pod = violation_of(refused, member.class_name)
        if isinstance(pod, Violation):
            self._report(session_class, namespace, pod)
            await self._clear(session_class, intent)
            return False
        self._refused.pop((session_class.metadata.name, namespace), None)
        await self._children.hand_over(member, children, pod)
        made = intent.replace(pod_uid=pod["metadata"]["uid"], key=pool_key(member))
        self._made.setdefault(session_class.metadata.uid, []).append(made)
        self._context.store.apply(POD, pod)
        return True

    async def _clear(self, session_class: SqlSessionClass, intent: WarmPoolMember) -> None:
        await self._children.clear(session_class, intent)
        self._cleared.add(intent.uid)

    def _report(self, session_class: SqlSessionClass, namespace: str, violation: Violation) -> None:
        self._refused[session_class.metadata.name, namespace] = violation.message
        fields = log_extra(Key(CLASS, "", session_class.metadata.name), namespace=namespace, error=violation.reason)
        logger.warning("a driver for the warm pool is not made", extra=fields)

    async def _remove(self, session_class: SqlSessionClass, member: PoolMember) -> None:
        """Deletes the pod of a member, or one that is taken for one, unless a session has it by now. Raises ApiError."""
        try:
            live: dict[str, Any] = await self._context.client.get(PODS, member.namespace, member.pod_name)
            if live["metadata"]["uid"] == member.pod_uid and owned_by(live, CLASS_OWNER, session_class.metadata.uid):
                await self._context.client.delete(PODS, member.namespace, member.pod_name, uid=member.pod_uid)
        except NotFound:
            await self._context.status.refresh(POD, member.namespace, member.pod_name)


def _intent(session_class: SqlSessionClass, namespace: str, key: str) -> WarmPoolMember:
    """The record of a driver that is to be started: its name is known before its pod exists."""
    uid = str(uuid.uuid4())
    pod_name = driver_pod_name(pool_member_name(session_class.metadata.name), uid, INCARNATION)
    return WarmPoolMember(namespace=namespace, uid=uid, pod_name=pod_name, key=key)
