"""Rows of a query without end for HiveServer2's clients.

These take an answer without rows for the end, so a fetch is answered once there are some. Meanwhile its connection can send
nothing else: a cancel of the client's comes behind the next rows, so whoever wants the query cancelled at once closes the
connection, or cancels by another one.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparksql.gateway.frontends.thrift import errors
from sparksql.gateway.frontends.thrift.errors import ThriftError
from sparksql.gateway.frontends.thrift.fetching import Fetched, fetched
from sparksql.gateway.frontends.thrift.operations import ResultColumn, ThriftOperation
from sparksql.gateway.results.changes import with_kinds
from sparksql.gateway.results.unbounded import UnexpectedTokenError
from sparksql.gateway.sessions.service import SessionService

_WAIT_SECONDS = 1.0  # after which it is seen whether the query has ended, and the operation counts as used


async def next_rows(
    service: SessionService, operation: ThriftOperation, columns: Sequence[ResultColumn], most: int
) -> Fetched:
    """Returns the rows that come next, at most `most`, once there are some. Raises ThriftError when the query has ended."""
    while operation.unread is None or operation.unread.num_rows == 0:
        await _read(service, operation, most)
    first, session = operation.next_row, operation.session
    after = first + operation.unread.num_rows + 1  # there is always more
    answer = await fetched(operation.unread.slice(0, most), columns, first, after, session.protocol)
    operation.unread = operation.unread.slice(answer.count)
    operation.next_row += answer.count
    return answer


async def _read(service: SessionService, operation: ThriftOperation, most: int) -> None:
    session, token = operation.session.handle, operation.next_page
    try:
        page = await service.unbounded_page(session, operation.handle, token, most, _WAIT_SECONDS)
    except UnexpectedTokenError:  # of two fetches at a time
        raise ThriftError(errors.refusal("the rows of this operation are being fetched already")) from None
    if page is None:
        raise ThriftError(errors.statement_failure(service.operation(session, operation.handle)))
    operation.next_page = token + 1
    operation.unread = page.table if page.kinds is None else with_kinds(page.table, page.kinds)
