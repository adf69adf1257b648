"""ElevenLabs' text-to-speech WebSockets onto conversations, for clients that were written for them: many contexts on a
socket (multi-stream-input), or one (stream-input).

Closing a context that was flushed lets it finish; closing it with text that was not, or closing it twice, stops it.
Which model is named, and how text is to be gathered before it is spoken, makes no difference: speech starts as soon as
it can.
"""

import asyncio
import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from starlette.websockets import WebSocket

from oscine_engine.errors import InvalidInput
from oscine_engine.events import SessionRequest
from oscine_engine.front import Front
from oscine_engine.session import NothingToSay
from oscine_service.audio import Container, Encoding, Format
from oscine_service.compat.query import each_once, switch, whole, within
from oscine_service.conversation import (
    Audio,
    Calls,
    Cancel,
    Cancelled,
    Config,
    Done,
    Flush,
    Reply,
    Text,
    Word,
    Words,
)
from oscine_service.errors import code, row
from oscine_service.http.errors import envelope
from oscine_service.limits import Limits
from oscine_service.websocket.accepting import accepted
from oscine_service.websocket.channel import Channel
from oscine_service.websocket.fields import Object, field, loads, only, shown
from oscine_service.websocket.socket import Message, Socket

MULTI = "/v1/text-to-speech/{voice}/multi-stream-input"
SINGLE = "/v1/text-to-speech/{voice}/stream-input"
DEFAULT_FORMAT = "mp3_44100_128"
_FORMAT = re.compile(r"(mp3|pcm|ulaw|alaw|opus)_(\d{4,5})(?:_(\d{2,3}))?")
_QUERY = frozenset(
    "model_id output_format language_code enable_logging enable_ssml_parsing optimize_streaming_latency "
    "inactivity_timeout sync_alignment auto_mode apply_text_normalization seed authorization single_use_token".split()
)
_FIELDS = frozenset(
    "text context_id contextId voice_settings generation_config flush close_context close_socket "
    "try_trigger_generation pronunciation_dictionary_locators xi_api_key xi-api-key authorization".split()
)
MAX_CONTEXT = 200
LONGEST_SILENCE_S = 180
"""That the original lets a client ask for. Here all sockets wait as long as the service is set to."""


def output_format(name: str) -> Format:
    """As ElevenLabs names them, such as pcm_24000. Raises InvalidInput."""
    match = _FORMAT.fullmatch(name)
    if match is None:
        raise InvalidInput(
            f"output_format: {shown(name)} is unknown; use pcm_24000, or another rate, mp3_44100_128, ulaw_8000, "
            "alaw_8000 or opus_48000_32"
        )
    kind, rate, kilobits = match[1], int(match[2]), int(match[3] or 0)
    bitrate = 1000 * kilobits
    match kind:
        case "mp3":
            return Format(Encoding.MP3, rate, bitrate)
        case "opus":
            return Format(Encoding.OPUS, rate, bitrate, Container.OGG)
        case "pcm":
            return Format(Encoding.PCM16, rate, bitrate)
        case _:
            return Format(Encoding.MULAW if kind == "ulaw" else Encoding.ALAW, rate, bitrate)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a URL asks of all that is said on its socket. at_once: each message is complete by itself. absolute: times
    count from the start of a context; else from where the alignment before ended."""

    voice: str
    format: Format
    language: str | None
    seed: int | None
    at_once: bool
    absolute: bool

    def config(self, speed: float) -> Config:
        session = SessionRequest(voice=self.voice, language=self.language, seed=self.seed, speed=speed, word_times=True)
        return Config(session, self.format)


def asked(voice: str, query: Mapping[str, str]) -> Asked:
    """Raises InvalidInput."""
    if unknown := sorted(query.keys() - _QUERY):
        raise InvalidInput(f"{shown(unknown[0])} is not offered; the parameters are {', '.join(sorted(_QUERY))}")
    if query.get("apply_text_normalization", "auto") not in ("auto", "on"):
        raise InvalidInput("apply_text_normalization: numbers are always read as words; use auto or on")
    switch(query, "enable_logging", default=True)
    within(query, "inactivity_timeout", 20, 1, LONGEST_SILENCE_S)
    within(query, "optimize_streaming_latency", 0, 0, 4)
    return Asked(
        voice=voice,
        format=output_format(query.get("output_format", DEFAULT_FORMAT)),
        language=query.get("language_code", "").partition("-")[0].lower() or None,
        seed=whole(query, "seed", 0) if "seed" in query else None,
        at_once=switch(query, "auto_mode", default=False),
        absolute=switch(query, "sync_alignment", default=False),
    )


def speed(message: Object) -> float:
    """What a context's first message says of how it is spoken. Raises InvalidInput for what is not offered."""
    if message.get("pronunciation_dictionary_locators"):
        raise InvalidInput("pronunciation_dictionary_locators: there are no dictionaries; write it in the text")
    settings = field(message, "voice_settings", dict, {})
    for name in settings:
        if name != "speed" and settings[name] is not None:
            raise InvalidInput(f"voice_settings.{name}: it is not offered; only speed is")
    rate: float = field(settings, "speed", float, 1.0, inside="voice_settings")
    return rate


class Context:
    """One conversation as this dialect tells it. name: None where there is one on a socket. unflushed: text was sent
    that no flush followed. closing: the client has closed it. hang_up: called behind the error that ends it."""

    def __init__(self, name: str | None, asked: Asked, hang_up: Callable[[Exception], None] | None = None) -> None:
        self._hang_up = hang_up
        self.unflushed = False
        self.closing = False
        self._names = {} if name is None else {"contextId": name}
        self._rate = asked.format.sample_rate
        self._absolute = asked.absolute
        self._told_ms = 0

    def said(self, reply: Reply) -> Iterator[str]:
        match reply:
            case Audio(frames=frames):
                yield self._event(base64.b64encode(b"".join(frames)).decode(), None)
            case Words(words=words) if words:
                yield self._event("", self._alignment(words))
            case Done() | Cancelled():
                yield self._end()

    def failed(self, error: Exception) -> Iterator[str]:
        if isinstance(error, NothingToSay):
            yield self._end()
        else:
            yield failure(error, self._names)
            if self._hang_up is not None:
                self._hang_up(error)

    def _end(self) -> str:
        return json.dumps(
            {"audio": None, "isFinal": True, "alignment": None, "normalizedAlignment": None, **self._names}
        )

    def _event(self, audio: str, alignment: object) -> str:
        told = {"audio": audio, "isFinal": None, "alignment": alignment, "normalizedAlignment": alignment}
        return json.dumps({**told, **self._names})

    def _alignment(self, words: tuple[Word, ...]) -> dict[str, object]:
        """Times of characters."""
        chars: list[str] = []
        starts: list[int] = []
        begin = 0 if self._absolute else self._told_ms
        for number, word in enumerate(words):
            start, end = self._ms(word.start_sample), self._ms(word.end_sample)
            after = self._ms(words[number + 1].start_sample) if number + 1 < len(words) else end
            for text, since, until in ((word.text, start, end), (word.behind, end, max(end, after))):
                chars += text
                starts += [since + (until - since) * at // len(text) for at in range(len(text))]
        end = max(self._ms(words[-1].end_sample), starts[-1])
        self._told_ms = end
        durations = [later - earlier for earlier, later in zip(starts, [*starts[1:], end], strict=True)]
        return {"chars": chars, "charStartTimesMs": [each - begin for each in starts], "charDurationsMs": durations}

    def _ms(self, samples: int) -> int:
        return samples * 1000 // self._rate


def failure(error: Exception, names: Mapping[str, str]) -> str:
    """An error as clients read it."""
    return json.dumps({"error": code(error), "message": str(error), "code": row(error).close, **names})


class ElevenLabs:
    """Messages of one client onto its conversations."""

    def __init__(self, socket: Socket, asked: Asked, *, multi: bool) -> None:
        self._socket = socket
        self._asked = asked
        self._multi = multi
        self._contexts: dict[str, Context] = {}

    async def hear(self, message: Message) -> None:
        try:
            await self._hear(message)
        except InvalidInput as error:
            if self._multi:
                raise
            await self._socket.send(failure(error, {}))
            await self._socket.close(row(error).close, str(error))

    async def _hear(self, message: Message) -> None:
        found = loads(message)
        name = field(found, "context_id", str, field(found, "contextId", str, ""))
        if len(name) > MAX_CONTEXT:
            raise InvalidInput(f"context_id: {len(name)} characters; it has at most {MAX_CONTEXT}")
        if field(found, "close_socket", bool, False):
            await self._close_socket()
            return
        channel = self._socket.channel(name)
        try:
            only(found, _FIELDS, "a message")
            await self._context(name, channel, found)
        except InvalidInput as error:
            if channel is not None:
                await channel.end(error)  # all that was accepted before is spoken first
            elif self._multi:
                await self._socket.send(failure(error, {"contextId": name}))
            else:
                raise

    def refused(self, error: InvalidInput) -> str:
        return failure(error, {})

    async def _context(self, name: str, channel: Channel | None, message: Object) -> None:
        text = field(message, "text", str, None)
        flush = field(message, "flush", bool, False)
        if field(message, "close_context", bool, False):
            if channel is not None:
                await self._close_context(name, channel)
            return
        if not self._multi and text == "":
            if channel is not None:
                await channel.end()
            self._socket.close_when_done()
            return
        if channel is None:
            if not text and not flush:
                return  # a sign of life
            context = Context(name, self._asked) if self._multi else Context(None, self._asked, self._lost)
            channel = self._socket.open(name, self._asked.config(speed(message)), context)
            self._contexts = {each: known for each, known in self._contexts.items() if self._socket.channel(each)}
            self._contexts[name] = context
        context = self._contexts[name]
        if text:
            await channel.put(Text(text))
            context.unflushed = context.unflushed or bool(text.strip())
        if flush or (text and self._asked.at_once and text.strip()):
            await channel.put(Flush())
        if flush:
            context.unflushed = False

    def _lost(self, error: Exception) -> None:
        """The one conversation of this socket ended with an error, which was told: so does the socket."""
        self._hanging_up = asyncio.ensure_future(self._socket.close(row(error).close, str(error)))

    async def _close_context(self, name: str, channel: Channel) -> None:
        context = self._contexts[name]
        if context.unflushed or context.closing:
            await channel.put(Cancel())
        else:
            await channel.end()
        context.closing = True

    async def _close_socket(self) -> None:
        for name in list(self._contexts):
            if (channel := self._socket.channel(name)) is not None:
                await channel.end()
        self._socket.close_when_done()


async def _serve(websocket: WebSocket, front: Front, limits: Limits, calls: Calls, *, multi: bool) -> None:
    try:
        wanted = asked(websocket.path_params["voice"], each_once(websocket.query_params))
    except InvalidInput as error:
        await websocket.send_denial_response(envelope(error))
        return
    if await accepted(websocket, calls):
        socket = Socket(websocket, front, limits, calls)
        await socket.run(ElevenLabs(socket, wanted, multi=multi))


async def serve_multi(websocket: WebSocket, front: Front, limits: Limits, calls: Calls) -> None:
    """One client with many contexts, from its request to the end of its socket."""
    await _serve(websocket, front, limits, calls, multi=True)


async def serve_single(websocket: WebSocket, front: Front, limits: Limits, calls: Calls) -> None:
    """One client with one context, from its request to the end of its socket."""
    await _serve(websocket, front, limits, calls, multi=False)
