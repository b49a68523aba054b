"""Reads row groups of results that were written to files: each with one read of the file, and not again for the next page.

A page is often smaller than a row group, and readers go forward, so the last decoded groups are kept. Invariant: what is kept
has a bound, whatever the number and size of the results.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from sparksql.gateway.results.batches import read_batch
from sparksql.gateway.results.collector import Written
from sparksql.gateway.spark.filesystem import HadoopFiles

KEPT_BYTES = 16 << 20  # of decoded groups together; the last one is kept whatever its size


@dataclass(frozen=True)
class RowGroup:
    """Describes a row group of a spilled result.

    `first` is the number of its first row in the whole result; `start` and `end` are the range of its bytes in the
    file.
    """

    file: str
    index: int
    first: int
    rows: int
    start: int
    end: int
    metadata: pq.FileMetaData
    schema: pa.Schema


def index_files(
    files: HadoopFiles, folder: str, written: Written, wanted: int
) -> tuple[tuple[RowGroup, ...], int, int]:
    """Returns the row groups of a written result, how many rows they have, and their bytes.

    Files are read until more than `wanted` rows are found.
    """
    groups: list[RowGroup] = []
    total = size = 0
    for uri in files.parts(folder):
        with files.open(uri) as source:
            parquet = pq.ParquetFile(pa.PythonFile(source, mode="r"))
            metadata, last = parquet.metadata, parquet.num_row_groups - 1
            for index in range(parquet.num_row_groups):
                group = metadata.row_group(index)
                rows = group.num_rows * written.batch_rows
                if index == last:
                    rows += _batches(parquet, index, written.schema)[-1].num_rows - written.batch_rows
                groups.append(RowGroup(uri, index, total, rows, *_extent(group), metadata, written.schema))
                total += rows
                size += group.total_byte_size
        if total > wanted:
            break
    return tuple(groups), total, size


def _batches(parquet: pq.ParquetFile, group: int, schema: pa.Schema) -> list[pa.RecordBatch]:
    (column,) = parquet.read_row_group(group, use_threads=False).columns
    return [read_batch(value, schema) for value in column.to_pylist()]


class RowGroups:
    """Decoded row groups. Safe to use from several threads."""

    def __init__(self, files: HadoopFiles) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], pa.Table] = OrderedDict()
        self._bytes = 0

    def read(self, group: RowGroup) -> pa.Table:
        """Returns all rows of a group. Raises what the file system raises."""
        key = (group.file, group.index)
        with self._lock:
            table = self._kept.get(key)
            if table is not None:
                self._kept.move_to_end(key)
                return table
        with self._files.open(group.file) as source:
            source.prefetch(group.start, group.end)
            parquet = pq.ParquetFile(pa.PythonFile(source, mode="r"), metadata=group.metadata)
            table = pa.Table.from_batches(_batches(parquet, group.index, group.schema), group.schema)
        if table.num_rows != group.rows:
            raise ValueError(
                f"row group {group.index} of {group.file} has {table.num_rows} rows, {group.rows} were written"
            )
        self._keep(key, table)
        return table

    def _keep(self, key: tuple[str, int], table: pa.Table) -> None:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = table
                self._bytes += table.nbytes
            while self._bytes > KEPT_BYTES and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes


def _extent(group: pq.RowGroupMetaData) -> tuple[int, int]:
    """Where a row group's bytes begin and end in its file."""
    starts, ends = [], []
    for index in range(group.num_columns):
        column = group.column(index)
        start = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
        starts.append(start)
        ends.append(start + column.total_compressed_size)
    return min(starts, default=0), max(ends, default=0)
