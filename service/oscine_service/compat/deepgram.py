"""Deepgram's text-to-speech WebSocket (Speak v1) onto conversations, for clients that were written for it.

A socket says one thing after another (`websocket/turns.py`). The voice is what the client calls a model.
"""

import asyncio
import json
import uuid
from collections.abc import Iterator, Mapping
from itertools import count

from starlette.websockets import WebSocket

from oscine_engine.errors import InvalidInput, UnknownVoice
from oscine_engine.events import SessionRequest
from oscine_engine.front import Front
from oscine_engine.session import NothingToSay
from oscine_service.audio import Encoding, Format
from oscine_service.compat.query import each_once, number, switch, whole
from oscine_service.conversation import Audio, Calls, Config, Flushed, Reply
from oscine_service.errors import code, row
from oscine_service.http.errors import envelope
from oscine_service.limits import Limits
from oscine_service.security.errors import Forbidden
from oscine_service.security.principal import current
from oscine_service.voices.library import Library
from oscine_service.websocket.accepting import accepted
from oscine_service.websocket.fields import field, loads, only, shown
from oscine_service.websocket.socket import Message, Socket
from oscine_service.websocket.turns import Turns

PATH = "/v1/speak"
ENCODINGS = {"linear16": (Encoding.PCM16, 24000), "mulaw": (Encoding.MULAW, 8000), "alaw": (Encoding.ALAW, 8000)}
"""And the rate of each where none is asked for."""
QUERY = frozenset({"model", "encoding", "sample_rate", "container", "speed", "mip_opt_out", "tag"})
MAX_CHARACTERS = 2000
"""Of one message, as the original has it."""


def config(query: Mapping[str, str]) -> Config:
    """What the parameters of a URL ask. Raises InvalidInput."""
    if unknown := sorted(query.keys() - QUERY):
        raise InvalidInput(f"{shown(unknown[0])} is not offered; the parameters are {', '.join(sorted(QUERY))}")
    encoding = query.get("encoding", "linear16")
    if encoding not in ENCODINGS:
        raise InvalidInput(f"encoding: {shown(encoding)} is not offered here; use one of {', '.join(ENCODINGS)}")
    if query.get("container", "none") != "none":
        raise InvalidInput(f"container: {shown(query['container'])} is not offered here; use none")
    switch(query, "mip_opt_out", default=False)
    kind, rate = ENCODINGS[encoding]
    session = SessionRequest(voice=query.get("model") or None, speed=number(query, "speed", 1.0))
    return Config(session, Format(kind, whole(query, "sample_rate", rate)))


class Turn:
    """One conversation as this dialect tells it."""

    def __init__(self, socket: "Deepgram") -> None:
        self._socket = socket

    def said(self, reply: Reply) -> Iterator[Message]:
        match reply:
            case Audio(frames=frames):
                yield b"".join(frames)
            case Flushed():
                yield self._socket.flushed()

    def failed(self, error: Exception) -> Iterator[Message]:
        if not isinstance(error, NothingToSay):
            yield self._socket.failed(error)


class Deepgram:
    """Messages of one client onto the conversations that follow each other on its socket."""

    def __init__(self, socket: Socket, config: Config) -> None:
        self._socket = socket
        self._turns = Turns(socket, config, lambda: Turn(self))
        self._sequence = count()

    async def hear(self, message: Message) -> None:
        found = loads(message)
        kind = field(found, "type", str)
        match kind:
            case "Speak":
                only(found, frozenset({"type", "text"}), kind)
                text = field(found, "text", str)
                if len(text) > MAX_CHARACTERS:
                    raise InvalidInput(f"text: {len(text)} characters; send at most {MAX_CHARACTERS} in one message")
                await self._turns.say(text)
            case "Flush":
                await self._flush()
            case "Clear":
                await self._clear()
            case "Close":
                await self._close()
            case _:
                raise InvalidInput(f"type: {shown(kind)} is unknown; use one of Speak, Flush, Clear, Close")

    def refused(self, error: InvalidInput) -> str:
        """The socket, and all text that was taken, stay as they were."""
        return json.dumps({"type": "Warning", "description": str(error), "warn_msg": str(error), "code": code(error)})

    def flushed(self) -> str:
        """The answer to the oldest flush that waits for one."""
        self._turns.answered()
        return json.dumps({"type": "Flushed", "sequence_id": next(self._sequence)})

    def failed(self, error: Exception) -> str:
        """A conversation was lost, and what was to be said with it: the client is told, and has to connect again."""
        self._hanging_up = asyncio.ensure_future(self._hang_up(row(error).close, str(error)))
        return json.dumps({"type": "Error", "description": str(error), "err_msg": str(error), "code": code(error)})

    async def _flush(self) -> None:
        if not await self._turns.flush():
            # Nothing waits to be spoken.
            await self._socket.send(json.dumps({"type": "Flushed", "sequence_id": next(self._sequence)}))

    async def _clear(self) -> None:
        """Nothing of what was asked before may come behind the answer."""
        await self._turns.clear()
        await self._socket.send(json.dumps({"type": "Cleared", "sequence_id": next(self._sequence)}))

    async def _close(self) -> None:
        """All that was sent is spoken first."""
        await self._turns.finish()
        self._socket.close_when_done()

    async def _hang_up(self, close: int, why: str) -> None:
        await asyncio.sleep(0)
        await self._socket.close(close, why)


async def _check_voice(name: str | None, front: Front, voices: Library | None) -> None:
    """Raises InvalidInput for a model that is no voice, as the original refuses it."""
    try:
        if name is not None and voices is not None:
            await voices.get(current(), name)
        elif name is not None:
            front.check_voice(name)
    except UnknownVoice as error:
        raise InvalidInput(f"model: {error}") from error


async def serve(
    websocket: WebSocket, front: Front, limits: Limits, calls: Calls, voices: Library | None = None
) -> None:
    """One client, from its request to the end of its socket."""
    try:
        asked = config(each_once(websocket.query_params))
        await _check_voice(asked.session.voice, front, voices)
    except (InvalidInput, Forbidden) as error:
        await websocket.send_denial_response(envelope(error))
        return
    if not await accepted(websocket, calls, ("token", "bearer")):
        return
    socket = Socket(websocket, front, limits, calls)
    voice = asked.session.voice or next(iter(front.voices), "")
    told = {
        "type": "Metadata",
        "request_id": str(uuid.uuid4()),
        "model_name": voice,
        "model_version": "oscine",
        "model_uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, voice)),
    }
    await socket.send(json.dumps(told))
    await socket.run(Deepgram(socket, asked))
