"""What a finished operation shows of itself: columns, whether it was a query, the kind of its result. Pure.

Clients tell statements apart by these three alone. A statement without columns answers one row OK, one that writes answers
the job's id, a SHOW has content and is no query. Spark has no job ids that clients could use, so the id of an operation's job
is its own handle without dashes.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sparksql.gateway.frontends.rest.models import ColumnInfo, LogicalType, ResultKind, ResultType, RowFormat
from sparksql.gateway.frontends.rest.types import logical_type
from sparksql.gateway.sessions.model import OperationInfo
from sparksql.wire.control import Column


@dataclass(frozen=True)
class ResultContent:
    """Says what the content of an operation's result is to a client.

    `only` is the single value of a result that the statement itself has not got.
    """

    columns: tuple[Column, ...]
    kind: ResultKind
    is_query: bool
    job_id: str | None = None
    only: str | None = None

    @property
    def types(self) -> tuple[LogicalType, ...]:
        """Returns the logical types of the columns."""
        return tuple(logical_type(column.type) for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of the columns."""
        return tuple(column.name for column in self.columns)

    def page(self, first_row: int) -> pa.Table | None:
        """Returns the rows from `first_row` on, if the statement has none of its own."""
        return None if self.only is None else pa.table({"c0": pa.array([self.only], pa.string())}).slice(first_row)


@dataclass(frozen=True)
class Page:
    """A page's place: what kind it is and where the next one is to be had."""

    type: ResultType
    row_format: RowFormat
    next_uri: str | None


def content_of(view: OperationInfo) -> ResultContent:
    """Returns the content of a finished operation: its rows, an INSERT's job id, or OK."""
    job_id = view.handle.replace("-", "")
    if view.is_insert:
        return ResultContent(
            (Column(name="job id", type="string"),), ResultKind.SUCCESS_WITH_CONTENT, False, job_id, job_id
        )
    if not view.columns:
        return ResultContent((Column(name="result", type="string"),), ResultKind.SUCCESS, False, only="OK")
    return ResultContent(
        view.columns, ResultKind.SUCCESS_WITH_CONTENT, view.is_query, job_id if view.is_query else None
    )


def page_json(page: Page, content: ResultContent, rows: bytes) -> bytes:
    """Returns the body of a page; `rows` is the JSON list of its rows. The keys stand in the order of the released server."""
    columns = ",".join(
        ColumnInfo(name=name, logical_type=logical, comment=None).to_json()
        for name, logical in zip(content.names, content.types, strict=True)
    )
    head = [f'"resultType":"{page.type}"', f'"isQueryResult":{"true" if content.is_query else "false"}']
    if content.job_id is not None:
        head.append(f'"jobID":"{content.job_id}"')
    head.append(f'"resultKind":"{content.kind}"')
    head.append(f'"results":{{"columns":[{columns}],"rowFormat":"{page.row_format}","data":')
    tail = "}}" if page.next_uri is None else f'}},"nextResultUri":"{page.next_uri}"}}'
    return b"".join((b"{", ",".join(head).encode(), rows, tail.encode()))
