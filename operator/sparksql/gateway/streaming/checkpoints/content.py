"""What a checkpoint must still have when its query goes on: its query's id, and the last batch that was reported as committed.

Spark starts a query without `metadata` as a new one, and one without `commits` or `offsets` at batch 0; with older `offsets` it
begins where these end. Rows would be read again, or left out by a sink that knows the numbers of batches.
"""

from __future__ import annotations

from collections.abc import Collection

from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.sql.errors import refusal
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
    batch = _last(files, checkpoint, "commits")
    if not may_be_behind and (batch is None or batch < known.committed_batch_id):
        last = "no committed batch" if batch is None else f"batch {batch} as its last committed one"
        raise _lost(checkpoint, f"it has {last}, and batch {known.committed_batch_id} was committed")


def check_logs(files: HadoopFiles, checkpoint: str, *, may_be_behind: bool) -> None:
    """Raises StatementError, reason CheckpointLost, when one of the logs of a checkpoint is older than the other.

    Spark plans no batch before the one before it is committed: at most one planned batch has no commit. It would write that
    one alone, and take those between for committed (MicroBatchExecution.populateStartOffsets of Spark 4.1). `may_be_behind` as
    in `check_content`.
    """
    committed, planned = _last(files, checkpoint, "commits"), _last(files, checkpoint, "offsets")
    if committed is not None and str(committed) not in _names(files, f"{checkpoint}/offsets"):
        missing = f"the file offsets/{committed} of what it has read is not there"
        raise _lost(checkpoint, f"batch {committed} was committed, and {missing}")
    next_batch = 0 if committed is None else committed + 1
    if not may_be_behind and planned is not None and planned > next_batch:
        raise _lost(checkpoint, f"batch {planned} was planned, and batch {next_batch} before it has no file in commits")


def _last(files: HadoopFiles, checkpoint: str, folder: str) -> int | None:
    """The newest batch in one of the two logs of batches."""
    names = (name for name in _names(files, f"{checkpoint}/{folder}") if name.isdecimal())
    return max(map(int, names), default=None)


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
