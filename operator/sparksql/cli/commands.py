"""The commands of the plugin: each asks kubectl, follows, prints, and answers with the process's exit code."""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sparksql.api.execution import StatementMode
from sparksql.api.names import GROUP
from sparksql.cli import render
from sparksql.cli.cells import json_text
from sparksql.cli.clients import clients_of
from sparksql.cli.console import Console
from sparksql.cli.errors import CliError, Exit
from sparksql.cli.follow import Interrupts, follow
from sparksql.cli.gateway import Forward
from sparksql.cli.kubectl import Kubectl, KubectlError
from sparksql.cli.manifest import RunOptions, check_size, session_ref, statement_manifest, wants_a_part
from sparksql.cli.objects import SESSIONS, STATEMENT_KIND, STATEMENTS, Session, Statement
from sparksql.cli.results import ResultPrinter


@dataclass(frozen=True)
class AdHoc:
    """SQL text given to `run`, with the flags that describe its statement; `name` None takes a random one."""

    sql: str = field(repr=False)
    options: RunOptions
    name: str | None = None

    def documents(self) -> list[str]:
        """Returns the manifest of the statement, as one JSON document."""
        name = self.name or f"run-{secrets.token_hex(4)}"
        return [json.dumps(statement_manifest(name, self.sql, self.options))]


@dataclass(frozen=True)
class Manifests:
    """YAML or JSON given to a command. kubectl itself reads it, so that it means here what it means to `kubectl apply`."""

    text: str = field(repr=False)
    command: str = "run"

    async def documents(self, kubectl: Kubectl) -> list[str]:
        """Returns the manifests as JSON documents.

        Raises CliError for a manifest of another kind than SqlStatement, or one that kubectl refuses.
        """
        try:
            parsed = await kubectl.parsed(self.text)
        except KubectlError as error:
            raise self.refused(error) from None
        for document in parsed:
            is_ours = str(document.get("apiVersion", "")).startswith(f"{GROUP}/")
            if not is_ours or document.get("kind") != STATEMENT_KIND:
                raise CliError(
                    f"{self.command} accepts only {STATEMENT_KIND} manifests, not {document.get('kind')}", Exit.USAGE
                )
            check_size((document.get("spec") or {}).get("sql") or "", "spec.sql")
        return [json.dumps(document) for document in parsed]

    def refused(self, error: CliError) -> CliError:
        """Returns the error of a refusal with what is wrong in which line, as far as that is known here."""
        from sparksql.cli.mistakes import explained  # reads the whole schema, which a good manifest does not need

        return CliError("\n".join([str(error), *explained(self.text)]), error.code)


def worst(statements: Sequence[Statement]) -> Exit:
    """The exit code of several: that of the first which did not finish."""
    return next((s.exit_code for s in statements if s.exit_code is not Exit.FINISHED), Exit.FINISHED)


async def _create(kubectl: Kubectl, manifests: Sequence[str], interrupts: Interrupts) -> list[Statement]:
    created: list[Statement] = []
    for manifest in manifests:
        if interrupts.requested.is_set():
            break
        try:
            documents = await kubectl.create(manifest)
        except KubectlError as error:
            before = ", ".join(statement.name for statement in created)
            note = f"\nCreated before that, and not followed: {before}" if before else ""
            raise CliError(f"{error}{note}") from None
        created += map(Statement.of, documents)
    return created


async def _request_cancel(kubectl: Kubectl, statement: Statement) -> None:
    patch = {"spec": {"desiredState": "Canceled"}}
    try:
        await kubectl.patch(STATEMENTS, statement.name, patch, statement.namespace)
    except KubectlError as error:
        if not error.is_not_found:
            raise


def _how_to_follow(kubectl: Kubectl, statements: Sequence[Statement]) -> str:
    """The command that follows statements again, with the flags that this one has."""
    namespaces = dict.fromkeys(statement.namespace for statement in statements)
    commands = []
    for namespace in namespaces:
        names = [statement.name for statement in statements if statement.namespace == namespace]
        commands.append(shlex.join(["kubectl", "sparksql", "wait", *names, "--namespace", namespace, *kubectl.flags]))
    return "\n".join(commands)


async def _follow_or_cancel(
    kubectl: Kubectl, console: Console, created: Sequence[Statement], interrupts: Interrupts
) -> list[Statement]:
    """Follows to the end; the first interrupt cancels what runs and goes on to follow."""
    requested = asyncio.Event()

    async def cancel_when_asked() -> None:
        await interrupts.requested.wait()
        names = ", ".join(statement.name for statement in created)
        console.note(f"Canceling {names}; interrupt again to leave without waiting for the end")
        for statement in created:
            try:
                await _request_cancel(kubectl, statement)
            except KubectlError as error:
                left = f"{statement.name} is not canceled, it runs on; to follow it: {_how_to_follow(kubectl, [statement])}"
                raise CliError(f"{error}\n{left}") from None
        requested.set()

    def is_over(statement: Statement) -> bool:
        return statement.has_ended or (statement.is_settled and not interrupts.requested.is_set())

    try:
        async with asyncio.TaskGroup() as group:
            canceling = group.create_task(cancel_when_asked())
            ended = await follow(kubectl, created, is_over, console)
            if not interrupts.requested.is_set():
                canceling.cancel()
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    except asyncio.CancelledError:
        state = "is requested and continues" if requested.is_set() else "was not requested, statements may run on"
        console.note(f"Left before the end; the cancel {state}. To see the end: {_how_to_follow(kubectl, created)}")
        raise
    return ended


class SessionMissingError(CliError):
    """The session of a statement does not exist; the text names those that do."""


async def check_session(kubectl: Kubectl, name: str, namespace: str | None, place: str) -> None:
    """Raises SessionMissingError, with the sessions that exist, for a session that does not: its statement would wait for it.

    `place` is where the session was named.
    """
    try:
        await kubectl.get(SESSIONS, name, namespace)
    except KubectlError as error:
        if error.is_forbidden:  # the right to create statements is enough to run one
            return
        if not error.is_not_found:
            raise
        names = sorted(Session.of(document).name for document in await kubectl.list(SESSIONS, namespace))
        existing = f"sessions of the namespace: {', '.join(names)}" if names else "the namespace has no sessions"
        raise SessionMissingError(f"{place}: session {name} does not exist; {existing}", Exit.USAGE) from None


async def run(source: AdHoc | Manifests, printer: ResultPrinter, *, wait: bool) -> Exit:
    """Creates the statements; unless `wait` is off follows them, prints their results and answers with the outcome."""
    kubectl, console = printer.kubectl, printer.console
    if isinstance(source, AdHoc) and source.options.session is not None:
        await check_session(kubectl, source.options.session, None, f"-s {source.options.session}")
    manifests = source.documents() if isinstance(source, AdHoc) else await source.documents(kubectl)
    if isinstance(source, Manifests):
        for name, namespace in dict.fromkeys(filter(None, map(session_ref, map(json.loads, manifests)))):
            try:
                await check_session(kubectl, name, namespace, f"spec.sessionRef.name: {name}")
            except SessionMissingError as missing:  # it may be made later, by what has made the manifest
                console.note(f"{missing}; the statement waits for it")
    interrupts = Interrupts()
    with interrupts.caught():
        try:
            created = await _create(kubectl, manifests, interrupts)
        except CliError as error:
            raise (error if isinstance(source, AdHoc) else source.refused(error)) from None
        if not wait:
            for statement in created:
                console.print(statement.name)
            return Exit.CANCELED if interrupts.requested.is_set() else Exit.FINISHED
        ended = await _follow_or_cancel(kubectl, console, created, interrupts)
    # In the order of the manifests: what the user has asked for is told by these, since the API server fills in the rest.
    partly = [wants_a_part(json.loads(manifest)) for manifest in manifests]
    complete = [
        await _present(statement, printer, partly=is_part) for statement, is_part in zip(ended, partly, strict=False)
    ]
    if interrupts.requested.is_set():
        return Exit.CANCELED
    outcome = worst(ended)
    return Exit.INCOMPLETE if outcome is Exit.FINISHED and not all(complete) else outcome


async def _present(statement: Statement, printer: ResultPrinter, *, partly: bool) -> bool:
    """Prints how a statement ended, with its rows if it finished; whether all of them were printed that are wanted.

    `partly`: it was asked to keep a part of its rows.
    """
    if statement.exit_code is not Exit.FINISHED:
        printer.console.failure(render.failure(statement))
        return True
    if not statement.has_ended:
        printer.console.note(f"{statement.name}: {render.phase(statement)}")
        return True
    printed = await printer.print(statement)
    cut = statement.status.result is not None and statement.status.result.truncated
    return printed and (partly or not cut)


async def _get(kubectl: Kubectl, names: Sequence[str]) -> list[Statement]:
    return [Statement.of(await kubectl.get(STATEMENTS, name)) for name in names]


def _line(statement: Statement) -> str:
    phase = statement.status.phase if statement.has_ended or not statement.deleted else "Deleted"
    return f"{statement.name} {phase}"


async def wait(kubectl: Kubectl, console: Console, names: Sequence[str], timeout: float | None) -> Exit:
    """Follows statements made elsewhere; one line `NAME PHASE` each. Gives up after `timeout` seconds."""
    try:
        async with asyncio.timeout(timeout):
            statements = await _get(kubectl, names)
            ended = await follow(kubectl, statements, lambda s: s.is_settled, console)
    except TimeoutError:
        raise CliError(f"not all statements ended within {timeout:g} s; they go on", Exit.INCOMPLETE) from None
    except asyncio.CancelledError:
        console.note("The statements go on: `wait` cancels nothing, `kubectl sparksql cancel NAME` does")
        raise
    for statement in ended:
        console.print(_line(statement))
        if statement.exit_code is not Exit.FINISHED:
            console.failure(render.failure(statement))
    return worst(ended)


async def results(printer: ResultPrinter, name: str) -> Exit:
    """Prints the rows of a finished statement; INCOMPLETE if only a part of them could be."""
    statement = Statement.of(await printer.kubectl.get(STATEMENTS, name))
    if not statement.has_ended:
        raise CliError(f"{name} has not ended: {render.phase(statement)}")
    complete = await _present(statement, printer, partly=statement.spec.mode is StatementMode.PREVIEW)
    return statement.exit_code if complete else Exit.INCOMPLETE


async def cancel(kubectl: Kubectl, console: Console, names: Sequence[str], *, wait: bool) -> Exit:
    """Cancels statements and waits for their end; FINISHED if all of them were canceled."""
    statements = await _get(kubectl, names)
    for statement in statements:
        if statement.has_ended:
            console.note(f"{statement.name} has ended already: there is nothing to cancel")
        else:
            await _request_cancel(kubectl, statement)
    if not wait:
        return Exit.FINISHED
    ended = await follow(kubectl, statements, lambda s: s.has_ended, console)
    for statement in ended:
        console.print(_line(statement))
    return Exit.FINISHED if all(s.deleted or s.exit_code is Exit.CANCELED for s in ended) else Exit.ERROR


async def _driver_pod(kubectl: Kubectl, session: str, namespace: str | None, pod_uid: str | None) -> str:
    """Name of the session's driver pod; CliError if there is none or not the one asked for."""
    driver = Session.of(await kubectl.get(SESSIONS, session, namespace)).status.driver
    if not driver.pod_name or (pod_uid is not None and driver.pod_uid != pod_uid):
        raise CliError(f"the driver of session {session} no longer exists, nor do its logs")
    return driver.pod_name


def is_of_operation(line: str, operation_id: str) -> bool:
    """Tells whether a line of a driver's log (one JSON object a line) is about an operation."""
    if operation_id not in line:
        return False
    try:
        record = json.loads(line)
    except ValueError:
        return False
    return isinstance(record, dict) and record.get("operation_id") == operation_id


async def logs(kubectl: Kubectl, console: Console, name: str | None, session: str | None, *, follow: bool) -> Exit:
    """Log lines of a session's driver, or those of them that are about one statement's current attempt."""
    operation_id, namespace = None, None
    if session is not None:
        pod = await _driver_pod(kubectl, session, None, None)
    else:
        statement = Statement.of(await kubectl.get(STATEMENTS, name or ""))
        namespace, operation_id = statement.namespace, statement.status.operation_id
        if operation_id is None or not statement.status.session.pod_uid:
            raise CliError(f"{name} was not handed to a driver: {render.phase(statement)}")
        pod = await _driver_pod(kubectl, statement.session_name, namespace, statement.status.session.pod_uid)
    async with aclosing(kubectl.logs(pod, namespace, follow=follow)) as lines:
        async for line in lines:
            if operation_id is None or is_of_operation(line, operation_id):
                console.print(line)
    return Exit.FINISHED


async def status(kubectl: Kubectl, console: Console, forward: Forward, session: str | None, output: str) -> Exit:
    """Sessions, statements and clients of the namespace, or one session with its own; oldest first."""
    if session is None:
        sessions = [Session.of(document) for document in await kubectl.list(SESSIONS)]
    else:
        sessions = [Session.of(await kubectl.get(SESSIONS, session))]
    statements = [Statement.of(document) for document in await kubectl.list(STATEMENTS)]
    statements = [each for each in statements if session in (None, each.session_name)]
    statements.sort(key=lambda each: (str(each.metadata.creation_timestamp), each.name))
    views = await clients_of(kubectl, console, sessions, forward)
    clients = [each for name, view in views for each in render.client_summaries(name, view)]
    operations = [each for name, view in views for each in render.operation_summaries(name, view)]
    if output == "json":
        listed = {
            "sessions": [render.session_summary(each) for each in sessions],
            "statements": [render.statement_summary(each) for each in statements],
            "clients": clients,
            "operations": operations,
        }
        console.print(json_text(listed))
    else:
        text = render.status_text(sessions, statements)
        console.write(text + render.clients_text(clients, operations, datetime.now(UTC)))
    return Exit.FINISHED
