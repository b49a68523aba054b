"""Computes a state anew in a checkpoint of its own, and puts it where the query goes on with it.

The old query has ended. Its last batch says up to where each source was read, and the watermark by which rows were told and
groups closed. So in a folder of its own Spark is given two batches that look planned and not committed: the first one has all
from where the query began up to that place, and no watermark, so that no row of it is late; the second one has no rows and
that watermark, so that it closes what the old query has closed; if that has no watermark over the same columns, it is the one
that the first batch has come to. The state after them then gets the number of the old
query's last batch. With that the query goes on as itself: targets know its batches by its id and their numbers.

What these two batches give goes nowhere where rows are appended: the target has what the old text gave until then. Where rows
are written by key, or the whole result is, it goes to the target, under another query's id, as it is new to it. Doing that
again changes nothing. A mark beside the checkpoint says that it was begun: a text that was changed back meanwhile, and fits the
old state, has its rows written again as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sparksql.api.execution import OutputMode
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.streaming.checkpoints.batch_files import last_committed, moved_state
from sparksql.gateway.streaming.checkpoints.savepoint import SavepointError, Savepoints
from sparksql.wire.control import StreamOptions

_FOLDER = "_rebuilt"  # in the new checkpoint, until its state has its place
_MARK = ".rebuilding"  # beside the new checkpoint, which each attempt begins anew
_CONF = "conf"  # of a file of offsets: the settings that a query keeps (OffsetSeqMetadata of Spark 4.1)
_WATERMARK, _NEXT_WATERMARK = "batchWatermarkMs", "nextBatchWatermarkMs"  # of a file of offsets, of one of commits


@dataclass(frozen=True)
class Place:
    """The batch of an old checkpoint up to which a state is computed: its number, and its file of offsets."""

    batch: int
    offsets: str

    @property
    def watermark(self) -> int:
        """Returns the watermark in milliseconds, 0 without one."""
        return int(json.loads(self.offsets.splitlines()[1])[_WATERMARK])

    def with_watermark(self, millis: int) -> str:
        """Returns the file of offsets with another watermark."""
        return _with_metadata(self.offsets, lambda metadata: {**metadata, _WATERMARK: millis})


def _with_metadata(offsets: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> str:
    version, metadata, *sources = offsets.splitlines()
    return "\n".join([version, json.dumps(change(json.loads(metadata))), *sources])


def with_settings(offsets: str, settings: Mapping[str, str]) -> str:
    """Returns a file of offsets with other settings of its query; those that are not named stay."""
    return _with_metadata(offsets, lambda metadata: {**metadata, _CONF: {**metadata[_CONF], **settings}})


def writes_again(options: StreamOptions) -> bool:
    """Tells whether the target takes the rows of history again: they replace those that it has."""
    return options.upsert is not None or options.output_mode is not OutputMode.APPEND


class Rebuilder:
    """Makes checkpoints. All calls block."""

    def __init__(self, files: HadoopFiles, savepoints: Savepoints) -> None:
        self._files = files
        self._savepoints = savepoints

    def place(self, location: str, options: StreamOptions) -> Place:
        """Returns the batch up to which the state is computed. Raises SavepointError.

        A batch that was planned and not committed may be in the target. Where rows are appended it comes again, and the
        target leaves it out if it has it. Where they are replaced what it has read is history as well.
        """
        folder = "offsets" if writes_again(options) else "commits"
        names = (uri.rpartition("/")[2] for uri in self._files.children(f"{location}/{folder}"))
        batch = last_committed(f"commits/{name}" for name in names)
        if batch is None or not self._files.children(f"{location}/commits"):
            raise SavepointError(f"the checkpoint {location} has no committed batch yet")
        text = self._files.read_text(f"{location}/offsets/{batch}")
        if text is None:
            raise SavepointError(f"the checkpoint {location} lacks offsets/{batch}")
        return Place(batch, text)

    def is_cut_off(self, options: StreamOptions) -> bool:
        """Tells whether an earlier attempt may have written rows of a state that is not in use."""
        return writes_again(options) and self._files.exists(f"{options.checkpoint}{_MARK}")

    def forget(self, options: StreamOptions) -> None:
        """Takes the mark of a begun attempt away, once the new checkpoint is one."""
        self._files.delete(f"{options.checkpoint}{_MARK}")

    def without_state(self, location: str, options: StreamOptions) -> None:
        """Makes all of a new checkpoint but its `metadata`, for a text that keeps no state. Raises SavepointError."""
        self._savepoints.copy_on(location, options.checkpoint, is_copied=lambda path: not path.startswith("state/"))

    def rebuild(
        self,
        location: str,
        options: StreamOptions,
        run: Callable[[str], None],
        settings: Mapping[str, str],
        *,
        is_over_by_itself: bool = False,
    ) -> None:
        """Makes all of the new checkpoint but its `metadata`. `run` runs the batch that is planned in a checkpoint.

        A query keeps the settings that it has begun with; the new state is kept with `settings` in place of those of the old
        one. Raises SavepointError, or what `run` raises.
        """
        place, checkpoint = self.place(location, options), options.checkpoint
        place = replace(place, offsets=with_settings(place.offsets, settings))
        apart = f"{checkpoint}/{_FOLDER}"
        self.without_state(location, options)
        self._set(checkpoint, place.batch, settings)
        self._savepoints.copy_on(location, apart, is_copied=lambda path: path.startswith("sources/"))
        if writes_again(options):
            self._files.write_text(f"{checkpoint}{_MARK}", "")
        committed = self._run(apart, 0, place.with_watermark(0), run)
        reached = int(json.loads(committed.splitlines()[1])[_NEXT_WATERMARK])
        over, last = reached if is_over_by_itself else place.watermark, 1
        if over > 0:
            self._run(apart, 1, place.with_watermark(over), run)
            last = 2
        version = place.batch + 1
        self._savepoints.move_state(f"{apart}/state", checkpoint, lambda path: moved_state(path, last, version))
        self._files.write_text(f"{checkpoint}/commits/{place.batch}", committed)  # with the watermark of all rows
        self._files.delete(apart)

    def _set(self, checkpoint: str, batch: int, settings: Mapping[str, str]) -> None:
        """Gives the batches that a query goes on from the settings: the last one, and one that was planned behind it."""
        for number in (batch, batch + 1):
            file = f"{checkpoint}/offsets/{number}"
            text = self._files.read_text(file)
            if text is not None and settings:
                self._files.write_text(file, with_settings(text, settings))

    def _run(self, apart: str, batch: int, offsets: str, run: Callable[[str], None]) -> str:
        """Has Spark run one batch; returns its commit."""
        self._files.write_text(f"{apart}/offsets/{batch}", offsets)
        run(apart)
        committed = self._files.read_text(f"{apart}/commits/{batch}")
        if committed is None:
            raise SavepointError("Spark has not run the batches of history")
        return committed
