"""A state that goes through a table gives the results that it gives without, for every aggregate and type."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from .state_round_trips import WINDOWS, Trips, drawn, every_pair, running_for_trips, trips_in

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def trips(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Trips]:
    with running_for_trips(tmp_path_factory.mktemp("gateway")) as gateway:
        async with trips_in(gateway, tmp_path_factory.mktemp("trips")) as made:
            yield made


@pytest.mark.thorough
@pytest.mark.parametrize("windows", WINDOWS)
async def test_a_stream_state_of_every_aggregate_and_type_is_made_again_of_a_table(trips: Trips, windows: str) -> None:
    result = await trips.made(every_pair(windows, 7))
    assert result.refusal == ""
    assert result.wrong_values == []
    assert result.found == result.expected and len(result.found) >= 6


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [*range(12), 34])
async def test_a_stream_state_of_drawn_aggregates_is_made_again_of_a_table(trips: Trips, seed: int) -> None:
    result = await trips.made(drawn(seed))
    assert result.is_right, result
