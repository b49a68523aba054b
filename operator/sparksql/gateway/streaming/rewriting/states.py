"""What a streaming query goes on from: found, compared with its text, copied or written anew, and noted in its checkpoint.

A state is written anew into another checkpoint, in this order: all that is not changed is copied, the new values are written
beside it and moved to their names, Spark notes their types, they are read again and compared with the old ones, the text's
description takes the place of the old one, and `metadata` comes last. Until then nobody takes the folder for a checkpoint, and
the next attempt begins it anew; the old checkpoint is only read, and stays. One that is computed anew, see `rebuilding`, is made
in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sparksql.gateway.operations.operation import Operation
from sparksql.gateway.results.store import StoredResult
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.shapes import JvmSession, LogicalPlan
from sparksql.gateway.sql.errors import StatementError, refusal
from sparksql.gateway.streaming import history
from sparksql.gateway.streaming.batch_plan import Continued
from sparksql.gateway.streaming.checkpoints.batch_files import is_state_of, last_committed, whole_state
from sparksql.gateway.streaming.checkpoints.claims import query_id_in
from sparksql.gateway.streaming.checkpoints.fence import CheckpointLease, Fence
from sparksql.gateway.streaming.checkpoints.savepoint import SavepointError, Savepoints
from sparksql.gateway.streaming.continuity.check import SourceIds, check_sources_read
from sparksql.gateway.streaming.rebuilding.history import read_again
from sparksql.gateway.streaming.rebuilding.rebuild import Rebuilder
from sparksql.gateway.streaming.rewriting import spark_state
from sparksql.gateway.streaming.rewriting.spark_state import Aggregation, UnknownSparkError
from sparksql.gateway.streaming.rewriting.writer import RewritingError, StateWriter
from sparksql.gateway.streaming.state.buffers import buffer_types
from sparksql.gateway.streaming.state.comparison import FITS, IncompatibleStateError, Misfit
from sparksql.gateway.streaming.state.describe import describe
from sparksql.gateway.streaming.state.description import AGGREGATE, Description
from sparksql.gateway.streaming.state.description_file import NAME, StateFile
from sparksql.gateway.streaming.state.outline import outline
from sparksql.gateway.streaming.state.rebuilding import (
    NotRebuildable,
    Rebuilding,
    other_sources,
    other_watermarks,
)
from sparksql.gateway.streaming.state.rewriting import NotRewritable, OperatorRewriting, Rewriting
from sparksql.gateway.windowing.dynamic_stream import settings_of_state
from sparksql.wire.control import ErrorReason, RestoreOptions, StreamOptions

_SCRATCH = "_rewritten"  # in the new checkpoint, until what is in it has its name
_FORMAT_VERSION = 2  # of an aggregation's state; in the first one its keys stand among the values as well


@dataclass(frozen=True)
class Query:
    """A query that could start. `read` describes it, by `describe` or `outline`.

    `run` runs the batch that is planned in a checkpoint, see `rebuilding.rebuild`; None for a query that is looked at.
    """

    session: JvmSession
    analysed: LogicalPlan
    options: StreamOptions
    read: Callable[[Callable[..., Description]], Description]
    run: Callable[[str], None] | None = None


@dataclass(frozen=True)
class _Write:
    """The new state of one aggregation."""

    to: Aggregation
    how: OperatorRewriting


class States:
    """Finds, compares and makes what queries go on from. Safe to use from several threads; all calls block."""

    def __init__(self, driver: SparkDriver, files: HadoopFiles, savepoints: Savepoints, fence: Fence) -> None:
        self._driver = driver
        self._files = files
        self._savepoints = savepoints
        self._fence = fence
        self._rebuilder = Rebuilder(files, savepoints)

    def location(self, options: StreamOptions) -> str:
        """Returns where the state is that a query would go on from. Raises StatementError."""
        restore = options.restore
        if restore is None or self._files.exists(f"{options.checkpoint}/metadata"):
            return options.checkpoint
        if restore.rewrite:
            return restore.location
        try:
            return self._savepoints.checkpoint_in(restore.location)
        except SavepointError as failed:
            raise _not_restored(restore, failed) from failed

    def query_id(self, options: StreamOptions) -> str | None:
        """Returns the id of the query that goes on; None of one that is new."""
        known = query_id_in(self._files.read_text(f"{options.checkpoint}/metadata"))
        if known is None and options.restore is not None:
            restore = options.restore
            there = query_id_in(self._files.read_text(f"{restore.location}/metadata")) if restore.rewrite else None
            known = there or restore.query_id or None
        return known

    def check(self, query: Query) -> None:
        """Raises IncompatibleStateError when the query cannot go on from its state, even if that were made anew."""
        misfit = self._misfit(query, self.location(query.options))
        if misfit is not None and not misfit.is_met:
            raise IncompatibleStateError(misfit)

    def compare(self, query: Query) -> StoredResult:
        """Sees whether a query could go on; writes nothing. Returns a row for each thing that its state is made anew for.

        Raises IncompatibleStateError, or StatementError when rows of its sources would be left out.
        """
        location = self.location(query.options)
        misfit = self._misfit(query, location)
        if misfit is not None and not misfit.is_met:
            raise IncompatibleStateError(misfit)
        self._check_sources(query, location)
        return FITS if misfit is None else misfit.rows()

    def match(self, query: Query, operation: Operation) -> StateFile:
        """Sees that the query goes on from what the checkpoint has, and notes there what it keeps in its state.

        The last step before the start; of a new checkpoint it notes an outline, see `description_file`. Raises
        StatementError when the state is another one or rows would be left out, or OperationCancelledError.
        """
        checkpoint = query.options.checkpoint
        file = StateFile(self._files, checkpoint)
        description = query.read(outline if file.is_new else describe)
        misfit = self._explained(query, checkpoint, file.misfit(description))
        if misfit is not None:
            raise IncompatibleStateError(misfit)
        ids = self._check_sources(query, checkpoint)
        operation.check()
        ids.write()
        file.write(description)
        return file

    def restore(self, query: Query, lease: CheckpointLease, operation: Operation) -> None:
        """Makes the checkpoint of what `options.restore` names, unless that was done. Raises StatementError."""
        options, restore = query.options, query.options.restore
        if restore is None or self._files.exists(f"{options.checkpoint}/metadata"):
            return
        try:
            if restore.rewrite:
                self._continue(query, restore, lease, operation)
            else:
                self._savepoints.restore(restore.location, options.checkpoint, restore.query_id)
        except (SavepointError, RewritingError, UnknownSparkError) as failed:
            raise _not_restored(restore, failed) from failed

    def copy(self, query: Query) -> None:
        """Makes the checkpoint of a query that is only looked at, from a savepoint that fits it as it is.

        Raises IncompatibleStateError, or StatementError as `compare` does.
        """
        options, restore = query.options, query.options.restore
        assert restore is not None and not (options.rewrites or options.rebuilds)  # it must fit as it is
        self.compare(query)
        try:
            self._savepoints.restore(restore.location, options.checkpoint, restore.query_id)
        except SavepointError as failed:
            raise _not_restored(restore, failed) from failed

    def _continue(self, query: Query, restore: RestoreOptions, lease: CheckpointLease, operation: Operation) -> None:
        """Has the query go on in another place, once no other driver writes the place where it has been."""
        checkpoint = query.options.checkpoint
        old = self._fence.lease(restore.location, operation.request.boot_id, operation.operation_id)
        old.take(query.options.unconfirmed, operation.check)
        try:
            self._check_sources(query, restore.location)
            self._make(query, restore.location, operation)
            query_id = self.query_id(query.options)
            if query_id is None:
                raise SavepointError(f"{restore.location} does not record the query that it belongs to")
            operation.check()
            lease.verify()
            old.verify()
            self._savepoints.begin(checkpoint, query_id)
            self._rebuilder.forget(query.options)
        finally:
            old.release()

    def _check_sources(self, query: Query, location: str) -> SourceIds:
        """Sees that the sources are those that the checkpoint at `location` has read. Raises StatementError."""
        history.check_history(self._driver.jvm, query.analysed, location, self._files)
        return check_sources_read(self._driver.jvm, self._files, query.analysed, location)

    def _make(self, query: Query, location: str, operation: Operation) -> None:
        """Makes the new checkpoint as its text needs it, but for `metadata`."""
        options, run, misfit = query.options, query.run, self._misfit(query, location)
        assert run is not None
        settings = settings_of_state(query.analysed)
        match misfit:
            case None | Misfit(how=Rewriting()) if self._rebuilder.is_cut_off(options):
                self._check_history(query, location)
                self._rebuilder.rebuild(location, options, run, settings)
            case None:
                self._savepoints.copy_on(location, options.checkpoint)
            case Misfit(how=Rewriting() as how, new=new):
                self._rewrite(query, location, how, new, operation)
            case Misfit(how=Rebuilding(histories=())):
                self._rebuilder.without_state(location, options)
            case Misfit(how=Rebuilding(is_over_by_itself=itself)):
                self._rebuilder.rebuild(location, options, run, settings, is_over_by_itself=itself)
            case Misfit():
                raise IncompatibleStateError(misfit)
        if misfit is not None:
            self._describe(query, misfit.new)

    def _check_history(self, query: Query, location: str) -> None:
        offsets = self._rebuilder.place(location, query.options).offsets
        found = read_again(self._driver.jvm, self._files, query.analysed, location, offsets)
        if isinstance(found, NotRebuildable):
            raise RewritingError(found.reason)

    def _describe(self, query: Query, new: Description) -> None:
        checkpoint = query.options.checkpoint
        self._files.write_text(f"{checkpoint}/{NAME}", new.to_json())
        if StateFile(self._files, checkpoint).misfit(query.read(describe)) is not None:
            raise RewritingError("the text is another one each time that it is looked at")

    def _rewrite(self, query: Query, location: str, how: Rewriting, new: Description, operation: Operation) -> None:
        checkpoint, jvm = query.options.checkpoint, self._driver.jvm
        batch = self._last_batch(location)
        with spark_state.session_of_state(self._driver, query.session, self._offsets(location, batch)) as session:
            writes = self._writes(session, query, how, new)
            if isinstance(writes, NotRewritable):  # it was looked at before, so this is not to be seen
                raise RewritingError(writes.reason)
            writer = StateWriter(self._driver, session)
            states = [writer.planned(location, batch, each.to, each.how) for each in writes]
            operators = [each.to.operator_id for each in writes]
            copied = self._savepoints.copy_on(
                location, checkpoint, is_copied=lambda path: not is_state_of(path, operators)
            )
            if copied.batch_id != batch:
                raise SavepointError(f"{location} has got another batch meanwhile")
            for write, state in zip(writes, states, strict=True):
                operation.check()
                writer.write(write.to, state, f"{checkpoint}/{_SCRATCH}")
            self._savepoints.move_state(
                f"{checkpoint}/{_SCRATCH}", checkpoint, lambda path: whole_state(path, batch + 1)
            )
            self._files.delete(f"{checkpoint}/{_SCRATCH}")
            goes_on = Continued(f"{checkpoint}/state", batch + 1)  # Spark notes the types of the new columns there
            spark_state.aggregations(jvm, session, query.analysed, query.options.output_mode, goes_on)
            for write, state in zip(writes, states, strict=True):
                operation.check()
                writer.verify(write.to, state, checkpoint, batch)

    def _misfit(self, query: Query, location: str) -> Misfit | None:
        return self._explained(query, location, StateFile(self._files, location).misfit(query.read(describe)))

    def _explained(self, query: Query, location: str, misfit: Misfit | None) -> Misfit | None:
        """The misfit with what Spark's own plan, or the sources, tell of whether the state can be made anew."""
        if misfit is None:
            return None
        options, how = query.options, misfit.how
        if isinstance(how, Rewriting):
            how = self._planned(query, location, how, misfit.new) if options.rewrites else None
        if options.rebuilds and not isinstance(how, Rewriting):
            how = self._history(query, location, misfit)
        return replace(misfit, how=how)

    def _history(self, query: Query, location: str, misfit: Misfit) -> Rebuilding | NotRebuildable:
        other = other_sources(misfit.old, misfit.new)
        if other is not None:
            return other
        try:
            place = self._rebuilder.place(location, query.options)
        except SavepointError as failed:
            return NotRebuildable(str(failed))
        if not misfit.new.operators:
            return Rebuilding()
        with spark_state.session_of_state(self._driver, query.session, place.offsets) as session:
            unknown = spark_state.unknown_form(session)
        if unknown is not None:
            return NotRebuildable(f"its files have another form, as {unknown}")
        itself = other_watermarks(misfit.old, misfit.new)
        if itself and place.batch == 0:  # a state of two versions has no place there
            return NotRebuildable("the query has committed one batch alone; change its text after the next one")
        how = read_again(self._driver.jvm, self._files, query.analysed, location, place.offsets)
        return replace(how, is_over_by_itself=itself) if isinstance(how, Rebuilding) else how

    def _planned(self, query: Query, location: str, how: Rewriting, new: Description) -> Rewriting | NotRewritable:
        try:
            batch = self._last_batch(location)
            with (
                spark_state.supported(),
                spark_state.session_of_state(self._driver, query.session, self._offsets(location, batch)) as session,
            ):
                writes = self._writes(session, query, how, new)
                if isinstance(writes, NotRewritable):
                    return writes
                for each in writes:
                    StateWriter(self._driver, session).planned(location, batch, each.to, each.how)
        except (RewritingError, UnknownSparkError, SavepointError) as failed:
            return NotRewritable(str(failed))
        return how

    def _writes(
        self, session: JvmSession, query: Query, how: Rewriting, new: Description
    ) -> Sequence[_Write] | NotRewritable:
        """What is to be written, by Spark's own plan of the query in a session with the settings of its state."""
        unknown = spark_state.unknown_form(session)
        if unknown is not None:
            return NotRewritable(f"its files have another form, as {unknown}")
        described = [place for place, each in enumerate(new.operators) if each.kind == AGGREGATE]
        found = spark_state.aggregations(self._driver.jvm, session, query.analysed, query.options.output_mode)
        if len(found) != len(described):
            return NotRewritable("Spark plans other aggregations than the description has")
        writes = [_Write(found[described.index(each.place)], each) for each in how.operators]
        for write in writes:
            if write.to.is_of_sessions:
                return NotRewritable("that of session windows has another form")
            if write.to.format_version != _FORMAT_VERSION:
                return NotRewritable(f"it has version {write.to.format_version} of the form of aggregates")
            if tuple(map(buffer_types, write.to.functions)) != write.how.after:
                return NotRewritable("Spark keeps the aggregates of the text in other columns than described")
        return writes

    def _last_batch(self, location: str) -> int:
        names = (uri.rpartition("/")[2] for uri in self._files.children(f"{location}/commits"))
        batch = last_committed(f"commits/{name}" for name in names)
        if batch is None:
            raise SavepointError(f"the checkpoint {location} has no committed batch yet")
        return batch

    def _offsets(self, location: str, batch: int) -> str:
        text = self._files.read_text(f"{location}/offsets/{batch}")
        if text is None:
            raise SavepointError(f"the checkpoint {location} lacks offsets/{batch}")
        return text


def _not_restored(restore: RestoreOptions, failed: Exception) -> StatementError:
    if restore.rewrite:
        message = f"the state in {restore.location} was not rebuilt and is unchanged: {failed}"
        return refusal(ErrorReason.INVALID_SPEC, message)
    message = f"spec.streaming.startFrom: the savepoint cannot be restored: {failed}"
    return refusal(ErrorReason.INVALID_SPEC, message)
