"""An argument parser whose refusals name the wrong flag and the one that is most likely meant."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_LONG_FLAG = re.compile(r"--[A-Za-z][A-Za-z-]*")


class Parser(argparse.ArgumentParser):
    """Looks at the long flags before argparse does, which would miss what a misspelt one has not given first.

    `commands` are the parsers of its commands, of which each looks at its own flags.
    """

    commands: Mapping[str, argparse.ArgumentParser] = {}

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parses as argparse does, after a look at the flags. Ends with a usage error for one that does not exist."""
        for flag in self._given(args or ()):
            known = [each for each in self._option_string_actions if each.startswith("--")]
            if not any(each.startswith(flag) for each in known):  # argparse takes the beginning of a flag for it
                similar = difflib.get_close_matches(flag, known, n=1)
                remedy = f"did you mean {similar[0]}?" if similar else f"it takes {', '.join(sorted(known))}"
                self.error(f"there is no flag {flag}: {remedy}")
        return super().parse_known_args(args, namespace)

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parses all arguments. Ends with a usage error, of the command itself, for one that is too many."""
        parsed, rest = self.parse_known_args(args, namespace)
        if rest:
            remedy = "" if rest[0].startswith("-") else "; a value that has blanks, such as SQL, needs quotes"
            self.commands.get(parsed.command, self).error(f"too many arguments: {' '.join(rest)}{remedy}")
        return parsed

    def _given(self, args: Sequence[str]) -> Iterator[str]:
        """The long flags among the arguments; of a parser that has commands, those before the command."""
        is_value = False
        for arg in args:
            if arg == "--" or (self.commands and not arg.startswith("-") and not is_value):
                return
            name, equals, _ = arg.partition("=")
            is_value = arg.startswith("-") and not equals
            if _LONG_FLAG.fullmatch(name):
                yield name
