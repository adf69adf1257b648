"""jambonz' custom text-to-speech by WebSocket: it sends text as its application's language model writes it, and plays
the 16-bit samples that come back into the call by itself.

Voice, language and rate stand in the address that jambonz opens. A socket says one thing after another
(`websocket/turns.py`); `stop` is a caller who interrupts.
"""

import json
from collections.abc import Iterator, Mapping

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from oscine_engine.errors import InvalidInput
from oscine_engine.events import SessionRequest
from oscine_engine.front import Front
from oscine_engine.session import NothingToSay
from oscine_service.audio import Encoding, Format
from oscine_service.compat.query import each_once, whole
from oscine_service.conversation import MAX_VOICE, Audio, Calls, Config, Flushed, Reply, text_piece
from oscine_service.http.errors import envelope
from oscine_service.limits import Limits
from oscine_service.websocket.accepting import accepted
from oscine_service.websocket.fields import field, loads, shown
from oscine_service.websocket.socket import Message, Socket
from oscine_service.websocket.turns import Turns

PATH = "/v1/telephony/jambonz"
USUAL_RATE = 8000
PIECE_BYTES = 32 << 10
"""Of sound in one message."""


def config(query: Mapping[str, str]) -> Config:
    """What an address asks; what else jambonz writes there is of no use here. Raises InvalidInput."""
    voice = query.get("voice", "")
    if len(voice) > MAX_VOICE:
        raise InvalidInput(f"voice: a name of {len(voice)} characters; it has at most {MAX_VOICE}")
    language = query.get("language", "").partition("-")[0].lower()
    rate = whole(query, "sampleRate", USUAL_RATE)
    return Config(
        SessionRequest(voice=voice or None, language=language or None), Format(Encoding.PCM16, rate or USUAL_RATE)
    )


def spaced(before: str, text: str) -> str:
    """What is appended for `text` behind a piece that ended in `before`: jambonz cuts between words, and words of Latin
    letters must not grow together."""
    if not before or not text or before[-1].isspace() or text[0].isspace() or not text[0].isalnum():
        return text
    return f" {text}" if before[-1].isascii() and text[0].isascii() else text


class Turn:
    """One conversation as this dialect tells it."""

    def __init__(self, dialect: "Jambonz") -> None:
        self._dialect = dialect

    def said(self, reply: Reply) -> Iterator[Message]:
        match reply:
            case Audio(frames=frames):
                sound = b"".join(frames)
                for at in range(0, len(sound), PIECE_BYTES):
                    yield sound[at : at + PIECE_BYTES]
            case Flushed():
                self._dialect.flushed()

    def failed(self, error: Exception) -> Iterator[Message]:
        if not isinstance(error, NothingToSay):
            yield failure(error)


class Jambonz:
    """Messages of one client onto the conversations that follow each other on its socket."""

    def __init__(self, socket: Socket, config: Config) -> None:
        self._socket = socket
        self._turns = Turns(socket, config, lambda: Turn(self))
        self._before = ""

    async def hear(self, message: Message) -> None:
        found = loads(message)
        match kind := field(found, "type", str):
            case "stream":
                text = text_piece(field(found, "text", str)).text
                await self._turns.say(spaced(self._before, text))
                self._before = text[-1:] or self._before
            case "flush":
                self._before = ""
                await self._turns.flush()
            case "stop":
                self._before = ""
                await self._turns.clear()
            case "keepalive":
                pass
            case _:
                raise InvalidInput(f"type: {shown(kind)} is unknown; use one of stream, flush, stop, keepalive")

    def refused(self, error: InvalidInput) -> str:
        return failure(error)

    def flushed(self) -> None:
        self._turns.answered()


def failure(error: Exception) -> str:
    return json.dumps({"type": "error", "error": str(error)})


async def serve(websocket: WebSocket, front: Front, limits: Limits, calls: Calls) -> None:
    """One client, from its request to the end of its socket."""
    try:
        asked = config(each_once(websocket.query_params))
    except InvalidInput as error:
        await websocket.send_denial_response(envelope(error))
        return
    if not await accepted(websocket, calls):
        return
    socket = Socket(websocket, front, limits, calls)
    data = {"sample_rate": asked.format.sample_rate, "base64_encoding": False}
    await socket.send(json.dumps({"type": "connect", "data": data}))
    await socket.run(Jambonz(socket, asked))


def routes(front: Front, limits: Limits, calls: Calls) -> list[BaseRoute]:
    async def endpoint(websocket: WebSocket) -> None:
        await serve(websocket, front, limits, calls)

    return [WebSocketRoute(PATH, endpoint)]
