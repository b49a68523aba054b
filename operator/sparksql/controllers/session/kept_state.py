"""What a session that hibernates keeps of its state: statements of its driver, in a Secret of the session.

The text of a statement may hold what is nobody else's business, so that it is not in the status. Which driver the Secret is of
stands beside it: one that an earlier hibernation has left is not taken for this one's.
"""

from __future__ import annotations

import base64
import logging

from sparksql.api.names import LABEL_INCARNATION, state_secret_name
from sparksql.api.session import KeptState, SqlSession
from sparksql.cache.indexes import SESSION
from sparksql.controllers.context import ControllerContext
from sparksql.domain.ownership import SESSION_OWNER, owned_by
from sparksql.drivers.client import GatewayUnreachable
from sparksql.engine.key import Key, log_extra
from sparksql.kube.builders.session import STATE_FILE, state_secret
from sparksql.kube.errors import NotFound
from sparksql.kube.resources import SECRETS
from sparksql.wire.session_state import SessionState

logger = logging.getLogger(__name__)


class KeptStates:
    """Writes and reads the Secrets with what sessions have kept."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def keep(self, session: SqlSession, kept: KeptState) -> None:
        """Asks the session's driver for its state and writes it. Idempotent. Raises ApiError, GatewayError."""
        metadata, driver = session.metadata, session.status.driver
        client = self._context.drivers.client(driver.pod_uid or "") if driver is not None else None
        if client is None:
            raise GatewayUnreachable("the driver is not known yet")
        name = state_secret_name(metadata.name, metadata.uid)
        if await self._is_foreign(metadata.namespace, name, metadata.uid):
            logger.warning(
                "a Secret of another owner has the name of the session's state",
                extra=log_extra(Key(SESSION, metadata.namespace, metadata.name)),
            )
            return  # left alone: the next driver finds nothing of this one, and the session says that its state is lost
        state = await client.session_state()
        body = state_secret(metadata, kept.incarnation, state.to_json())
        await self._context.client.apply(SECRETS, metadata.namespace, name, body)

    async def _is_foreign(self, namespace: str, name: str, session_uid: str) -> bool:
        try:
            return not owned_by(await self._context.client.get(SECRETS, namespace, name), SESSION_OWNER, session_uid)
        except NotFound:
            return False

    async def read(self, session: SqlSession) -> SessionState | None:
        """Returns what the next driver begins with, None if nothing was kept; empty if it is not there. Raises ApiError."""
        kept, metadata = session.status.kept_state, session.metadata
        if kept is None:
            return None
        name = state_secret_name(metadata.name, metadata.uid)
        try:
            secret = await self._context.client.get(SECRETS, metadata.namespace, name)
        except NotFound:
            return SessionState()
        labels, data = secret["metadata"].get("labels") or {}, secret.get("data") or {}
        if not owned_by(secret, SESSION_OWNER, metadata.uid) or labels.get(LABEL_INCARNATION) != str(kept.incarnation):
            return SessionState()
        try:
            return SessionState.model_validate_json(base64.b64decode(data.get(STATE_FILE, "")))
        except ValueError:
            return SessionState()
