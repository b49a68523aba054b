"""Deleted keys that are kept: an older change does not bring a row back, whenever it comes and wherever the driver died."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations, product

import pytest

from sparksql.api.execution import OutputMode, Upsert
from sparksql.wire.control import OperationView
from tests.support.process import GatewayProcess
from tests.support.thorough import thorough_but

from ..streams import Streams
from .test_upsert_crash import TABLES, forget

UPSERT = Upsert(keys=("ID",), order_by="v", delete_when="op = 'd'", deleted_retention_seconds=3600)
Change = tuple[int | None, bool]  # its order value, and whether it deletes
# Two of one batch or more, in any order: rows older and newer than a delete, as old as one, and without an order value.
CHANGES: tuple[Change, ...] = ((None, False), (None, True), (1, False), (2, True), (2, False), (3, False), (3, True))


@pytest.fixture(scope="module")
def gateway(connected_gateway: GatewayProcess) -> GatewayProcess:
    return connected_gateway


class Keyed:
    """A stream of changes `(id, v, op)` into `dst`."""

    def __init__(self, streams: Streams, format_: str) -> None:
        self.streams, self.format = streams, format_
        self.dst = TABLES[format_]

    async def make(self) -> None:
        await self.streams.ok(
            "CREATE TABLE $.changes (id INT, v INT, op STRING) USING parquet",
            f"CREATE TABLE {self.dst} (id INT, v BIGINT) USING {self.format}",
        )

    async def put(self, *changes: tuple[int, Change]) -> None:
        """Adds changes to what the next batch reads."""
        values = ", ".join(f"({key}, {_int(v)}, '{'d' if deletes else 'u'}')" for key, (v, deletes) in changes)
        await self.streams.ok(f"INSERT INTO $.changes SELECT /*+ COALESCE(1) */ * FROM VALUES {values}")

    async def run(self, upsert: Upsert = UPSERT, checkpoint: str = "c") -> OperationView:
        insert = f"INSERT INTO {self.dst} SELECT * FROM STREAM $.changes"
        return await self.streams.run(insert, checkpoint, upsert=upsert, output_mode=OutputMode.UPDATE)

    async def merged(self, *changes: tuple[int, Change], upsert: Upsert = UPSERT) -> list[tuple[object, ...]]:
        """The target's rows after one more batch."""
        await self.put(*changes)
        view = await self.run(upsert)
        assert view.error is None, view
        return await self.rows()

    async def refused(self, upsert: Upsert, says: str) -> None:
        view = await self.run(upsert)
        assert view.error is not None and says in view.error.message, view

    async def rows(self) -> list[tuple[object, ...]]:
        return await self.streams.rows(f"SELECT id, v FROM {self.dst} ORDER BY id")

    async def deleted(self) -> list[tuple[object, ...]]:
        return await self.streams.rows(f"SELECT ID, __sparksql_order FROM {self.dst}__deleted ORDER BY id")


def _int(value: int | None) -> str:
    return "CAST(NULL AS INT)" if value is None else str(value)


async def keyed(streams: Streams, format_: str) -> Keyed:
    made = Keyed(streams, format_)
    await made.make()
    return made


def winner(changes: Iterable[Change]) -> Change:
    """The greatest order value, NULL below all; of equal ones the delete."""
    return max(changes, key=lambda change: (change[0] is not None, change[0] or 0, change[1]))


def schedules() -> list[Sequence[tuple[int, Change]]]:
    """Three changes each, in all orders, spread over three batches in these ways."""
    ways = ((0, 1, 2), (0, 0, 1), (0, 1, 1))
    return [tuple(zip(way, drawn, strict=True)) for drawn, way in product(permutations(CHANGES, 3), ways)]


@pytest.mark.thorough
async def test_rows_depend_on_the_changes_and_not_on_when_they_come(streams: Streams) -> None:
    """For Iceberg alone: Delta is merged into by the same SQL."""
    stream, drawn = await keyed(streams, "iceberg"), schedules()
    for batch in range(3):
        await stream.merged(*((key, c) for key, plan in enumerate(drawn) for at, c in plan if at == batch))
    wins = {key: winner(change for _, change in plan) for key, plan in enumerate(drawn)}
    assert await stream.rows() == [(key, v) for key, (v, deletes) in wins.items() if not deletes]


# It dies where the MERGE meets a row that is marked so, after the deletes have been noted.
DYING = UPSERT.model_copy(update={"order_by": "if(v = 99, raise_error('died between the commits'), v)"})


@pytest.mark.thorough
@pytest.mark.parametrize("format_", thorough_but(["iceberg"], ["iceberg", "delta"]))
async def test_a_driver_that_dies_after_either_of_its_two_commits_changes_nothing(
    streams: Streams, format_: str
) -> None:
    stream = await keyed(streams, format_)
    assert await stream.merged((1, (3, False)), (2, (3, False)), upsert=DYING) == [(1, 3), (2, 3)]
    await stream.put((1, (5, True)), (2, (4, False)), (3, (6, True)))
    await streams.ok(f"UPDATE {stream.dst} SET v = 99 WHERE id = 2")
    await stream.refused(DYING, "died between the commits")
    assert await stream.deleted() == [(1, 5), (3, 6)]
    assert await stream.rows() == [(1, 3), (2, 99)]
    await streams.ok(f"UPDATE {stream.dst} SET v = 3 WHERE id = 2")
    assert (await stream.run(DYING)).error is None
    assert await stream.rows() == [(2, 4)]
    await streams.ok(f"UPDATE {stream.dst} SET v = 0 WHERE id = 2")  # shows that nothing is merged again
    forget(streams.folder / "c" / "commits", 1)
    assert (await stream.run(DYING)).error is None
    assert await stream.rows() == [(2, 0)]
    assert await stream.deleted() == [(1, 5), (3, 6)]
    assert await stream.merged((1, (4, False)), (3, (7, False)), upsert=DYING) == [(2, 0), (3, 7)]


async def test_deleted_keys_are_forgotten_in_time_and_with_their_table(streams: Streams) -> None:
    """For Iceberg alone, as above."""
    stream = await keyed(streams, "iceberg")
    assert await stream.merged((1, (5, True)), (2, (5, True))) == []
    await streams.ok(f"UPDATE {stream.dst}__deleted SET __sparksql_at = __sparksql_at - INTERVAL 2 HOURS WHERE id = 1")
    assert await stream.merged((1, (4, False)), (3, (1, True))) == []  # they hold until they are removed
    assert await stream.deleted() == [(2, 5), (3, 1)]
    assert await stream.merged((1, (4, False)), (2, (4, False)), (3, (1, False))) == [(1, 4)]

    await stream.refused(UPSERT.model_copy(update={"order_by": "v + 1"}), "another orderBy")
    await streams.ok(f"DROP TABLE {stream.dst}", f"CREATE TABLE {stream.dst} (id INT, v BIGINT) USING iceberg")
    assert await stream.merged((3, (0, False))) == [(3, 0)]
    assert await stream.deleted() == []
    await streams.ok(f"DROP TABLE {stream.dst}__deleted", f"CREATE TABLE {stream.dst}__deleted (id INT) USING iceberg")
    await stream.refused(UPSERT, "is another one")


async def test_keeping_deleted_keys_needs_an_order_and_deletes(streams: Streams) -> None:
    stream = await keyed(streams, "iceberg")
    for missing in ("order_by", "delete_when"):
        await stream.refused(UPSERT.model_copy(update={missing: None}), "needs deleteWhen and orderBy")
