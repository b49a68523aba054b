"""Runs a command against an instance of local mode: with controllers and drivers for statements, else on its objects."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from sparksql.api.names import GROUP
from sparksql.cli import commands
from sparksql.cli.commands import AdHoc, Manifests
from sparksql.cli.console import Console
from sparksql.cli.describe import describe
from sparksql.cli.errors import CliError, Exit
from sparksql.cli.local import LocalKubectl, documents, files_of, local_forward, resource_of
from sparksql.cli.objects import STATEMENT_KIND
from sparksql.cli.results import ResultPrinter
from sparksql.kube.errors import ApiError
from sparksql.kube.resources import BY_KIND, SESSIONS
from sparksql.local.defaults import DEFAULT_NAMESPACE, DEFAULT_SESSION, default_session
from sparksql.local.instance import DEFAULT_INSTANCE, Instance, InstanceError
from sparksql.local.objects.database import FormatError
from sparksql.local.pods.processes import StillRunningError
from sparksql.local.runtime import opened, running, until

_WITH_DRIVERS = ("run", "wait")
_DELETE_SECONDS = 5.0

Source = Callable[[argparse.Namespace], AdHoc | Manifests]


async def run_locally(args: argparse.Namespace, console: Console, source: Source) -> Exit:
    """Runs one command. Raises CliError, also for an instance that another process has."""
    os.umask(0o077)  # whatever the instance and its drivers write is its user's alone
    try:
        instance = Instance.of(args.instance or DEFAULT_INSTANCE)
        with opened(instance) as store:
            namespace = args.namespace or DEFAULT_NAMESPACE
            flags = ("--local", f"--instance={instance.name}")
            kubectl = LocalKubectl(flags, namespace, store=store, instance=instance)
            if args.command == "delete":
                return await _delete(args, kubectl, console)
            if args.command not in _WITH_DRIVERS:
                return await _on_objects(args, kubectl, console)
            async with running(store, instance):
                return await _run(args, kubectl, console, source)
    except (InstanceError, FormatError, StillRunningError) as error:
        raise CliError(str(error)) from None


async def _run(args: argparse.Namespace, kubectl: LocalKubectl, console: Console, source: Source) -> Exit:
    if args.command == "wait":
        return await commands.wait(kubectl, console, args.names, args.timeout)
    printer = ResultPrinter(kubectl, console, local_forward, args.output, args.expanded)
    given = _manifests(args, kubectl, console) if _names_manifests(args.file) else source(args)
    if given is None:
        return Exit.FINISHED
    if isinstance(given, AdHoc) and given.options.session is None:
        _make_default_session(kubectl)
        given = replace(given, options=replace(given.options, session=DEFAULT_SESSION))
    return await commands.run(given, printer, wait=args.wait)


def _names_manifests(path: str | None) -> bool:
    return path is not None and path != "-" and (os.path.isdir(path) or path.endswith((".yaml", ".yml", ".json")))


def _manifests(args: argparse.Namespace, kubectl: LocalKubectl, console: Console) -> Manifests | None:
    """Makes the objects of the files that `-f` names and returns its statements; None if it has none.

    Other kinds than ours, Secrets and ConfigMaps are listed and left out.
    """
    statements: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for file in files_of(args.file):
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CliError(f"-f {file}: {error}", Exit.USAGE) from None
        for document in documents(text, str(file)):
            (statements if _is_statement(document) else others).append(document)
    for document in others:
        name = f"{document.get('kind')}/{(document.get('metadata') or {}).get('name')}"
        if _is_known(document):
            console.note(f"{name} {kubectl.apply_one(document)}")
        else:
            console.note(f"{name} skipped: local mode has no objects of this kind")
    if not statements:
        return None
    return Manifests("\n---\n".join(map(json.dumps, statements)))


def _is_statement(document: dict[str, Any]) -> bool:
    return document.get("kind") == STATEMENT_KIND and str(document.get("apiVersion", "")).startswith(f"{GROUP}/")


def _is_known(document: dict[str, Any]) -> bool:
    kind, version = document.get("kind"), document.get("apiVersion")
    resource = BY_KIND.get(str(kind))
    is_ours = resource is not None and resource.group == GROUP
    return resource is not None and resource.api_version == version and (is_ours or kind in ("Secret", "ConfigMap"))


def _make_default_session(kubectl: LocalKubectl) -> None:
    namespace = kubectl.namespace or DEFAULT_NAMESPACE
    if not kubectl.store.list(SESSIONS, namespace, field_selector=f"metadata.name={DEFAULT_SESSION}").items:
        kubectl.create_one(default_session(namespace))


def _on_objects(args: argparse.Namespace, kubectl: LocalKubectl, console: Console) -> Coroutine[Any, Any, Exit]:
    match args.command:
        case "results":
            printer = ResultPrinter(kubectl, console, local_forward, args.output, args.expanded)
            return commands.results(printer, args.name)
        case "describe":
            return describe(kubectl, console, args.session or args.name, is_session=args.session is not None)
        case "logs":
            return commands.logs(kubectl, console, args.name, args.session, follow=args.follow)
        case "status":
            return commands.status(kubectl, console, local_forward, args.session, args.output)
        case "get":
            return _get(args, kubectl, console)
        case other:
            raise CliError(f"{other}: local mode does not have this command", Exit.USAGE)


async def _get(args: argparse.Namespace, kubectl: LocalKubectl, console: Console) -> Exit:
    """Prints objects as JSON, or the names of all of a resource."""
    if args.name is not None:
        console.print(json.dumps(await kubectl.get(args.resource, args.name), indent=2, ensure_ascii=False))
        return Exit.FINISHED
    for obj in await kubectl.list(args.resource):
        status = obj.get("status") or {}
        console.print(f"{obj['metadata']['name']} {status.get('phase', '')}".rstrip())
    return Exit.FINISHED


async def _delete(args: argparse.Namespace, kubectl: LocalKubectl, console: Console) -> Exit:
    """Deletes an object and waits for the controllers to let it go.

    An object that needs its driver for the deletion is deleted by the next command with drivers; a note reports it.
    """
    resource, namespace = resource_of(args.resource), kubectl.namespace or DEFAULT_NAMESPACE
    try:
        kubectl.store.delete(resource, namespace, args.name)
    except ApiError as error:
        raise CliError(f"Error from server ({error.reason}): {error.message}") from None
    async with running(kubectl.store, kubectl.instance, pods=False):
        selector = f"metadata.name={args.name}"
        is_gone = await until(
            kubectl.store,
            lambda: not kubectl.store.list(resource, namespace, field_selector=selector).items,
            _DELETE_SECONDS,
        )
    if is_gone:
        console.print(f"{resource.plural}/{args.name} deleted")
        return Exit.FINISHED
    console.note(f"{resource.plural}/{args.name} is marked as deleted: it goes with the next run")
    return Exit.FINISHED
