"""Client halves of WebSockets, as a user would write them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection, connect

from oscine_codecs import pcm
from oscine_service.websocket.messages import HEADER, PACKETS

PCM = {"encoding": "pcm16"}
_SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "websocket.schema.json").read_text())


def published(side: str) -> jsonschema.Draft202012Validator:
    """Checks messages of the client or the server against the schema that users have."""
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{side}", "$defs": _SCHEMA["$defs"]})


FROM_CLIENT, FROM_SERVER = published("client"), published("server")


@dataclass
class Piece:
    """One binary message."""

    number: int
    sequence: int
    samples: int
    start_sample: int
    frames: list[bytes]


def piece(message: bytes) -> Piece:
    version, kind, count, number, sequence, samples, start = HEADER.unpack_from(message)
    body = message[HEADER.size :]
    assert version == 1
    if kind != PACKETS:
        return Piece(number, sequence, samples, start, [body])
    frames = []
    while body:
        size = int.from_bytes(body[:2], "big")
        frames.append(body[2 : 2 + size])
        body = body[2 + size :]
    assert len(frames) == count
    return Piece(number, sequence, samples, start, frames)


@dataclass
class Heard:
    """What one context was sent. `kinds` in order, "audio" among them."""

    kinds: list[str] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    @property
    def last(self) -> dict[str, Any]:
        return self.events[-1]

    @property
    def samples(self) -> int:
        return sum(piece.samples for piece in self.pieces)

    def pcm(self) -> NDArray[np.float32]:
        return pcm.decode(b"".join(frame for piece in self.pieces for frame in piece.frames))

    def check_contiguous(self) -> None:
        position = 0
        for sequence, each in enumerate(self.pieces):
            assert (each.sequence, each.start_sample) == (sequence, position)
            position += each.samples


ENDS = ("done", "cancelled", "error")


class Client:
    """Everything heard, by context. Messages about no context are under None."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.heard: dict[str | None, Heard] = {}
        self._names: dict[int, str] = {}

    async def send(self, kind: str, context: str = "a", **fields: object) -> None:
        message = {"type": kind, "context": context, **fields}
        FROM_CLIENT.validate(message)
        await self.socket.send(json.dumps(message))

    async def say(self, text: str, context: str = "a", **fields: object) -> None:
        await self.send("start", context, **{"format": PCM, "mode": "sentence", "seed": 1, **fields})
        await self.send("text", context, text=text)

    async def next(self) -> tuple[str | None, str]:
        """Whose message came, and of what kind."""
        message = await self.socket.recv()
        if isinstance(message, bytes):
            found = piece(message)
            name: str | None = self._names[found.number]
            self.heard[name].pieces.append(found)
            kind = "audio"
        else:
            event = json.loads(message)
            FROM_SERVER.validate(event)
            name, kind = event.get("context"), event["type"]
            if kind == "started":
                self._names[event["number"]] = event["context"]
                self.heard[name] = Heard()
            self.heard.setdefault(name, Heard()).events.append(event)
        self.heard[name].kinds.append(kind)
        return name, kind

    async def until(self, kind: str, context: str | None = "a") -> Heard:
        """All that `context` was sent, once it was sent that."""
        while await self.next() != (context, kind):
            assert context is None or kind in ENDS or not self._ended(context), self.heard[context].last
        return self.heard[context]

    async def end(self, context: str = "a") -> Heard:
        """All of a context, once it has ended however it did."""
        while not self._ended(context):
            await self.next()
        return self.heard[context]

    def _ended(self, context: str) -> bool:
        heard = self.heard.get(context)
        return heard is not None and heard.kinds[-1] in ENDS


@asynccontextmanager
async def client(address: str, path: str = "/v1/speech", **options: Any) -> AsyncIterator[Client]:
    """A socket whose `ready` has been taken."""
    async with connect(f"ws://{address}{path}", compression=None, proxy=None, **options) as socket:
        found = Client(socket)
        await found.until("ready", None)
        yield found
