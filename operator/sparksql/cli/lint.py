"""`lint`: the flags, what the files are compared with, and the exit code. The checks are in `sparksql.lint`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from sparksql.api.crd import KINDS
from sparksql.api.names import GROUP
from sparksql.api.session_class import SqlSessionClass
from sparksql.cli.errors import CliError, Exit
from sparksql.cli.kubectl import Kubectl
from sparksql.lint.baseline import Baseline, of_cluster
from sparksql.lint.command import Format, Loaded, WrongNameError, external, load, rendered, run
from sparksql.lint.files import UnusableFileError
from sparksql.lint.revision import UnknownRevisionError
from sparksql.lint.revision import baseline as of_revision


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds what `lint` takes."""
    parser.add_argument(
        "paths", nargs="+", metavar="FILE|DIR", help="manifests, and folders with .yaml, .yml and .json files"
    )
    parser.add_argument("--against", metavar="REVISION|cluster", help="compare immutable fields with a git revision, or with the "
                        "live objects; what is objects there may be referenced")  # fmt: skip
    parser.add_argument("--external", type=_external, action="append", default=[], metavar="KIND/NAME",
                        help="a session, statement or savepoint that exists elsewhere and may be referenced")  # fmt: skip
    parser.add_argument("--format", choices=[each.value for each in Format], default=Format.TEXT.value,
                        help="format of the report (default: text)")  # fmt: skip


def _external(text: str) -> tuple[str, str]:
    try:
        return external(text)
    except WrongNameError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


async def lint(args: argparse.Namespace, kubectl: Kubectl) -> Exit:
    """Prints the report.

    Raises CliError, of usage, for a file, a revision or a cluster that cannot be read: then there is no report.
    """
    try:
        loaded = load(args.paths)
        baseline = await _baseline(args, kubectl, loaded)
    except (UnusableFileError, UnknownRevisionError, CliError) as error:
        raise CliError(str(error), Exit.USAGE) from None
    report = run(loaded, baseline, frozenset(args.external))
    sys.stdout.write(rendered(report, Format(args.format)))
    for note in report.notes:
        print(f"note: {note}", file=sys.stderr)
    return Exit.ERROR if report.findings else Exit.FINISHED


async def _baseline(args: argparse.Namespace, kubectl: Kubectl, loaded: Loaded) -> Baseline:
    match args.against:
        case None:
            return Baseline()
        case "cluster":
            return of_cluster(await _live(kubectl, loaded))
        case revision:
            return of_revision(revision, args.paths)


async def _live(kubectl: Kubectl, loaded: Loaded) -> list[tuple[str | None, dict[str, Any]]]:
    """The objects of the namespaces that the files name; of the context's where a file names none."""
    namespaced = ",".join(f"{kind.PLURAL}.{GROUP}" for kind in KINDS if kind.NAMESPACED)
    objects: list[tuple[str | None, dict[str, Any]]] = []
    for namespace in loaded.namespaces:
        objects += [(namespace, each) for each in await kubectl.list(namespaced, namespace)]
    if loaded.has_classes:
        objects += [(None, each) for each in await kubectl.list(f"{SqlSessionClass.PLURAL}.{GROUP}")]
    return objects
