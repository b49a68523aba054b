"""How a text is run: what a resource says of it and the control protocol hands on as it is.

The gateway loads this module and not those of the kinds, whose models it has no use for.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from sparksql.api.base import SET_LIST, ApiModel, cel, validated
from sparksql.api.fields import YEAR_SECONDS

MAX_LOOKUP_MILLIS = 60_000  # as of the hint MINI_BATCH, which says the same
MAX_LOOKUP_ROWS = 1_000_000
MAX_LOOKUP_TTL_SECONDS = 86_400


class StatementMode(StrEnum):
    """Preview runs a query read-only with a row limit; Explain and Validate never execute."""

    EXECUTE = "Execute"
    PREVIEW = "Preview"
    EXPLAIN = "Explain"
    VALIDATE = "Validate"


class TriggerMode(StrEnum):
    """Auto infers the interval from the query's windows; AvailableNow ends when the input is read up."""

    AUTO = "Auto"
    INTERVAL = "Interval"
    AVAILABLE_NOW = "AvailableNow"
    REAL_TIME = "RealTime"


class OutputMode(StrEnum):
    """Names what a batch writes to the sink, in Spark's words."""

    APPEND = "Append"
    UPDATE = "Update"
    COMPLETE = "Complete"


class Upsert(ApiModel):
    """Changes brought into the target by key; the last writer wins."""

    model_config = validated(
        cel(
            "!has(self.deletedRetentionSeconds) || (has(self.orderBy) && has(self.deleteWhen))",
            "deletedRetentionSeconds needs deleteWhen and orderBy, by which changes are older or newer",
        ),
    )

    keys: tuple[Annotated[str, Field(min_length=1, max_length=255)], ...] = Field(
        (),
        max_length=32,
        json_schema_extra=SET_LIST,
        description="Columns that identify a row of the target. Without any they are those that the query's source is known to have.",
    )
    order_by: str | None = Field(
        None, min_length=1, max_length=1024, description="Expression that orders changes of one key; the greatest wins."
    )
    delete_when: str | None = Field(
        None, min_length=1, max_length=4096, description="Predicate on a change that means: delete the row."
    )
    deleted_retention_seconds: int | None = Field(
        None,
        ge=1,
        le=YEAR_SECONDS,
        description="Keep deleted keys for at least this time, so that an older change does not bring a row back.",
    )


class Lookup(ApiModel):
    """A table in a database whose rows are looked up by the keys of each batch, instead of being read whole."""

    table: str = Field(min_length=1, max_length=1024, description="Name or alias that the query joins the table under.")
    latency_millis: int | None = Field(
        None,
        ge=0,
        le=MAX_LOOKUP_MILLIS,
        description="Interval between batches if `trigger` leaves it open; of several lookups the least counts.",
    )
    rows: int = Field(
        10_000, ge=1, le=MAX_LOOKUP_ROWS, description="Most rows of a batch's partition whose keys are read at once."
    )
    ttl_seconds: int = Field(
        0,
        ge=0,
        le=MAX_LOOKUP_TTL_SECONDS,
        description="Time for which each executor reuses what it has read; 0 = within one read only.",
    )
