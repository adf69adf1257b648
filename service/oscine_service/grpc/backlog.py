"""Text that was read and that a session does not take yet."""

import asyncio

from oscine_service.grpc.requests import Flush, Text

MOST_CHARACTERS = 1 << 20
"""Of one call; with more than this waiting nothing behind it is read."""


class Backlog:
    """A queue from the task that reads requests to the one that writes into the session."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[Text | Flush | None, int]] = asyncio.Queue()
        self._characters = 0
        self._room = asyncio.Event()
        self._room.set()

    async def put(self, request: Text | Flush | None, characters: int, writer: asyncio.Task[None]) -> None:
        """Queue a request, None for the end, once there is room. Raises what `writer` failed with, if it did."""
        room: asyncio.Task[bool] | None = None
        if not self._room.is_set():
            room = asyncio.create_task(self._room.wait())
            try:
                await asyncio.wait([room, writer], return_when=asyncio.FIRST_COMPLETED)
            finally:
                room.cancel()
        if writer.done():
            writer.result()
        self._characters += characters
        if self._characters > MOST_CHARACTERS:
            self._room.clear()
        self._queue.put_nowait((request, characters))

    async def get(self) -> Text | Flush | None:
        """The next request; what was taken makes room."""
        request, characters = await self._queue.get()
        self._characters -= characters
        if self._characters <= MOST_CHARACTERS:
            self._room.set()
        return request
