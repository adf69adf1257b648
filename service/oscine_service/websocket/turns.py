"""One conversation after another on a socket, for dialects that know of none.

The first text opens one, which is ended once it has been quiet behind a flush, so that a socket which waits for the
next turn holds no place.
"""

import asyncio
from collections.abc import Callable
from itertools import count

from oscine_service.conversation import Cancel, Config, Flush, Text
from oscine_service.websocket.channel import Channel, Translator
from oscine_service.websocket.socket import Socket

QUIET_S = 2.0
"""Behind an answered flush, after which a conversation ends."""


class Turns:
    """translator: of each conversation."""

    def __init__(self, socket: Socket, config: Config, translator: Callable[[], Translator]) -> None:
        self._socket = socket
        self._config = config
        self._translator = translator
        self._names = count(1)
        self._key = ""
        self._waiting = 0
        self._ending: asyncio.TimerHandle | None = None

    async def say(self, text: str) -> None:
        """Raises as `Channel.put` and `Socket.open` do."""
        self._stay()
        channel = self._running
        if channel is None:
            self._key, self._waiting = str(next(self._names)), 0
            channel = self._socket.open(self._key, self._config, self._translator())
        await channel.put(Text(text))

    async def flush(self) -> bool:
        """Whether there is anything to be flushed; if so, `answered` has to be called when it has been."""
        channel = self._running
        if channel is None:
            return False
        self._stay()
        self._waiting += 1
        await channel.put(Flush())
        return True

    def answered(self) -> None:
        """The oldest flush that waited has been answered."""
        self._waiting -= 1
        if not self._waiting:
            self._stay()
            self._ending = asyncio.get_running_loop().call_later(QUIET_S, self._end)

    async def clear(self) -> None:
        """Nothing more comes of what was said."""
        self._stay()
        channel = self._socket.channel(self._key)
        if channel is not None:
            channel.muted = True
            await channel.put(Cancel())

    async def finish(self) -> None:
        """No more text follows in the conversation that runs."""
        self._stay()
        channel = self._socket.channel(self._key)
        if channel is not None:
            await channel.end()

    @property
    def _running(self) -> Channel | None:
        """The conversation that takes text."""
        channel = self._socket.channel(self._key)
        return None if channel is None or channel.ended or channel.muted else channel

    def _stay(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _end(self) -> None:
        self._finishing = asyncio.ensure_future(self.finish())
