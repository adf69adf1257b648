"""Cartesia's text-to-speech WebSocket onto conversations, for clients that were written for it.

One context is one conversation. What this service has nothing for is refused with a reason; which model is named makes
no difference.
"""

import asyncio
import base64
import json
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from starlette.websockets import WebSocket

from oscine_engine.errors import InvalidInput
from oscine_engine.events import SessionRequest
from oscine_engine.front import Front
from oscine_engine.session import NothingToSay
from oscine_service.audio import Encoding, Format
from oscine_service.compat.times import heard
from oscine_service.conversation import Audio, Calls, Cancel, Config, Done, Flush, Flushed, Reply, Text, Words
from oscine_service.conversation.verbs import MAX_VOICE
from oscine_service.errors import code, row
from oscine_service.limits import Limits
from oscine_service.websocket.accepting import accepted
from oscine_service.websocket.channel import Channel
from oscine_service.websocket.fields import Object, field, loads, only, shown
from oscine_service.websocket.socket import Message, Socket

PATH = "/tts/websocket"
ENCODINGS = {
    "pcm_s16le": Encoding.PCM16,
    "pcm_f32le": Encoding.PCM_F32,
    "pcm_mulaw": Encoding.MULAW,
    "pcm_alaw": Encoding.ALAW,
}
SPEEDS = {"slow": 0.8, "normal": 1.0, "fast": 1.25}
DEFAULT_DELAY_MS, MAX_DELAY_MS = 3000, 5000
MAX_CONTEXT = 200


@dataclass(frozen=True, slots=True)
class Generation:
    """A message with text. delay_s: how long text may be held back for more; 0: each message is spoken at once. more:
    the client will send more."""

    context: str
    config: Config
    transcript: str
    more: bool
    flush: bool
    delay_s: float


@dataclass(frozen=True, slots=True)
class Refused:
    """A message of a context that cannot be served."""

    context: str
    error: InvalidInput


@dataclass(frozen=True, slots=True)
class Stop:
    """Say no more in a context."""

    context: str


def parse(message: Message) -> Generation | Stop | Refused:
    """Raises InvalidInput for a message that no context can be told of."""
    found = loads(message)
    context = field(found, "context_id", str)
    if not 0 < len(context) <= MAX_CONTEXT:
        raise InvalidInput(f"context_id: {len(context)} characters; it has 1 to {MAX_CONTEXT}")
    try:
        if field(found, "cancel", bool, False):
            return Stop(context)
        return _generation(context, found)
    except InvalidInput as error:
        return Refused(context, error)


_FIELDS = frozenset(
    "context_id cancel model_id transcript voice output_format language continue flush max_buffer_delay_ms duration "
    "speed generation_config add_timestamps add_phoneme_timestamps use_normalized_timestamps "
    "pronunciation_dict_id".split()
)


def _generation(context: str, message: Object) -> Generation:
    only(message, _FIELDS, "a generation request")
    for name, why in (
        ("duration", "speech takes as long as it takes"),
        ("pronunciation_dict_id", "there are no dictionaries; pronunciations can be written in the text"),
        ("add_phoneme_timestamps", "only words have times"),
        ("use_normalized_timestamps", "times are those of words as they were written"),
    ):
        if message.get(name):
            raise InvalidInput(f"{name}: it is not offered: {why}")
    delay_ms = field(message, "max_buffer_delay_ms", int, DEFAULT_DELAY_MS)
    if not 0 <= delay_ms <= MAX_DELAY_MS:
        raise InvalidInput(f"max_buffer_delay_ms: {delay_ms} is out of range; use 0 to {MAX_DELAY_MS}")
    language = field(message, "language", str, "")
    session = SessionRequest(
        voice=_voice(message.get("voice")),
        language=language.partition("-")[0].lower() or None,
        speed=_speed(message),
        word_times=field(message, "add_timestamps", bool, False),
    )
    return Generation(
        context=context,
        config=Config(session, _format(field(message, "output_format", dict))),
        transcript=field(message, "transcript", str),
        more=field(message, "continue", bool, False),
        flush=field(message, "flush", bool, False),
        delay_s=delay_ms / 1000,
    )


def _voice(voice: object) -> str:
    """By its name, bare as the newest clients send it, or in an object."""
    if isinstance(voice, dict):
        if field(voice, "mode", str, "id", inside="voice") != "id":
            raise InvalidInput(f"voice.mode: {shown(voice['mode'])} is not offered; use id, with the name of a voice")
        if voice.get("__experimental_controls"):
            raise InvalidInput("voice.__experimental_controls: they are not offered; use generation_config.speed")
        voice = field(voice, "id", str, inside="voice")
    if not isinstance(voice, str) or not 0 < len(voice) <= MAX_VOICE:
        raise InvalidInput("voice: it must be the name of a voice, or {mode: id, id: the name}")
    return voice


def _speed(message: Object) -> float:
    controls = field(message, "generation_config", dict, {})
    only(controls, frozenset({"speed", "volume", "emotion"}), "generation_config")
    if field(controls, "volume", float, 1.0, inside="generation_config") != 1.0:
        raise InvalidInput("generation_config.volume: it is not offered; leave it out, or 1")
    if field(controls, "emotion", str, "neutral", inside="generation_config") != "neutral":
        raise InvalidInput("generation_config.emotion: it is not offered; leave it out, or neutral")
    named = field(message, "speed", str, "normal")
    if named not in SPEEDS:
        raise InvalidInput(f"speed: {shown(named)} is unknown; use one of {', '.join(SPEEDS)}")
    speed: float = field(controls, "speed", float, SPEEDS[named], inside="generation_config")
    return speed


def _format(message: Object) -> Format:
    if (container := field(message, "container", str, "raw")) != "raw":
        raise InvalidInput(f"output_format.container: {shown(container)} is not offered here; use raw")
    encoding = field(message, "encoding", str)
    if encoding not in ENCODINGS:
        raise InvalidInput(f"output_format.encoding: {shown(encoding)} is unknown; use one of {', '.join(ENCODINGS)}")
    return Format(ENCODINGS[encoding], field(message, "sample_rate", int))


class Context:
    """One conversation as this dialect tells it. flushes: which of those that wait the client asked for."""

    def __init__(self, name: str, config: Config) -> None:
        self.name = name
        self.config = config
        self.flushes: deque[bool] = deque()
        self.holding: asyncio.TimerHandle | None = None
        self._answered = 0
        self._rate = config.format.sample_rate
        self._since = time.monotonic()

    def said(self, reply: Reply) -> Iterator[str]:
        match reply:
            case Audio(frames=frames):
                since, self._since = self._since, time.monotonic()
                data = base64.b64encode(b"".join(frames)).decode()
                step_ms = 1000 * (self._since - since)
                yield self._event("chunk", data=data, step_time=step_ms, flush_id=self._answered + 1)
            case Words(words=words):
                times = {
                    "words": [heard(word) for word in words],
                    "start": [word.start_sample / self._rate for word in words],
                    "end": [word.end_sample / self._rate for word in words],
                }
                yield self._event("timestamps", word_timestamps=times, flush_id=self._answered + 1)
            case Flushed() if self.flushes.popleft():
                self._answered += 1
                yield self._event("flush_done", flush_id=self._answered, flush_done=True)
            case Done():
                yield self._end()

    def failed(self, error: Exception) -> Iterator[str]:
        # A turn of emoji alone is silent, and no fault of an agent's.
        yield self._end() if isinstance(error, NothingToSay) else failure(error, self.name)

    def _end(self) -> str:
        return json.dumps({"type": "done", "context_id": self.name, "done": True, "status_code": 200})

    def _event(self, kind: str, **fields: object) -> str:
        return json.dumps({"type": kind, "context_id": self.name, "done": False, "status_code": 206, **fields})


def failure(error: Exception, context: str | None = None) -> str:
    """An error as clients read it."""
    told: dict[str, Any] = {
        "type": "error",
        "done": False,  # where it is true, some clients take it for the end of a turn and look no further
        "status_code": row(error).http,
        "error_code": code(error),
        "title": code(error).replace("_", " ").capitalize(),
        "message": str(error),
        "error": str(error),
    }
    return json.dumps(told if context is None else {**told, "context_id": context})


class Cartesia:
    """Messages of one client onto its conversations."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._contexts: dict[str, Context] = {}

    async def hear(self, message: Message) -> None:
        asked = parse(message)
        channel = self._socket.channel(asked.context)
        match asked:
            case Stop():
                if channel is not None:
                    self._hold(self._contexts[asked.context], None)
                    channel.muted = True  # nothing more comes for a context that was cancelled, an answer included
                    await channel.put(Cancel())
            case Refused(error=error):
                await self._refuse(asked.context, channel, error)
            case Generation():
                try:
                    await self._generate(asked, channel)
                except InvalidInput as error:
                    await self._refuse(asked.context, channel, error)

    def refused(self, error: InvalidInput) -> str:
        return failure(error)

    async def _generate(self, asked: Generation, channel: Channel | None) -> None:
        if channel is None:
            context = Context(asked.context, asked.config)
            channel = self._socket.open(asked.context, asked.config, context)
            self._contexts = {name: each for name, each in self._contexts.items() if self._socket.channel(name)}
            self._contexts[asked.context] = context
        context = self._contexts[asked.context]
        if asked.config != context.config:
            raise InvalidInput(
                "voice, language and output_format are those of a context's first message: use a new one"
            )
        self._hold(context, None)
        if asked.transcript:
            await channel.put(Text(asked.transcript))
        if asked.flush or (asked.delay_s == 0 and asked.transcript.strip()):
            await self._flush(channel, context, asked=True)
        elif asked.more and asked.transcript:
            timer = asyncio.get_running_loop().call_later(asked.delay_s, self._give_up_waiting, channel, context)
            self._hold(context, timer)
        if not asked.more:
            await channel.end()

    async def _flush(self, channel: Channel, context: Context, *, asked: bool) -> None:
        await channel.put(Flush())
        context.flushes.append(asked)

    def _give_up_waiting(self, channel: Channel, context: Context) -> None:
        """No more text came: what is there is spoken as it is."""
        context.holding = None
        if not channel.over:
            self._flushing = asyncio.ensure_future(self._flush(channel, context, asked=False))

    @staticmethod
    def _hold(context: Context, timer: asyncio.TimerHandle | None) -> None:
        if context.holding is not None:
            context.holding.cancel()
        context.holding = timer

    async def _refuse(self, name: str, channel: Channel | None, error: InvalidInput) -> None:
        """All that was accepted before is spoken first."""
        if channel is not None:
            self._hold(self._contexts[name], None)
            await channel.end(error)
        else:
            await self._socket.send(failure(error, name))


async def serve(websocket: WebSocket, front: Front, limits: Limits, calls: Calls) -> None:
    """One client, from its request to the end of its socket."""
    if await accepted(websocket, calls):
        socket = Socket(websocket, front, limits, calls)
        await socket.run(Cartesia(socket))
