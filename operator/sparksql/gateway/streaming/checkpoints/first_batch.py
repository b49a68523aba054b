"""The first batch of a checkpoint: what a driver leaves that dies while it writes down what the batch is to read."""

from __future__ import annotations

from sparksql.gateway.spark.filesystem import HadoopFiles


def remove_unfinished(files: HadoopFiles, checkpoint: str) -> None:
    """Empties a log of offsets that has no batch yet. Must be called while the checkpoint is leased.

    A batch is a file named by its number; Spark writes it under another name and renames it when it is whole. Spark refuses
    to begin batch 0 beside what such a write leaves, for ever (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY of Spark 4.1); beside a
    batch it takes no notice of that.
    """
    found = files.children(f"{checkpoint}/offsets")
    if not any(uri.rpartition("/")[2].isdecimal() for uri in found):
        for uri in found:
            files.delete(uri)
