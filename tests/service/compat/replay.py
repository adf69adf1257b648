"""A client that sends what was recorded of real ones, and gathers what it is answered."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

PATIENCE_S = 60


class Replay:
    """Answers in order: objects, and bytes of binary messages."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.answers: list[dict[str, Any] | bytes] = []

    async def send(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            await self.socket.send(json.dumps(message))

    async def next(self) -> dict[str, Any] | bytes:
        message = await self.socket.recv()
        answer = message if isinstance(message, bytes) else json.loads(message)
        self.answers.append(answer)
        return answer

    async def until(self, wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The first answer from now on that is wanted."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                answer = await self.next()
                if isinstance(answer, dict) and wanted(answer):
                    return answer

    async def until_sound(self) -> bytes:
        """The first binary answer from now on."""
        async with asyncio.timeout(PATIENCE_S):
            while not isinstance(answer := await self.next(), bytes):
                pass
            return answer

    async def closed(self) -> int | None:
        """The code with which the other side closes the socket."""
        try:
            while True:
                await self.next()
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd is not None else None

    @property
    def told(self) -> list[dict[str, Any]]:
        return [answer for answer in self.answers if isinstance(answer, dict)]

    @property
    def sound(self) -> bytes:
        """Of all binary answers."""
        return b"".join(answer for answer in self.answers if isinstance(answer, bytes))


@asynccontextmanager
async def replay(address: str, path: str, **options: Any) -> AsyncIterator[Replay]:
    async with connect(f"ws://{address}{path}", compression=None, proxy=None, **options) as socket:
        yield Replay(socket)
