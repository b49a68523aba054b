"""`kubectl sparksql validate`: has the cluster validate statements, and leaves no object behind.

A statement of mode Validate is created for each, under a name of its own, and deleted at the end, also when the command is
interrupted. Should that fail, the statement deletes itself. That of a streaming statement which has a checkpoint names it in
`validateAgainst`: so the text takes the same way as at a start, up to the comparison with the state.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparksql.api.execution import StatementMode
from sparksql.api.names import API_VERSION
from sparksql.api.reasons import Reason
from sparksql.api.streaming import OnIncompatible, UpgradeMode
from sparksql.cli import render
from sparksql.cli.commands import Manifests, SessionMissingError, check_session
from sparksql.cli.console import Console, row_writer
from sparksql.cli.errors import CliError, Exit
from sparksql.cli.follow import Interrupts, follow
from sparksql.cli.kubectl import Kubectl, KubectlError, documents
from sparksql.cli.manifest import RunOptions, session_ref, statement_manifest
from sparksql.cli.objects import STATEMENT_KIND, STATEMENTS, Statement

DEFAULT_SECONDS = 300  # a session that sleeps starts within them
TTL_SECONDS = 60  # of a statement that could not be deleted
DELETE_SECONDS = 30.0
MAX_DIFFERENCES = 100  # that the status shows; a class may allow fewer (`limits.previewRows`)
# What a validation has no use for: it runs once, now, and is deleted.
_OF_RUNS = ("desiredState", "runNonce", "retry", "dependsOn")


@dataclass(frozen=True)
class Request:
    """Holds what the command was given: a name, a file, or both.

    `given` is what the file at `path` has: manifests, or SQL text.
    """

    name: str | None
    path: str | None
    given: Manifests | str | None = field(repr=False)
    session: str | None
    timeout_seconds: int


@dataclass(frozen=True)
class Validation:
    """Holds one statement that is validated: its label, the manifest of its validation, and a note of what is not compared."""

    label: str
    manifest: Mapping[str, Any] = field(repr=False)
    starts_fresh: bool = False
    note: str = ""

    @property
    def name(self) -> str:
        """Returns the name of its statement of mode Validate."""
        return str(self.manifest["metadata"]["name"])

    @property
    def namespace(self) -> str | None:
        """Returns the namespace that the manifest names, None for that of the command."""
        namespace: str | None = self.manifest["metadata"].get("namespace")
        return namespace


def validation_of(
    label: str, manifest: Mapping[str, Any], existing: Mapping[str, Any] | None, request: Request
) -> Validation:
    """Returns how a manifest is validated, where the cluster has `existing` under its name. Pure but for the new name."""
    metadata = manifest.get("metadata") or {}
    spec = {key: value for key, value in (manifest.get("spec") or {}).items() if key not in _OF_RUNS}
    spec["mode"] = StatementMode.VALIDATE.value
    spec["timeouts"] = {**(spec.get("timeouts") or {}), "queueSeconds": request.timeout_seconds}
    spec["result"] = {"previewRows": MAX_DIFFERENCES}
    spec["ttlSecondsAfterFinished"] = TTL_SECONDS
    if request.session is not None:
        spec.pop("session", None)
        spec["sessionRef"] = {"name": request.session}
    streaming, note = spec.get("streaming") or {}, ""
    if streaming and "validateAgainst" not in spec and existing is not None:
        note = _uncompared(streaming, existing)
        if not note:
            spec["validateAgainst"] = {"statementRef": {"name": existing["metadata"]["name"]}}
    name = {"name": f"validate-{secrets.token_hex(4)}"}
    place = {"namespace": metadata["namespace"]} if metadata.get("namespace") else {}
    return Validation(
        label,
        {"apiVersion": API_VERSION, "kind": STATEMENT_KIND, "metadata": {**name, **place}, "spec": spec},
        starts_fresh=streaming.get("onIncompatible") == OnIncompatible.START_FRESH,
        note=note,
    )


def _uncompared(streaming: Mapping[str, Any], existing: Mapping[str, Any]) -> str:
    """Returns why the text is compared with no state of the statement that exists; empty if it is compared."""
    name, spec = existing["metadata"]["name"], existing.get("spec") or {}
    known = (existing.get("status") or {}).get("streaming") or {}
    if not spec.get("streaming") or spec.get("mode", StatementMode.EXECUTE) != StatementMode.EXECUTE:
        return f"no state is compared: SqlStatement {name} of the cluster is no streaming statement that runs"
    if not known.get("checkpointLocation"):
        return f"no state is compared: SqlStatement {name} has no checkpoint yet"
    if streaming.get("startFrom") and streaming.get("restoreNonce", "") != known.get("observedRestoreNonce", ""):
        return (
            "no state is compared: it starts from the savepoint of spec.streaming.startFrom, since restoreNonce changed"
        )
    if streaming.get("upgradeMode") == UpgradeMode.STATELESS:
        return "no state is compared: spec.streaming.upgradeMode is Stateless"
    return ""


async def validate(kubectl: Kubectl, console: Console, request: Request) -> Exit:
    """Validates the statements, prints an answer for each, and returns the outcome of the first one that is not valid.

    Raises CliError for statements that cannot be validated: a name, a file or a session that does not exist, or a manifest
    that the API server refuses.
    """
    deadline = asyncio.get_running_loop().time() + request.timeout_seconds
    interrupts = Interrupts()
    latest: dict[str, Statement] = {}
    with interrupts.caught():
        try:
            async with asyncio.timeout_at(deadline):
                validations = await _planned(kubectl, request)
        except TimeoutError:
            message = f"the cluster did not answer within {request.timeout_seconds} s (--timeout)"
            raise CliError(message, Exit.TIMED_OUT) from None
        try:
            async with asyncio.timeout_at(deadline):
                await _ask(kubectl, console, request, validations, interrupts, latest)
        except TimeoutError:
            pass  # `_answer` shows what is missing
        finally:
            await _delete(kubectl, console, validations)
    if interrupts.requested.is_set():
        return Exit.CANCELED
    outcomes = [_answer(console, each, latest.get(each.name), request) for each in validations]
    return next((each for each in outcomes if each is not Exit.FINISHED), Exit.FINISHED)


async def _planned(kubectl: Kubectl, request: Request) -> list[Validation]:
    validations = [
        validation_of(label, manifest, existing, request)
        for label, manifest, existing in await _manifests(kubectl, request)
    ]
    places = (session_ref(each.manifest) for each in validations)
    for name, namespace in dict.fromkeys(place for place in places if place is not None):
        flag = f"-s {name}" if request.session is not None else f"spec.sessionRef.name: {name}"
        try:
            await check_session(kubectl, name, namespace, flag)
        except SessionMissingError as missing:
            raise CliError(f"{missing}; create it, or give another one by -s", missing.code) from None
    return validations


async def _manifests(
    kubectl: Kubectl, request: Request
) -> list[tuple[str, Mapping[str, Any], Mapping[str, Any] | None]]:
    """Returns what is validated: how it is called, its manifest, and the statement of the cluster that has its name."""
    if isinstance(request.given, Manifests):
        parsed = [json.loads(document) for document in await request.given.documents(kubectl)]
        if request.name is not None:
            parsed = _named(parsed, request)
        return [(_label(each), each, await _existing(kubectl, each)) for each in parsed]
    if request.name is None:
        assert request.given is not None
        manifest = statement_manifest("text", request.given, RunOptions(session=request.session))
        return [("SQL" if request.path in (None, "-") else str(request.path), {**manifest, "metadata": {}}, None)]
    existing = await kubectl.get(STATEMENTS, request.name)
    spec = dict(existing["spec"])
    if request.given is not None:
        spec.pop("sqlFrom", None)
        spec["sql"] = request.given
    return [(request.name, {"metadata": existing["metadata"], "spec": spec}, existing)]


def _named(manifests: Sequence[dict[str, Any]], request: Request) -> list[dict[str, Any]]:
    found = [each for each in manifests if _label(each) == request.name]
    if not found:
        names = ", ".join(map(_label, manifests))
        raise CliError(f"-f {request.path}: it has no {STATEMENT_KIND} {request.name}; it has {names}", Exit.USAGE)
    return found


def _label(manifest: Mapping[str, Any]) -> str:
    metadata = manifest.get("metadata") or {}
    return str(metadata.get("name") or f"{metadata.get('generateName', '')}*")


async def _existing(kubectl: Kubectl, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
    metadata = manifest.get("metadata") or {}
    if not metadata.get("name"):
        return None
    try:
        return await kubectl.get(STATEMENTS, metadata["name"], metadata.get("namespace"))
    except KubectlError as error:
        if error.is_not_found:
            return None
        raise


async def _ask(
    kubectl: Kubectl,
    console: Console,
    request: Request,
    validations: Sequence[Validation],
    interrupts: Interrupts,
    latest: dict[str, Statement],
) -> None:
    """Makes the statements and follows them to their ends, or to an interrupt; `latest` has the last state of each."""
    created: list[Statement] = []
    for each in validations:
        if interrupts.requested.is_set():
            return
        try:
            output = await kubectl.run("create", "--filename=-", "--output=json", data=json.dumps(each.manifest))
        except KubectlError as error:
            told = CliError(f"{each.label}: {error}", error.code)
            raise (request.given.refused(told) if isinstance(request.given, Manifests) else told) from None
        created += [Statement.of(document) for document in documents(output)]

    def is_over(statement: Statement) -> bool:
        latest[statement.name] = statement
        return statement.has_ended

    following = asyncio.create_task(follow(kubectl, created, is_over, console))
    interrupted = asyncio.create_task(interrupts.requested.wait())
    try:
        await asyncio.wait({following, interrupted}, return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            latest.update({state.name: state for state in following.result()})
    finally:
        for task in (following, interrupted):
            task.cancel()
        await asyncio.gather(following, interrupted, return_exceptions=True)


async def _delete(kubectl: Kubectl, console: Console, validations: Sequence[Validation]) -> None:
    """Deletes the statements by the names that were given to them, whether they were made or not."""
    for namespace in dict.fromkeys(each.namespace for each in validations):
        names = [each.name for each in validations if each.namespace == namespace]
        left = f"{', '.join(names)}: each deletes itself {TTL_SECONDS} s after its end"
        try:
            async with asyncio.timeout(DELETE_SECONDS):
                await kubectl.run(
                    "delete", STATEMENTS, *names, "--ignore-not-found", "--wait=false", namespace=namespace
                )
        except (KubectlError, TimeoutError) as error:
            console.note(f"Not deleted: {error or 'the cluster does not answer'}\n{left}")
        except asyncio.CancelledError:
            console.note(f"Left before the statements of the validation were deleted\n{left}")
            raise


def _answer(console: Console, validation: Validation, state: Statement | None, request: Request) -> Exit:
    """Prints the answer for one statement: that it is valid, or the error with its place, and each difference with its remedy."""
    label = validation.label
    if state is None or not (state.has_ended or state.deleted):
        what = "not created" if state is None else render.phase(state)
        waits = "" if state is None else render.waits_for(state, None)
        why = f"{what}: {waits}" if waits else what
        console.failure(f"{label}: not validated within {request.timeout_seconds} s (--timeout): {why}")
        return Exit.TIMED_OUT
    outcome = state.exit_code
    if outcome is Exit.FINISHED:
        console.print(f"{label}: valid{f': {state.why.message}' if state.why.message else ''}")
    elif validation.starts_fresh and state.why.reason == Reason.STATE_INCOMPATIBLE:
        console.print(
            f"{label}: valid, but a start begins without its state (onIncompatible: StartFresh): {state.why.message}"
        )
        outcome = Exit.FINISHED
    else:
        shown = state.model_copy(update={"metadata": state.metadata.model_copy(update={"name": label})})
        console.failure(render.failure(shown))
    _print_differences(console, validation, state)
    console.note(f"{label}: {validation.note}" if validation.note else "")
    return outcome


def _print_differences(console: Console, validation: Validation, state: Statement) -> None:
    result = state.status.result
    if "validateAgainst" not in validation.manifest["spec"] or result is None or not result.preview:
        return
    writer = row_writer("table", console, result.columns)
    writer.write(result.preview)
    writer.close()
