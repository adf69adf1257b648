"""Text that was read and that a session does not take yet."""

import asyncio
import io
from collections import deque

from oscine_service.conversation.verbs import Flush, Mark, Text

MOST_CHARACTERS = 1 << 20
"""Of one conversation; with more than this waiting nothing behind it is read."""
MESSAGE = 64
"""Characters that a flush or a mark, or text behind one, counts for beside its own: so much memory goes with it."""
JOINED = 4096
"""Characters from which on more text begins a piece of its own, so that what is taken makes room soon."""


class _Piece:
    """Text that came in one message or in many."""

    __slots__ = ("cost", "text")

    def __init__(self) -> None:
        self.text = io.StringIO(newline="")
        self.cost = MESSAGE

    def add(self, text: str) -> None:
        self.text.write(text)
        self.cost += len(text)


class Backlog:
    """A queue from the task that reads a client to the one that writes into its session.

    It holds at most MOST_CHARACTERS, as counted here, and one message more, in whatever messages they came.
    """

    def __init__(self) -> None:
        self._waiting: deque[_Piece | Flush | Mark | None] = deque()
        self._cost = 0
        self._some = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False

    def __len__(self) -> int:
        """What waits, in pieces: text that came in many messages is one."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        return not self._room.is_set()

    async def put(self, verb: Text | Flush | Mark | None) -> None:
        """Queue a verb once there is room; None, the end, needs none. After `close` it is left out."""
        if verb is not None:
            await self._room.wait()
        if self._closed:
            return
        if isinstance(verb, Text):
            self._put_text(verb.text)
        else:
            self._waiting.append(verb)
            self._cost += _cost(verb)
        if self._cost > MOST_CHARACTERS:
            self._room.clear()
        self._some.set()

    def _put_text(self, text: str) -> None:
        last = self._waiting[-1] if self._waiting else None
        before = 0
        if isinstance(last, _Piece) and last.cost < JOINED:
            before = last.cost
        else:
            self._waiting.append(last := _Piece())
        last.add(text)
        self._cost += last.cost - before

    async def get(self) -> Text | Flush | Mark | None:
        """The next verb; what was taken makes room."""
        while not self._waiting:
            self._some.clear()
            await self._some.wait()
        verb = self._waiting.popleft()
        self._cost -= _cost(verb)
        if self._cost <= MOST_CHARACTERS:
            self._room.set()
        return Text(verb.text.getvalue()) if isinstance(verb, _Piece) else verb

    def close(self) -> None:
        """Nobody will take what is queued, or is put from now on: what waits for room need not."""
        self._closed = True
        self._cost = 0
        self._waiting.clear()
        self._room.set()


def _cost(verb: _Piece | Flush | Mark | None) -> int:
    match verb:
        case _Piece(cost=cost):
            return cost
        case Mark(name=name):
            return MESSAGE + len(name)
        case Flush():
            return MESSAGE
        case None:
            return 0
