"""What a checkpoint must still have when its query goes on: its query's id, and the last batch that was reported as committed.

Spark starts a query without `metadata` as a new one, and one without `commits` or `offsets` at batch 0; with older `offsets` it
begins where these end. Rows would be read again, or left out by a sink that knows the numbers of batches.
"""

from __future__ import annotations

from collections.abc import Collection

from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.streaming.checkpoints.batch_files import last_committed
from sparksql.gateway.streaming.checkpoints.claims import query_id_in
from sparksql.wire.control import CheckpointContent, ErrorReason

_REMEDY = (
    "Put its files back and set spec.desiredState to Stopped and then to Running. To start from another state, "
    "set spec.streaming.startFrom to a savepoint and change restoreNonce; to start without state, change spec.runNonce"
)


def check_content(files: HadoopFiles, checkpoint: str, known: CheckpointContent, *, may_be_behind: bool) -> None:
    """Raises StatementError, reason CheckpointLost, when a checkpoint is not the known one or is behind it.

    `may_be_behind`: its query does not wait for the files of its batches, so a batch that was reported may have no file.
    """
    metadata = files.read_text(f"{checkpoint}/metadata")
    found = query_id_in(metadata)
    if metadata is None:
        raise _lost(checkpoint, "its file metadata is not there")
    if found != known.query_id:
        raise _lost(checkpoint, f"it is of the query {found}, not of {known.query_id}")
    batch = last_committed(f"commits/{name}" for name in _names(files, f"{checkpoint}/commits"))
    if not may_be_behind and (batch is None or batch < known.committed_batch_id):
        last = "no committed batch" if batch is None else f"batch {batch} as its last committed one"
        raise _lost(checkpoint, f"it has {last}, and batch {known.committed_batch_id} was committed")
    if batch is not None and str(batch) not in _names(files, f"{checkpoint}/offsets"):
        raise _lost(
            checkpoint, f"batch {batch} was committed, and the file offsets/{batch} of what it has read is not there"
        )


def check_log_of_files(checkpoint: str, source: str, names: Collection[str], last: int) -> None:
    """Raises StatementError, reason CheckpointLost, when a file source's log does not have what was read up to offset `last`.

    `names` are the files of the log. Spark writes one for each offset; a compact one has all that came before as well.
    """
    compact = (int(number) for number in map(_compacted, names) if number.isdecimal())
    if last >= 0 and str(last) not in names and max(compact, default=-1) < last:
        raise _lost(checkpoint, f"the files that it has read of the source {source} are not in its folder sources")


def _compacted(name: str) -> str:
    return name.removesuffix(".compact") if name.endswith(".compact") else ""


def _names(files: HadoopFiles, folder: str) -> set[str]:
    return {uri.rpartition("/")[2] for uri in files.children(folder)}


def _lost(checkpoint: str, why: str) -> Exception:
    message = f"the checkpoint {checkpoint} is not the one that this query has written: {why}. The query was not started: it would "
    return refusal(ErrorReason.CHECKPOINT_LOST, f"{message}write rows again or leave rows out. {_REMEDY}")
