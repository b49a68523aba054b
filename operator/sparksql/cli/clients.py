"""Clients of a session's driver: who has a session in it, what they run, and how one of their statements is canceled.

The session's status has only their number. The rest is asked of the gateway, by those who may read the session's Secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sparksql.cli.console import Console
from sparksql.cli.errors import CliError, Exit
from sparksql.cli.gateway import Forward, Gateway, UnavailableError, UnknownError, ask, session_gateway
from sparksql.cli.kubectl import Kubectl
from sparksql.cli.objects import SESSIONS, Session
from sparksql.wire.clients import ClientsView
from sparksql.wire.control import CancelRequest, GatewayInfo, OperationState, OperationView

ASKED_AT_ONCE = 4  # sessions; each is a kubectl of its own
POLL_SECONDS = 0.3
END_SECONDS = 60.0


async def clients_of(
    kubectl: Kubectl, console: Console, sessions: Sequence[Session], forward: Forward
) -> list[tuple[str, ClientsView]]:
    """Clients by session, for all sessions that have any; where the gateway cannot be asked a note says why."""
    turns = asyncio.Semaphore(ASKED_AT_ONCE)

    async def look(session: Session) -> tuple[str, ClientsView] | None:
        try:
            async with turns, session_gateway(kubectl, session, forward) as gateway:
                return session.name, await _clients(gateway)
        except UnavailableError as error:
            console.note(f"{session.name}: its clients are counted, not shown: {error}")
            return None

    in_use = [session for session in sessions if session.status.clients.sessions and session.status.driver.pod_name]
    return [clients for clients in await asyncio.gather(*map(look, in_use)) if clients is not None]


async def cancel_operation(
    kubectl: Kubectl, console: Console, forward: Forward, session: str, operation: str, *, wait: bool
) -> Exit:
    """Cancels a client's statement and waits for its end; FINISHED if it was canceled."""
    view = Session.of(await kubectl.get(SESSIONS, session))
    if not view.status.driver.pod_name:
        raise CliError(f"session {session} has no driver: {view.status.phase or 'new'} {view.reason}")
    try:
        async with session_gateway(kubectl, view, forward) as gateway:
            # The gateway refuses an unknown id from then on: a misspelt one must not get so far.
            if operation not in {each.operation_id for each in (await _clients(gateway)).operations}:
                raise CliError(f"no client of session {session} has a statement {operation} that waits or runs")
            info = GatewayInfo.model_validate_json(await ask(gateway, "/info"))
            request = CancelRequest(boot_id=info.boot_id, reason="canceled by the user")
            answer = await ask(gateway, f"/statements/{operation}/cancel", request.to_json())
            state = OperationView.model_validate_json(answer).state
            if wait:
                state = await _end(gateway, operation, state)
    except UnavailableError as error:
        raise CliError(f"{operation} was not canceled: {error}") from error
    if not wait:
        return Exit.FINISHED
    console.print(f"{operation} {state}")
    return Exit.FINISHED if state is OperationState.CANCELED else Exit.ERROR


async def _clients(gateway: Gateway) -> ClientsView:
    return ClientsView.model_validate_json(await ask(gateway, "/clients"))


async def _end(gateway: Gateway, operation: str, state: OperationState) -> OperationState:
    """The state in which a canceled operation ends; one that its client has closed meanwhile is known no more."""
    try:
        async with asyncio.timeout(END_SECONDS):
            while not state.is_terminal:
                await asyncio.sleep(POLL_SECONDS)
                state = OperationView.model_validate_json(await ask(gateway, f"/statements/{operation}")).state
    except UnknownError:
        return OperationState.CANCELED
    except TimeoutError:
        raise CliError(f"{operation} has not ended within {END_SECONDS:g} s", Exit.INCOMPLETE) from None
    return state
