"""What a streaming query would give now: it reads what is there, into memory, with a checkpoint that is thrown away."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException

from sparksql.gateway.attempt import Attempt
from sparksql.gateway.files import HadoopFiles
from sparksql.gateway.streaming.stopping import bound_rounds, stop

_POLL_MILLIS = 200
# An aggregation shows its state so far in complete mode; Spark refuses that mode for a query without one.
_MODES = ("complete", "append")


@contextmanager
def previewed(jvm: Any, files: HadoopFiles, attempt: Attempt, frame: Any, rows: int, folder: str) -> Iterator[Any]:
    """A Dataset of the first `rows` rows of a streaming Dataset, while the context lasts. `folder` is made and removed.

    Raises Cancelled, or what Spark throws.
    """
    view = f"__sparksql_preview_{uuid.uuid4().hex}"
    bound_rounds(frame.sparkSession())
    query = _start(jvm, frame.limit(rows), view, folder)
    try:
        while not query.awaitTermination(_POLL_MILLIS):
            attempt.check()
        yield frame.sparkSession().table(view)
    finally:
        stop(query, at_once=True)
        frame.sparkSession().catalog().dropTempView(view)
        files.delete(folder)


def _start(jvm: Any, frame: Any, view: str, folder: str) -> Any:
    for mode in _MODES:
        writer = frame.writeStream().format("memory").queryName(view).outputMode(mode)
        writer = writer.option("checkpointLocation", f"{folder}/{mode}")
        try:
            return writer.trigger(jvm.org.apache.spark.sql.streaming.Trigger.AvailableNow()).start()
        except AnalysisException:
            if mode == _MODES[-1]:
                raise
    raise AssertionError("there is a last mode")
