"""`kubectl sparksql config`: the configuration that a session's driver was started with, and where each value is from."""

from __future__ import annotations

from sparksql.cli import render
from sparksql.cli.cells import json_text
from sparksql.cli.console import Console
from sparksql.cli.errors import CliError, Exit
from sparksql.cli.kubectl import Kubectl
from sparksql.cli.objects import SESSIONS, Session


async def config(kubectl: Kubectl, console: Console, session: str, output: str) -> Exit:
    """Prints one line for each value; CliError for a session that has not had a driver yet."""
    view = Session.of(await kubectl.get(SESSIONS, session))
    entries = view.status.configuration
    if not entries:
        raise CliError(f"session {session} has not started a driver yet: {view.status.phase or 'new'} {view.reason}")
    if output == "json":
        console.print(json_text([entry.model_dump() for entry in entries]))
    else:
        rows = [[entry.name, entry.value, entry.layer] for entry in entries]
        console.write(render.grid(("SETTING", "VALUE", "FROM"), rows))
    return Exit.FINISHED
