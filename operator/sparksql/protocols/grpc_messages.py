"""The messages of a call to a gRPC server: read one at a time, by the handler, each within a time."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from sparksql.protocols.passages import Reading

READ_SECONDS = 150.0  # of a message; the wait for its turn to be large counts in


class LateMessageError(Exception):
    """A message has not come in its time."""

    def __init__(self) -> None:
        super().__init__(f"a message did not arrive within {READ_SECONDS:.0f} s: send it faster, or in smaller ones")


class Messages:
    """The messages of a call; one that is given away is not kept, and who takes the next one has handed it on.

    The call must be of the kind that reads nothing before its handler does: a stream of requests and of answers.
    """

    def __init__(self, context: Any, reading: Reading, *, is_upload: bool) -> None:
        """`is_upload` is whether a call of its method may have more than one message."""
        self._context = context
        self._reading = reading
        self._is_upload = is_upload
        self._given = 0
        self._message: list[bytes] = []

    @property
    def waiting(self) -> bytes:
        """Returns the message that was read and is not given away yet."""
        return self._message[0]

    async def read(self) -> bool:
        """Reads the next message and returns whether there is one. Raises LateMessageError."""
        try:
            async with asyncio.timeout(READ_SECONDS):
                message = await self._context.read()
        except TimeoutError:
            raise LateMessageError from None
        if message is grpc.aio.EOF:
            return False
        self._message = [message]
        return True

    def take(self) -> bytes:
        """Gives away the message that was read as the last one: from now on its taker accounts for it."""
        message = self._message.pop()
        self._reading.handed_on(len(message))
        self._reading.end()
        return message

    def __aiter__(self) -> Messages:
        return self

    async def __anext__(self) -> bytes:
        self._reading.handed_on(self._given)
        self._given = 0
        if not self._message and (not self._is_upload or not await self.read()):
            self._reading.end()
            raise StopAsyncIteration
        self._given = len(self._message[0])
        return self._message.pop()
