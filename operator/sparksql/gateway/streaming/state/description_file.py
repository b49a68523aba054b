"""The description of a checkpoint's state, kept in the checkpoint itself, where savepoints take it along.

It is written before the query starts. When the driver dies in between, the next start finds the new description and an old
state, which go together: nothing is written that has not been found compatible. A checkpoint without one, made by plain Spark,
is taken as it is; Spark's own checks remain.

Where there is no state yet, there is nothing to compare, and an outline is written before the start: the text, its sources
and settings. The description takes its place while the first batch runs. When the driver dies in between, the state is taken to
be that of the very same text, as that of a query that cannot be described is.
"""

from __future__ import annotations

import re

from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.sql.errors import StatementError, operation_error, refusal
from sparksql.gateway.sql.script import Fragment
from sparksql.gateway.streaming.state.comparison import Misfit
from sparksql.gateway.streaming.state.compatibility import differences
from sparksql.gateway.streaming.state.description import Description, DescriptionError
from sparksql.gateway.streaming.state.messages import REMEDY
from sparksql.gateway.streaming.state.rewriting import rewriting
from sparksql.wire.control import ErrorReason, OperationError

NAME = "sparksql-query.json"
# The assertion of OffsetSeq.toStreamProgress in Spark 4.1, which has no condition: Spark gives it that of any end of a query.
# What rows or functions throw has conditions of its own.
_NUMBER_OF_SOURCES = re.compile(
    r"There are \[\d+\] sources in the checkpoint offsets and now there are \[\d+\] sources"
)
_UNNAMED = frozenset({None, "STREAM_FAILED"})
# Of Spark's error-conditions.json: state that does not fit the query, whoever runs it and however often.
CONDITIONS = frozenset(
    {
        "CANNOT_LOAD_STATE_STORE.KEY_ROW_FORMAT_VALIDATION_FAILURE",
        "CANNOT_LOAD_STATE_STORE.VALUE_ROW_FORMAT_VALIDATION_FAILURE",
        "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
        "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
        "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
        "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
        "STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE",
        "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
        "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED",
        "STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE",
        "STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED",
        "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
        "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    }
)


class StateFile:
    """The file of one checkpoint, for one start of its query. All calls block, and raise what the file system raises.

    `is_new`: no query has begun a batch there.
    """

    def __init__(self, files: HadoopFiles, checkpoint: str) -> None:
        self._files = files
        self._uri = f"{checkpoint}/{NAME}"
        self._before = files.read_text(self._uri)
        self.is_new = not files.children(f"{checkpoint}/offsets")

    def known(self) -> Description | None:
        """Returns what the state in the checkpoint means; None when no query has begun a batch there, or nothing is said of it.

        Raises StatementError for what cannot be read.
        """
        if self._before is None or self.is_new:
            return None
        try:
            return Description.from_json(self._before)
        except DescriptionError as broken:
            reason = (
                f"{NAME} in the checkpoint, which describes the state, cannot be read: {broken}. Remove it if this text "
                f"is the one that the state is of. Otherwise, {REMEDY}"
            )
            raise refusal(ErrorReason.STATE_INCOMPATIBLE, reason) from broken

    def misfit(self, new: Description) -> Misfit | None:
        """Returns why a query of `new` cannot go on from here as it is, None if it can, or if nothing is to go on from."""
        old = self.known()
        found = differences(old, new) if old is not None else ()
        return Misfit(found, old, new, rewriting(old, new)) if old is not None and found else None

    def write(self, description: Description) -> None:
        """Keeps the description of the query that is about to start."""
        text = description.to_json()
        if text != self._before:
            self._files.write_text(self._uri, text)

    def undo(self) -> None:
        """Puts back what was there: Spark has refused the state."""
        if self._before is None:
            self._files.delete(self._uri)
        else:
            self._files.write_text(self._uri, self._before)

    def refusal(self, failed: Exception, sql: str) -> StatementError | None:
        """Returns the error of a query whose state Spark has refused, having undone what was written; None for any other."""
        error = operation_error(failed, Fragment(sql, 0), sql)
        if not is_refusal(error):
            return None
        self.undo()
        return StatementError(refused(error))


def is_refusal(error: OperationError) -> bool:
    """Returns whether Spark ended a query because its state is another one's."""
    is_unnamed = error.condition in _UNNAMED and _NUMBER_OF_SOURCES.search(error.message) is not None
    return is_unnamed or error.condition in CONDITIONS


def refused(error: OperationError) -> OperationError:
    """Returns Spark's refusal of a state, with what to do about it."""
    told = (
        f"Spark refuses the state in the checkpoint for this SQL text: {error.message.rstrip('.')}. To go on, {REMEDY}"
    )
    return error.model_copy(update={"reason": ErrorReason.STATE_INCOMPATIBLE, "message": told})
