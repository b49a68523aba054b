"""Standard output for data, standard error for everything said about it; a live line only on a terminal.

Nothing but results, names and status rows is ever written to standard output, so that it can be piped.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Protocol, TextIO

from sparksql.cli import render
from sparksql.cli.cells import cell_text, printable
from sparksql.cli.render import Row
from sparksql.wire.control import Column

_RED, _PLAIN, _CLEAR = "\x1b[31m", "\x1b[0m", "\r\x1b[2K"


class Console:
    """The two streams; colour and the live line only where they are terminals (and colour not with NO_COLOR set)."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.live = self.err.isatty()
        self._colour = self.live and not os.environ.get("NO_COLOR")
        self._line_shown = False

    def print(self, text: str) -> None:
        """Writes one line of data."""
        self.clear()
        self.out.write((printable(text) if self.out.isatty() else text) + "\n")
        self.out.flush()

    def write(self, text: str) -> None:
        """Rendered text of several lines, whose cells are printable already."""
        self.clear()
        self.out.write(text)
        self.out.flush()

    def note(self, text: str) -> None:
        """Something about the data; nothing for an empty text."""
        if text:
            self.clear()
            self.err.write(printable(text.rstrip("\n"), keep="\n\t") + "\n")
            self.err.flush()

    def failure(self, text: str) -> None:
        """Says why something ended badly: like a note, its first line in red."""
        title, _, rest = printable(text.rstrip("\n"), keep="\n\t").partition("\n")
        self.clear()
        self.err.write((f"{_RED}{title}{_PLAIN}" if self._colour else title) + "\n" + (rest and rest + "\n"))
        self.err.flush()

    def progress(self, line: str) -> None:
        """Replaces the live line."""
        if self.live:
            self.err.write(_CLEAR + printable(line))
            self.err.flush()
            self._line_shown = True

    def clear(self) -> None:
        """Takes the live line away."""
        if self._line_shown:
            self.err.write(_CLEAR)
            self.err.flush()
            self._line_shown = False


class RowWriter(Protocol):
    """Writes a result to a console, page by page; `close` ends it."""

    def write(self, rows: Sequence[Row]) -> None:
        """Takes in the rows of the next page."""

    def close(self) -> None:
        """Ends the result: no page follows."""


class TableWriter:
    """Keeps all rows until the end: the widths of the columns depend on all of them.

    `is_expanded` writes a record for each row; None does so where the table is wider than the terminal.
    """

    def __init__(self, console: Console, columns: Sequence[Column], is_expanded: bool | None = None) -> None:
        self._console, self._columns, self._is_expanded = console, columns, is_expanded
        self._rows: list[Row] = []

    def write(self, rows: Sequence[Row]) -> None:
        """Keeps the rows of a page."""
        self._rows += rows

    def close(self) -> None:
        """Writes the table, or the records."""
        self._console.write(self._text())

    def _text(self) -> str:
        if self._is_expanded:
            return render.expanded(self._columns, self._rows)
        table = render.table(self._columns, self._rows)
        may_expand = self._is_expanded is None and len(self._columns) > 1 and self._console.out.isatty()
        if may_expand and not render.fits(table, shutil.get_terminal_size().columns):
            return render.expanded(self._columns, self._rows)
        return table


class CsvWriter:
    """A header and one record a row. Cells are as they are, unless a terminal shows them."""

    def __init__(self, console: Console, columns: Sequence[Column]) -> None:
        self._out = console.out
        self._safe = console.out.isatty()
        console.clear()
        if columns:
            self._record([column.name for column in columns])

    def _record(self, values: Sequence[str | None]) -> None:
        safe = [printable(value) if value else value for value in values] if self._safe else values
        self._out.write(render.csv_line(safe))

    def write(self, rows: Sequence[Row]) -> None:
        """Writes one record for each row."""
        for row in rows:
            self._record([cell_text(value) for value in row])

    def close(self) -> None:
        """Flushes the output."""
        self._out.flush()


class JsonWriter:
    """An array of objects, one row a line. Cells are as they are, unless a terminal shows them."""

    def __init__(self, console: Console, columns: Sequence[Column]) -> None:
        self._out = console.out
        self._safe = console.out.isatty()
        self._columns, self._names = columns, render.json_names(columns)
        self._before = "\n"
        console.clear()
        self._out.write("[")

    def write(self, rows: Sequence[Row]) -> None:
        """Writes one object for each row."""
        for row in rows:
            self._out.write(self._before + render.json_row(self._names, self._columns, row, printable=self._safe))
            self._before = ",\n"

    def close(self) -> None:
        """Closes the array, and flushes the output."""
        self._out.write("]\n" if self._before == "\n" else "\n]\n")
        self._out.flush()


def row_writer(output: str, console: Console, columns: Sequence[Column], is_expanded: bool | None = None) -> RowWriter:
    """Returns the writer for `-o`: table (see `TableWriter` for `is_expanded`), csv or json."""
    match output:
        case "csv":
            return CsvWriter(console, columns)
        case "json":
            return JsonWriter(console, columns)
        case _:
            return TableWriter(console, columns, is_expanded)
