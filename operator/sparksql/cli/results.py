"""Prints the result of a finished statement: all of its rows from the gateway, else the preview and what is missing."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass

from sparksql.cli import render
from sparksql.cli.cells import is_plain
from sparksql.cli.console import Console, RowWriter, row_writer
from sparksql.cli.errors import CliError, Exit
from sparksql.cli.gateway import Forward, UnavailableError, earlier_result, result_pages, statement_gateway
from sparksql.cli.kubectl import Kubectl
from sparksql.cli.objects import Statement
from sparksql.wire.control import ResultSummary

_CUT = "…"  # ends a cell that status holds only the beginning of


@dataclass(frozen=True)
class ResultPrinter:
    """`output` is table, csv or json; `forward` opens the way to a pod's gateway; `is_expanded` is `TableWriter`'s."""

    kubectl: Kubectl
    console: Console
    forward: Forward
    output: str
    is_expanded: bool | None = None

    async def print(self, statement: Statement) -> bool:
        """Prints the rows; whether these were all that are kept. CliError if the rows break off half-way.

        How many were fetched is shown meanwhile, unless the rows themselves go to the terminal.
        """
        result = statement.status.result or ResultSummary()
        because = ""
        left_out = await self._print_earlier(statement, result.earlier_results or 0)
        if says_all(result):
            self._print_preview(result)
            shown = result.row_count
        else:
            try:
                shown = await self._print_pages(statement, result)
            except UnavailableError as error:
                because = str(error)
                shown = self._print_preview(result)
        self.console.note(render.cut_note(result, shown, because))
        self.console.note(left_out)
        if self.console.live:
            self.console.note(render.footer(statement, shown))
        return shown >= result.row_count

    async def _print_earlier(self, statement: Statement, count: int) -> str:
        """Prints the results of a script before the last one as tables, with a blank line behind each.

        Returns a note of those that were not printed.
        """
        if not count:
            return ""
        if self.output != "table":
            return f"{render.earlier_note(count)}; -o table prints them"
        try:
            async with statement_gateway(self.kubectl, statement, self.forward) as gateway:
                for number in range(count):
                    page = await earlier_result(gateway, statement, number)
                    writer = row_writer(self.output, self.console, page.columns, self.is_expanded)
                    writer.write(page.rows)
                    writer.close()
                    self.console.write("\n")
                    if page.truncated:
                        self.console.note(f"Result {number + 1} has more rows; the first {len(page.rows)} are stored")
        except UnavailableError as error:
            return f"{render.earlier_note(count)}: {error}"
        return ""

    def _print_preview(self, result: ResultSummary) -> int:
        writer = row_writer(self.output, self.console, result.columns, self.is_expanded)
        writer.write(result.preview)
        writer.close()
        return len(result.preview)

    async def _print_pages(self, statement: Statement, result: ResultSummary) -> int:
        writer: RowWriter | None = None
        shown = 0
        async with statement_gateway(self.kubectl, statement, self.forward) as gateway:
            try:
                async with aclosing(result_pages(gateway, statement)) as pages:
                    async for rows in pages:
                        writer = writer or row_writer(self.output, self.console, result.columns, self.is_expanded)
                        writer.write(rows)
                        shown += len(rows)
                        if self.output == "table" or not self.console.out.isatty():
                            self.console.progress(render.fetched(result, shown))
            except UnavailableError as error:
                if writer is None:
                    raise
                writer.close()
                raise CliError(f"The rows broke off after {shown}: {error}", Exit.INCOMPLETE) from error
        if writer is not None:
            writer.close()
        return shown


def says_all(result: ResultSummary) -> bool:
    """Tells whether the preview is the whole result, so that no way to the gateway is needed."""
    if result.row_count == 0 or not result.columns:
        return True
    whole = len(result.preview) == result.row_count and all(is_plain(column.type) for column in result.columns)
    return whole and not any(cell is not None and cell.endswith(_CUT) for row in result.preview for cell in row)
