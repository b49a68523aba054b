"""Entry point of `kubectl sparksql`: arguments in, exit code out.

kubectl runs the executable `kubectl-sparksql` with everything after the plugin's name, so the flags `--namespace`,
`--context` and `--kubeconfig` stand after it, before or after the command.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from sparksql.api.execution import StatementMode
from sparksql.cli import commands
from sparksql.cli.clients import cancel_operation
from sparksql.cli.config import config
from sparksql.cli.connect import Wish, connect
from sparksql.cli.console import Console
from sparksql.cli.describe import describe
from sparksql.cli.errors import CliError, Exit
from sparksql.cli.gateway import Forward, port_forward
from sparksql.cli.kubectl import Kubectl
from sparksql.cli.lint import add_flags as add_lint_flags
from sparksql.cli.lint import lint
from sparksql.cli.manifest import RunOptions, check_size, is_manifest, parse_parameter
from sparksql.cli.parser import Parser
from sparksql.cli.results import ResultPrinter
from sparksql.cli.validate import DEFAULT_SECONDS, Request, validate
from sparksql.wire.control import ClientProtocol
from sparksql.wire.model import BYTE_ORDER_MARK

OUTPUTS = ("table", "csv", "json")
_AD_HOC_FLAGS = ("session", "parameters", "mode", "name", "timeout", "max_rows", "keep")


_SECONDS = {"s": 1, "m": 60, "h": 3600}


def _duration(text: str) -> int:
    """Returns the seconds of `90`, `90s`, `5m` or `1h`."""
    parts = re.fullmatch(r"(\d+)([smh]?)", text, re.ASCII)
    seconds = 0 if parts is None else int(parts[1]) * _SECONDS[parts[2] or "s"]
    if seconds < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a duration: write a positive number of seconds, or 90s, 5m, 1h"
        )
    return seconds


def _mode(text: str) -> str:
    """Returns the mode of this name in any case, the text itself if there is none."""
    return next((mode.value for mode in StatementMode if mode.value.lower() == text.lower()), text)


def _global_flags(default: Any) -> Parser:
    parser = Parser(add_help=False, argument_default=default)
    parser.add_argument("-n", "--namespace", help="namespace instead of the context's")
    parser.add_argument("--context", help="kubeconfig context")
    parser.add_argument("--kubeconfig", help="kubeconfig file")
    parser.add_argument("--local", action="store_true", help="run on this machine, without a cluster")
    parser.add_argument("--instance", metavar="NAME", help="instance of local mode (default: default)")
    return parser


def _add_output(parser: argparse.ArgumentParser, choices: Sequence[str] = OUTPUTS) -> None:
    parser.add_argument("-o", "--output", choices=choices, default=choices[0], help="format (default: table)")


def _add_expanded(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-x", "--expanded", action=argparse.BooleanOptionalAction,
                        help="a table's rows as records, one line a column (default: if it is wider than the terminal)")  # fmt: skip


def _add_run(parser: argparse.ArgumentParser) -> None:
    text = parser.add_mutually_exclusive_group(required=True)
    text.add_argument("-f", "--file", help="SQL text or SqlStatement manifests (.yaml, .yml, .json); - is stdin")
    text.add_argument("-e", "--sql", help="SQL text")
    parser.add_argument("-s", "--session", help="session to run in; without it a dedicated one of the default class")
    parser.add_argument("-p", "--parameter", dest="parameters", action="append", metavar="NAME=VALUE[:TYPE]",
                        help="value that Spark binds to :NAME, a STRING unless a Spark type is given")  # fmt: skip
    parser.add_argument(
        "--mode", type=_mode, choices=[mode.value for mode in StatementMode], help="in any case (default: Execute)"
    )
    parser.add_argument("--name", help="name of the SqlStatement (default: run- and 8 random digits)")
    parser.add_argument("--timeout", type=_duration, metavar="DURATION",
                        help="end it as TimedOut after so long in the queue, or so long running: 90, 90s, 5m, 1h")  # fmt: skip
    parser.add_argument("--max-rows", type=int, help="rows of the result to store (default: all; 1000 of a preview)")
    parser.add_argument(
        "--keep", action="store_true", default=None, help="keep the SqlStatement (otherwise it is deleted after 1 h)"
    )
    parser.add_argument("--wait", action=argparse.BooleanOptionalAction, default=True,
                        help="follow to the end; --no-wait only prints the name")  # fmt: skip
    _add_output(parser)
    _add_expanded(parser)


def _program() -> str:
    """Returns the name that the user has called: kubectl's plugin, or the program itself."""
    return "sparksql" if Path(sys.argv[0]).name == "sparksql" else "kubectl sparksql"


def build_parser() -> argparse.ArgumentParser:
    """Returns the command line, which ends with 2 on a usage error."""
    parser = Parser(
        prog=_program(), description="Run SQL in Spark sessions on Kubernetes.", parents=[_global_flags(None)]
    )
    commands_of = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add = commands_of.add_parser
    parser.commands = commands_of.choices
    shared = [_global_flags(argparse.SUPPRESS)]
    _add_run(add("run", parents=shared, help="run SQL or SqlStatement manifests and print the results"))

    command = add("validate", parents=shared, help="validate statements in the cluster without running or keeping them")
    command.add_argument(
        "name", nargs="?", metavar="NAME", help="SqlStatement of the cluster, with its own text or that of -f"
    )
    command.add_argument("-f", "--file", help="SqlStatement manifests (.yaml, .yml, .json) or SQL text; - is stdin")
    command.add_argument("-s", "--session", help="session to validate in instead of the manifest's own")
    command.add_argument("--timeout", type=_duration, default=DEFAULT_SECONDS, metavar="DURATION",
                         help="deadline (exit code 3): 90, 5m, 1h (default: 5m)")  # fmt: skip
    command = add("get", parents=shared, help="show objects of an instance of local mode")
    command.add_argument("resource", metavar="RESOURCE")
    command.add_argument("name", nargs="?", metavar="NAME")

    command = add("delete", parents=shared, help="delete an object of an instance of local mode")
    command.add_argument("resource", metavar="RESOURCE")
    command.add_argument("name", metavar="NAME")

    command = add("wait", parents=shared, help="wait for statements to end")
    command.add_argument("names", nargs="+", metavar="NAME")
    command.add_argument("--timeout", type=_duration, metavar="DURATION", help="give up then (exit code 5): 90, 5m, 1h")

    command = add("results", parents=shared, help="print all rows of a finished statement")
    command.add_argument("name", metavar="NAME")
    _add_output(command)
    _add_expanded(command)

    command = add("describe", parents=shared, help="show a statement or a session, each message once, and its Events")
    one = command.add_mutually_exclusive_group(required=True)
    one.add_argument("name", nargs="?", metavar="NAME")
    one.add_argument("-s", "--session")

    command = add("logs", parents=shared, help="print a driver's log lines about a statement, or all of a session")
    one = command.add_mutually_exclusive_group(required=True)
    one.add_argument("name", nargs="?", metavar="NAME")
    one.add_argument("-s", "--session")
    command.add_argument("-f", "--follow", action="store_true", help="go on with new lines")

    command = add(
        "cancel", parents=shared, help="cancel statements, or a client's statement, and wait until they have ended"
    )
    command.add_argument("names", nargs="*", metavar="NAME")
    command.add_argument("-s", "--session", help="session of the client's statement")
    command.add_argument("--operation", metavar="ID", help="id of a client's statement, as `status SESSION` shows it")
    command.add_argument("--wait", action=argparse.BooleanOptionalAction, default=True)

    command = add("config", parents=shared, help="show a session's configuration and where each value is from")
    command.add_argument("session", metavar="SESSION")
    _add_output(command, ("table", "json"))

    command = add("connect", parents=shared, help="show what a client needs to use a session")
    command.add_argument("session", metavar="SESSION")
    command.add_argument(
        "--protocol",
        "--door",  # its name in earlier versions
        choices=[protocol.value for protocol in ClientProtocol],
        help="only this endpoint (default: all that are on)",
    )
    command.add_argument("--port-forward", action="store_true", help="make it reachable on localhost until interrupted")
    command.add_argument("--direct", action="store_true", help="the session's own address also where there is a front")

    add_lint_flags(add("lint", parents=shared, help="check manifests without a cluster"))

    command = add("status", parents=shared, help="show sessions, statements and clients")
    command.add_argument("session", nargs="?", metavar="SESSION")
    _add_output(command, ("table", "json"))
    return parser


def _read(path: str) -> str:
    """Returns the text of a file, or of standard input for `-`. Raises CliError for one that cannot be read."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise CliError(
            f"-f {path}: {error.strerror}: give a file that you can read, or - for standard input", Exit.USAGE
        ) from None
    except UnicodeDecodeError as error:
        raise CliError(f"-f {path}: {error}: save it as UTF-8", Exit.USAGE) from None
    return text.removeprefix(BYTE_ORDER_MARK)  # editors on Windows write it; neither Spark nor YAML reads it as text


def _source(args: argparse.Namespace) -> commands.AdHoc | commands.Manifests:
    path = args.file
    text = args.sql.removeprefix(BYTE_ORDER_MARK) if path is None else _read(path)
    if path is not None and is_manifest(path, text):
        given = [name for name in _AD_HOC_FLAGS if getattr(args, name) is not None]
        if given:
            raise CliError(f"{', '.join(given)}: set this in the manifest instead", Exit.USAGE)
        return commands.Manifests(text)
    if not text.strip():
        raise CliError("there is no SQL to run", Exit.USAGE)
    check_size(text, "-e" if path is None else f"-f {path}")
    options = RunOptions(
        session=args.session,
        parameters=[parse_parameter(parameter) for parameter in args.parameters or ()],
        mode=StatementMode(args.mode or StatementMode.EXECUTE),
        timeout_seconds=args.timeout,
        max_rows=args.max_rows,
        keep=bool(args.keep),
    )
    return commands.AdHoc(text, options, args.name)


def _request(args: argparse.Namespace) -> Request:
    """Returns what `validate` validates. Raises CliError if there is nothing."""
    if args.name is None and args.file is None:
        raise CliError("validate takes -f FILE, the name of a SqlStatement, or both", Exit.USAGE)
    given: commands.Manifests | str | None = None
    if args.file is not None:
        given = _read(args.file)
        if is_manifest(args.file, given):
            given = commands.Manifests(given, "validate")
        elif not given.strip():
            raise CliError(f"-f {args.file}: there is no SQL to validate", Exit.USAGE)
        else:
            check_size(given, f"-f {args.file}")
    return Request(args.name, args.file, given, args.session, args.timeout)


def _cancel(
    args: argparse.Namespace, kubectl: Kubectl, console: Console, forward: Forward
) -> Coroutine[Any, Any, Exit]:
    if args.names and not args.session and not args.operation:
        return commands.cancel(kubectl, console, args.names, wait=args.wait)
    if args.session and args.operation and not args.names:
        return cancel_operation(kubectl, console, forward, args.session, args.operation, wait=args.wait)
    raise CliError(
        "cancel takes names of SqlStatements, or --session and --operation for a client's statement", Exit.USAGE
    )


def _dispatch(args: argparse.Namespace, console: Console, forward: Forward) -> Coroutine[Any, Any, Exit]:
    if args.local:
        from sparksql.cli.local_commands import (
            run_locally,  # the operator and its packages, which a cluster needs no more
        )

        return run_locally(args, console, _source)
    if args.command in ("get", "delete"):
        raise CliError(f"{args.command} is for --local; on a cluster use kubectl {args.command}", Exit.USAGE)
    flags = [f"--{name}={value}" for name in ("context", "kubeconfig") if (value := getattr(args, name)) is not None]
    kubectl = Kubectl(tuple(flags), args.namespace)
    match args.command:
        case "run":
            printer = ResultPrinter(kubectl, console, forward, args.output, args.expanded)
            return commands.run(_source(args), printer, wait=args.wait)
        case "validate":
            return validate(kubectl, console, _request(args))
        case "wait":
            return commands.wait(kubectl, console, args.names, args.timeout)
        case "results":
            return commands.results(ResultPrinter(kubectl, console, forward, args.output, args.expanded), args.name)
        case "describe":
            return describe(kubectl, console, args.session or args.name, is_session=args.session is not None)
        case "logs":
            return commands.logs(kubectl, console, args.name, args.session, follow=args.follow)
        case "cancel":
            return _cancel(args, kubectl, console, forward)
        case "config":
            return config(kubectl, console, args.session, args.output)
        case "status":
            return commands.status(kubectl, console, forward, args.session, args.output)
        case "lint":
            return lint(args, kubectl)
        case "connect":
            protocol = None if args.protocol is None else ClientProtocol(args.protocol)
            wish = Wish(args.session, protocol, forward=args.port_forward, direct=args.direct)
            return connect(kubectl, console, wish)
        case other:
            raise AssertionError(f"argparse let through {other}")


async def _ended_by_sigterm(command: Coroutine[Any, Any, Exit]) -> Exit:
    """SIGTERM ends the command as SIGINT does, and with it what it has started: no port stays forwarded."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await command


def main(argv: Sequence[str] | None = None, *, forward: Forward = port_forward) -> int:
    """Runs one command. `forward` is how a driver pod's gateway is reached."""
    given = list(sys.argv[1:] if argv is None else argv)
    args = build_parser().parse_args(["--local", *given[1:]] if given[:1] == ["local"] else given)
    console = Console()
    try:
        return asyncio.run(_ended_by_sigterm(_dispatch(args, console, forward)))
    except CliError as error:
        console.failure(str(error))
        return error.code
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.clear()
        return Exit.CANCELED
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.ERROR


if __name__ == "__main__":
    sys.exit(main())
