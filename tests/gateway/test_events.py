"""The events stream: a reader that comes back with the last number it saw loses nothing."""

from __future__ import annotations

import asyncio
import uuid

from sparksql.wire.control import Event, OperationState

from .client import GatewayClient


async def test_a_reader_from_zero_gets_hello_info_and_every_operation(client: GatewayClient) -> None:
    view = await client.ok("SELECT 1")
    seen: dict[str, Event] = {}
    async with client.events() as events:
        hello = await anext(events)
        assert (hello.kind, hello.boot_id) == ("hello", client.boot_id)
        assert (await anext(events)).kind == "info"
        async for event in events:
            if event.operation is not None:
                seen[event.operation.operation_id] = event
                if event.operation.operation_id == view.operation_id:
                    break
    told = seen[view.operation_id].operation
    assert told == view


async def test_changes_come_at_once_and_in_order(client: GatewayClient) -> None:
    operation_id = str(uuid.uuid4())
    states: list[OperationState] = []
    last = 0
    async with client.events(after=10**9) as events:
        assert (await anext(events)).kind == "hello"
    async with asyncio.timeout(120), client.events() as events:
        await client.put("SELECT count(*) FROM range(100)", operation_id)
        async for event in events:
            if event.operation is None:
                continue
            assert event.seq > last, event
            last = event.seq
            if event.operation.operation_id == operation_id:
                states.append(event.operation.state)
                if event.operation.state.is_terminal:
                    break
    order = [OperationState.PENDING, OperationState.RUNNING, OperationState.FINISHED]
    assert states == sorted(states, key=order.index)
    assert states[-1] is OperationState.FINISHED


async def test_a_reader_that_reconnects_again_and_again_loses_nothing(client: GatewayClient) -> None:
    ids = [str(uuid.uuid4()) for _ in range(20)]
    ended: dict[str, OperationState] = {}
    seen = 0

    async def submit() -> None:
        for operation_id in ids:
            await client.put("SELECT 1", operation_id)

    submission = asyncio.create_task(submit())
    async with asyncio.timeout(120):
        while not set(ids) <= set(ended):
            async with client.events(after=seen) as events:
                count = 0
                async for event in events:
                    if event.operation is None:
                        continue
                    assert event.seq > seen, "a change was sent twice"
                    seen = event.seq
                    if event.operation.state.is_terminal:
                        ended[event.operation.operation_id] = event.operation.state
                    count += 1
                    if count == 3 or set(ids) <= set(ended):
                        break  # hang up in the middle
    await submission
    assert {ended[operation_id] for operation_id in ids} == {OperationState.FINISHED}


async def test_a_heartbeat_comes_while_nothing_happens(client: GatewayClient) -> None:
    async with asyncio.timeout(120), client.events() as events:
        async for event in events:
            if event.kind == "heartbeat":
                break
