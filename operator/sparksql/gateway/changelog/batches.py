"""What a batch of joined changes does to their table: the rows that are more after it than before, and those that are fewer."""

from __future__ import annotations

from typing import Any

from sparksql.gateway.changelog.relations import DELETED, ORDER, WEIGHT
from sparksql.gateway.spark.shapes import Dataset, Jvm

_MANY = (
    "a batch of a join of changelogs has a row more than once: each change must come once, and the option 'key.columns' of "
    "both tables must tell their rows apart"
)


def takes_back(batch: Dataset) -> bool:
    """Returns whether rows of a batch tell that others are gone."""
    columns = [str(name) for name in batch.columns()]
    return WEIGHT in columns or DELETED in columns


def netted(jvm: Jvm, batch: Dataset) -> Any:
    """Returns a batch with what comes and goes of equal rows set off; itself if it has no weights.

    Of the rows of one key at most one comes and one goes, whatever the order of the changes was: the one that comes wins.
    """
    columns = [str(name) for name in batch.columns()]
    if WEIGHT not in columns:
        return batch
    functions, to_seq = jvm.org.apache.spark.sql.functions, jvm.PythonUtils.toSeq
    shown = [functions.col("`" + name.replace("`", "``") + "`") for name in columns if name != WEIGHT]
    sums = batch.groupBy(to_seq(shown)).agg(functions.expr(f"sum({WEIGHT})").alias(WEIGHT), to_seq([]))
    once = f'CASE WHEN abs({WEIGHT}) = 1 THEN {WEIGHT} ELSE raise_error("{_MANY}") END'
    changed = sums.where(f"{WEIGHT} <> 0").withColumn(ORDER, functions.expr(once))
    return changed.withColumn(DELETED, functions.expr(f"{ORDER} < 0")).drop(WEIGHT)
