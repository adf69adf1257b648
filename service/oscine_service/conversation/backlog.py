"""Text that was read and that a session does not take yet."""

import asyncio

from oscine_service.conversation.verbs import Flush, Mark, Text

MOST_CHARACTERS = 1 << 20
"""Of one conversation; with more than this waiting nothing behind it is read."""


class Backlog:
    """A queue from the task that reads a client to the one that writes into its session."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[Text | Flush | Mark | None, int]] = asyncio.Queue()
        self._characters = 0
        self._room = asyncio.Event()
        self._room.set()

    @property
    def full(self) -> bool:
        return not self._room.is_set()

    async def put(self, verb: Text | Flush | Mark | None) -> None:
        """Queue a verb once there is room; None, the end, needs none."""
        if verb is not None:
            await self._room.wait()
        # What is queued takes room, whether or not it says anything.
        characters = max(1, len(verb.text)) if isinstance(verb, Text) else 1
        self._characters += characters
        if self._characters > MOST_CHARACTERS:
            self._room.clear()
        self._queue.put_nowait((verb, characters))

    async def get(self) -> Text | Flush | Mark | None:
        """The next verb; what was taken makes room."""
        verb, characters = await self._queue.get()
        self._characters -= characters
        if self._characters <= MOST_CHARACTERS:
            self._room.set()
        return verb

    def close(self) -> None:
        """Nobody will take what is queued: what waits for room need not."""
        self._characters = 0
        self._queue = asyncio.Queue()
        self._room.set()
