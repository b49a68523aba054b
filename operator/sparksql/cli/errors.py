"""Exit codes of the plugin and the one error type that ends a command with a message instead of a traceback."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Lists the exit codes, by which a shell learns of the outcome; `docs/cli.md` lists the same numbers."""

    FINISHED = 0
    ERROR = 1
    USAGE = 2
    TIMED_OUT = 3
    CLOSED = 4
    INCOMPLETE = 5  # `wait` gave up before the end, or `run` or `results` could not print every row
    CANCELED = 130


class CliError(Exception):
    """Ends the command; the text is for the user and `code` is the process's exit code."""

    def __init__(self, message: str, code: Exit = Exit.ERROR) -> None:
        super().__init__(message)
        self.code = code
