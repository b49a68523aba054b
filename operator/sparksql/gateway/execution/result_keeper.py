"""Keeps the rows of a statement: in memory, or in files where they are too many.

The first `maxRows` rows are kept. Names of columns are masked: Spark makes them of a statement's literals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sparksql.gateway.execution.scope import Scope
from sparksql.gateway.operations.operation import Operation
from sparksql.gateway.results.collector import COLLECT_ROWS, ResultShape
from sparksql.gateway.results.parquet import index_files
from sparksql.gateway.results.store import EMPTY, ResultStore, StoredResult
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.scala import option, simple_name
from sparksql.gateway.spark.shapes import Dataset
from sparksql.gateway.sql.classifier import Statement
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.sql.masking import Masker
from sparksql.gateway.streaming.preview import Start, previewed
from sparksql.wire.control import MAX_RESULT_ROWS, Column, ErrorReason

# What Spark may report of a write, as metrics of the command; shown in this order under these names.
WRITE_METRICS = (
    ("numOutputRows", "num_output_rows"),
    ("numTargetRowsInserted", "num_inserted_rows"),
    ("numTargetRowsUpdated", "num_updated_rows"),
    ("numTargetRowsDeleted", "num_deleted_rows"),
    ("numOutputBytes", "num_output_bytes"),
    ("numFiles", "num_files"),
)


class ResultKeeper:
    """Makes a StoredResult of what a statement has given. Files go below `root`, a folder of each operation's own."""

    def __init__(self, driver: SparkDriver, store: ResultStore, files: HadoopFiles, root: str) -> None:
        self._driver = driver
        self._store = store
        self._files = files
        self._root = root.rstrip("/")

    def retold(self, result: StoredResult, tell: Callable[[str], str], *, has_secrets: bool) -> StoredResult:
        """Returns the rows of an EXPLAIN as `tell` tells each text; a plan holds the statement's literals.

        Raises StatementError, and discards the rows, for a plan with secrets that is too large for memory.
        """
        if result.table is not None:
            return replace(result, table=_retold(result.table, tell))
        if has_secrets:
            self._store.discard(result)
            raise refusal(ErrorReason.RESULT_TOO_LARGE, "the plan is too large to be shown without its secrets")
        return result

    def keep_stream(
        self, scope: Scope, statement: Statement, frame: Dataset, start: Start | None = None
    ) -> StoredResult:
        """Keeps the first rows that a streaming query gives, from `start` on; they are shown as they come."""
        operation = scope.operation
        rows = _wanted_rows(operation) + 1
        folder = f"{self._root}/{operation.operation_id}-preview"

        def show(so_far: Any, count: int) -> None:
            operation.so_far = self._so_far(scope, so_far, count)

        with previewed(
            self._driver, self._files, operation, statement.fragment, frame, rows, folder, show, start
        ) as found:
            kept = self.keep(scope, found.frame)
            return replace(kept, truncated=kept.truncated or found.is_cut)

    def _so_far(self, scope: Scope, frame: Dataset, count: int) -> StoredResult:
        """What status shows of `count` rows that have come: the first ones, none if they are too wide for memory."""
        collector, wish = scope.collector, scope.operation.request.result
        shape = collector.shape(frame)
        first = collector.presentable(frame, shape) if shape.as_text else frame
        table = collector.collect(first, max(0, min(wish.max_rows, wish.preview_rows))).table
        return StoredResult(
            columns=_masked_columns(shape.columns, scope.operation.classified.masker),
            row_count=min(count, wish.max_rows),
            truncated=True,
            bytes=0 if table is None else table.nbytes,
            time_zone=shape.time_zone,
            table=table,
        )

    def masked_columns(self, scope: Scope, shape: ResultShape) -> tuple[Column, ...]:
        """Returns the columns of a result as they are shown."""
        return _masked_columns(shape.columns, scope.operation.classified.masker)

    def keep(self, scope: Scope, frame: Dataset, part: str = "") -> StoredResult:
        """Keeps the first `maxRows` rows of a Dataset, in memory or in files; `part` tells the results of one operation apart."""
        collector, operation = scope.collector, scope.operation
        wanted = _wanted_rows(operation)
        shape = collector.shape(frame)
        if shape.as_text:
            frame = collector.presentable(frame, shape)
        columns = self.masked_columns(scope, shape)
        whole = wanted <= COLLECT_ROWS or collector.is_small(frame)
        if not whole:
            frame = collector.over_its_rows(frame)
        bound = wanted if whole else COLLECT_ROWS
        collected = collector.collect(frame, bound + 1)
        table = collected.table
        complete = whole or collected.row_count <= bound
        if complete and table is not None and self._store.has_room(table.nbytes):
            return StoredResult(
                columns=columns,
                row_count=min(collected.row_count, wanted),
                truncated=collected.row_count > wanted,
                bytes=table.nbytes,
                time_zone=shape.time_zone,
                table=table.slice(0, wanted),
            )
        frame = collected.as_frame() if complete else collector.limited_per_partition(frame, wanted + 1)
        operation.check()
        if not shape.as_text:
            frame = collector.presentable(frame, shape)
        spilled = self._spill(scope, frame, wanted, collected.row_bytes, part)
        return replace(spilled, columns=columns, time_zone=shape.time_zone)

    def _spill(self, scope: Scope, frame: Dataset, wanted: int, row_bytes: int, part: str) -> StoredResult:
        folder = f"{self._root}/{scope.operation.operation_id}{part}"
        try:
            written = scope.collector.write(frame, folder, row_bytes)
            groups, total, size = index_files(self._files, folder, written, wanted)
            if not groups and not self._files.parts(folder):
                message = f"the executors' result files are not visible to the driver below {self._root}"
                raise refusal(ErrorReason.RESULT_TOO_LARGE, message)
        except BaseException:
            self._files.delete(folder)
            raise
        return StoredResult(
            columns=(), row_count=min(total, wanted), truncated=total > wanted, bytes=size, groups=groups, folder=folder
        )

    def of_table(self, scope: Scope, columns: tuple[Column, ...], table: pa.Table) -> StoredResult:
        """Keeps the first `maxRows` rows that were made here. Raises StatementError if they are too many for memory."""
        if not self._store.has_room(table.nbytes):
            raise refusal(ErrorReason.RESULT_TOO_LARGE, "the answer is too large for memory: give a narrower pattern")
        wanted = _wanted_rows(scope.operation)
        return StoredResult(
            columns=columns,
            row_count=min(table.num_rows, wanted),
            truncated=table.num_rows > wanted,
            bytes=table.nbytes,
            table=table.slice(0, wanted),
        )

    def written(self, frame: Dataset) -> StoredResult:
        """Returns one row of what Spark reports of a write; no row when it reports nothing."""
        plan = frame.logicalPlan()
        if simple_name(plan) != "CommandResult":
            return EMPTY
        metrics = plan.commandPhysicalPlan().metrics()
        found: list[tuple[str, int]] = []
        for metric, name in WRITE_METRICS:
            value = option(metrics.get(metric))
            if value is not None:
                found.append((name, int(value.value())))
        if not found:
            return EMPTY
        table = pa.table({name: [value] for name, value in found})
        columns = tuple(Column(name=name, type="bigint") for name, _ in found)
        return StoredResult(columns=columns, row_count=1, truncated=False, bytes=table.nbytes, table=table)


def _wanted_rows(operation: Operation) -> int:
    return min(max(0, operation.request.result.max_rows), MAX_RESULT_ROWS)


def _masked_columns(columns: tuple[Column, ...], masker: Masker) -> tuple[Column, ...]:
    return tuple(column.model_copy(update={"name": masker.mask(column.name)}) for column in columns)


def masked(result: StoredResult, masker: Masker) -> StoredResult:
    """Returns a result with its columns' names masked."""
    return replace(result, columns=_masked_columns(result.columns, masker))


def _retold(table: pa.Table, tell: Callable[[str], str]) -> pa.Table:
    columns = [[tell(str(value)) for value in column.to_pylist()] for column in table.columns]
    return pa.Table.from_arrays([pa.array(column, pa.string()) for column in columns], names=table.column_names)
