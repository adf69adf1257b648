"""The other side of carriers' WebSockets: what they are documented to send, and a listener with a speed of its own."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from oscine_service.audio import Encoding, Format

Message = str | bytes
MULAW, ALAW = Format(Encoding.MULAW, 8000), Format(Encoding.ALAW, 8000)


@dataclass(frozen=True)
class Sound:
    data: bytes


@dataclass(frozen=True)
class Mark:
    name: str


class Clear:
    pass


@dataclass(frozen=True)
class Script:
    """A carrier as its documents have it. opening: what it sends first. caller: what the caller's voice comes in.
    heard: what says that a mark was heard. over: its last message. read: what a message of ours asks."""

    path: str
    opening: tuple[Message, ...]
    names: tuple[str, ...]
    format: Format
    caller: Message
    heard: Callable[[str], str]
    over: Message | None
    read: Callable[[Message], Sound | Mark | Clear]


def _json(message: Message) -> Any:
    assert isinstance(message, str)
    return json.loads(message)


def _twilio(message: Message) -> Sound | Mark | Clear:
    match _json(message):
        case {"event": "media", "streamSid": "MZ18ad3ab5a668481ce02b83e7395059f0", "media": {"payload": str(payload)}}:
            return Sound(base64.b64decode(payload, validate=True))
        case {"event": "mark", "streamSid": "MZ18ad3ab5a668481ce02b83e7395059f0", "mark": {"name": str(name)}}:
            return Mark(name)
        case {"event": "clear", "streamSid": "MZ18ad3ab5a668481ce02b83e7395059f0"}:
            return Clear()
        case other:
            raise AssertionError(other)


def _telnyx(message: Message) -> Sound | Mark | Clear:
    match _json(message):
        case {"event": "media", "media": {"payload": str(payload)}}:
            return Sound(base64.b64decode(payload, validate=True))
        case {"event": "mark", "mark": {"name": str(name)}}:
            return Mark(name)
        case {"event": "clear"}:
            return Clear()
        case other:
            raise AssertionError(other)


def _plivo(message: Message) -> Sound | Mark | Clear:
    match _json(message):
        case {
            "event": "playAudio",
            "media": {"contentType": "audio/x-mulaw", "sampleRate": 8000, "payload": str(payload)},
        }:
            return Sound(base64.b64decode(payload, validate=True))
        case {"event": "checkpoint", "streamId": "20170ada-f610-433b-8758-c02a2aab3662", "name": str(name)}:
            return Mark(name)
        case {"event": "clearAudio", "streamId": "20170ada-f610-433b-8758-c02a2aab3662"}:
            return Clear()
        case other:
            raise AssertionError(other)


def _vonage(message: Message) -> Sound | Mark | Clear:
    if isinstance(message, bytes):
        assert len(message) == 640, "20 ms at 16 kHz"
        return Sound(message)
    match json.loads(message):
        case {"action": "notify", "payload": {"mark": str(name)}}:
            return Mark(name)
        case {"action": "clear"}:
            return Clear()
        case other:
            raise AssertionError(other)


def _asterisk(message: Message) -> Sound | Mark | Clear:
    if isinstance(message, bytes):
        assert len(message) <= 65500
        return Sound(message)
    match json.loads(message):
        case {"command": "MARK_MEDIA", "correlation_id": str(name)}:
            return Mark(name)
        case {"command": "FLUSH_MEDIA"}:
            return Clear()
        case other:
            raise AssertionError(other)


def _asterisk_text(message: Message) -> Sound | Mark | Clear:
    if isinstance(message, bytes):
        return Sound(message)
    match message.split():
        case ["MARK_MEDIA", name]:
            return Mark(name)
        case ["FLUSH_MEDIA"]:
            return Clear()
        case other:
            raise AssertionError(other)


QUIET = base64.b64encode(b"\xff" * 160).decode()
SCRIPTS: Mapping[str, Script] = {
    "twilio": Script(
        path="/v1/telephony/twilio",
        opening=(
            '{"event": "connected", "protocol": "Call", "version": "1.0.0"}',
            json.dumps(
                {
                    "event": "start",
                    "sequenceNumber": "1",
                    "start": {
                        "accountSid": "AC0123456789abcdef0123456789abcdef",
                        "streamSid": "MZ18ad3ab5a668481ce02b83e7395059f0",
                        "callSid": "CA0123456789abcdef0123456789abcdef",
                        "tracks": ["inbound"],
                        "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
                        "customParameters": {"FirstName": "Jane", "call": "janes-call"},
                    },
                    "streamSid": "MZ18ad3ab5a668481ce02b83e7395059f0",
                }
            ),
        ),
        names=("CA0123456789abcdef0123456789abcdef", "MZ18ad3ab5a668481ce02b83e7395059f0", "janes-call"),
        format=MULAW,
        caller=json.dumps(
            {
                "event": "media",
                "sequenceNumber": "3",
                "media": {"track": "inbound", "chunk": "1", "timestamp": "5", "payload": QUIET},
                "streamSid": "MZ18ad3ab5a668481ce02b83e7395059f0",
            }
        ),
        heard=lambda name: json.dumps(
            {
                "event": "mark",
                "sequenceNumber": "4",
                "streamSid": "MZ18ad3ab5a668481ce02b83e7395059f0",
                "mark": {"name": name},
            }
        ),
        over=json.dumps(
            {
                "event": "stop",
                "sequenceNumber": "5",
                "stop": {"accountSid": "AC0123456789abcdef0123456789abcdef", "callSid": "CA0123"},
                "streamSid": "MZ18ad3ab5a668481ce02b83e7395059f0",
            }
        ),
        read=_twilio,
    ),
    "telnyx": Script(
        path="/v1/telephony/telnyx?call=mine",
        opening=(
            '{"event": "connected", "version": "1.0.0"}',
            json.dumps(
                {
                    "event": "start",
                    "sequence_number": "1",
                    "start": {
                        "user_id": "3e6f995f-85f7-4705-9741-53b116d28237",
                        "call_control_id": "v2:T02llQxIyaRkhfRKxgAP8nY511EhFLizdvdUKJiSw8d6A9BborherQ",
                        "client_state": "aGF2ZSBhIG5pY2UgZGF5ID1d",
                        "media_format": {"encoding": "PCMA", "sample_rate": 8000, "channels": 1},
                    },
                    "stream_id": "32de0dea-53cb-4b21-89a4-9e1819c043bc",
                }
            ),
        ),
        names=(
            "v2:T02llQxIyaRkhfRKxgAP8nY511EhFLizdvdUKJiSw8d6A9BborherQ",
            "32de0dea-53cb-4b21-89a4-9e1819c043bc",
            "mine",
        ),
        format=ALAW,
        caller=json.dumps(
            {
                "event": "media",
                "sequence_number": "4",
                "media": {"track": "inbound", "chunk": "2", "timestamp": "5", "payload": QUIET},
                "stream_id": "32de0dea-53cb-4b21-89a4-9e1819c043bc",
            }
        ),
        heard=lambda name: json.dumps(
            {
                "event": "mark",
                "sequence_number": "5",
                "stream_id": "32de0dea-53cb-4b21-89a4-9e1819c043bc",
                "mark": {"name": name},
            }
        ),
        over=json.dumps(
            {
                "event": "stop",
                "sequence_number": "6",
                "stop": {"user_id": "3e6f995f", "call_control_id": "v2:T02"},
                "stream_id": "32de0dea-53cb-4b21-89a4-9e1819c043bc",
            }
        ),
        read=_telnyx,
    ),
    "plivo": Script(
        path="/v1/telephony/plivo",
        opening=(
            json.dumps(
                {
                    "sequenceNumber": 0,
                    "event": "start",
                    "start": {
                        "callId": "0a02b3c0-5c9e-4f5d-9a8c-1d2e3f405162",
                        "streamId": "20170ada-f610-433b-8758-c02a2aab3662",
                        "accountId": "MA0123456789",
                        "tracks": ["inbound"],
                        "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000},
                    },
                    "extra_headers": "{}",
                }
            ),
        ),
        names=("0a02b3c0-5c9e-4f5d-9a8c-1d2e3f405162", "20170ada-f610-433b-8758-c02a2aab3662"),
        format=MULAW,
        caller=json.dumps(
            {
                "sequenceNumber": 3,
                "event": "media",
                "media": {"track": "inbound", "timestamp": "1659", "chunk": 1, "payload": QUIET},
                "streamId": "20170ada-f610-433b-8758-c02a2aab3662",
            }
        ),
        heard=lambda name: json.dumps(
            {
                "sequenceNumber": 4,
                "event": "playedStream",
                "streamId": "20170ada-f610-433b-8758-c02a2aab3662",
                "name": name,
            }
        ),
        over=None,
        read=_plivo,
    ),
    "vonage": Script(
        path="/v1/telephony/vonage",
        opening=(
            json.dumps(
                {
                    "event": "websocket:connected",
                    "content-type": "audio/l16;rate=16000",
                    "customer_id": "ABC123",
                    "uuid": "aaaaaaaa-bbbb-cccc-dddd-0123456789ab",
                }
            ),
        ),
        names=("aaaaaaaa-bbbb-cccc-dddd-0123456789ab",),
        format=Format(Encoding.PCM16, 16000),
        caller=bytes(640),
        heard=lambda name: json.dumps({"event": "websocket:notify", "payload": {"mark": name}}),
        over=json.dumps({"event": "websocket:disconnected"}),
        read=_vonage,
    ),
    "asterisk": Script(
        path="/v1/telephony/asterisk",
        opening=(
            json.dumps(
                {
                    "event": "MEDIA_START",
                    "connection_id": "e226e283-c90a-4ea9-9e37-389000b9ef47",
                    "channel": "WebSocket/connectionid",
                    "channel_id": "pbx1-123456789.999",
                    "format": "slin16",
                    "optimal_frame_size": 640,
                    "ptime": 20,
                    "channel_variables": {"OSCINE_CALL": "mine", "SOME_CHANNEL_VARIABLE": "some value"},
                }
            ),
        ),
        names=("e226e283-c90a-4ea9-9e37-389000b9ef47", "pbx1-123456789.999", "mine"),
        format=Format(Encoding.PCM16, 16000),
        caller=bytes(640),
        heard=lambda name: json.dumps(
            {"event": "MEDIA_MARK_PROCESSED", "channel_id": "pbx1-123456789.999", "correlation_id": name}
        ),
        over=None,
        read=_asterisk,
    ),
    "asterisk_text": Script(
        path="/v1/telephony/asterisk",
        opening=(
            "MEDIA_START connection_id:e226e283-c90a-4ea9-9e37-389000b9ef47 channel:WebSocket/connectionid "
            "channel_id:pbx1-123456789.999 format:ulaw optimal_frame_size:160 ptime:20",
        ),
        names=("e226e283-c90a-4ea9-9e37-389000b9ef47", "pbx1-123456789.999"),
        format=MULAW,
        caller=bytes(160),
        heard=lambda name: f"MEDIA_MARK_PROCESSED correlation_id:{name}",
        over=None,
        read=_asterisk_text,
    ),
}


@dataclass
class Listener:
    """What was said to a carrier. heard: bytes that its listener has heard. Hears 20 ms in `frame_s`."""

    script: Script
    socket: ClientConnection
    frame_s: float
    messages: list[Message] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    queue: list[Sound | Mark] = field(default_factory=list)
    heard: bytearray = field(default_factory=bytearray)
    marks: list[str] = field(default_factory=list)
    clears: int = 0
    closed: int | None = None

    async def listen(self) -> None:
        try:
            async for message in self.socket:
                self.messages.append(message)
                match self.script.read(message):
                    case Clear():
                        self.clears += 1
                        # As carriers do: the marks that were not heard come back, too.
                        left = [each.name for each in self.queue if isinstance(each, Mark)]
                        self.queue.clear()
                        for name in left:
                            await self._back(name)
                    case asked:
                        self.queue.append(asked)
                        if isinstance(asked, Sound):
                            self.sizes.append(len(asked.data))
        except ConnectionClosed:
            pass
        self.closed = self.socket.close_code

    async def hear(self) -> None:
        """As time passes."""
        width = 1 if self.script.format.encoding is not Encoding.PCM16 else 2
        size = self.script.format.sample_rate // 50 * width
        while True:
            await asyncio.sleep(self.frame_s)
            while self.queue and isinstance(self.queue[0], Mark):
                await self._back(self.queue.pop(0).name)  # type: ignore[union-attr]
            if self.queue:
                first = self.queue[0]
                assert isinstance(first, Sound)
                self.heard += first.data[:size]
                self.queue[0:1] = [Sound(rest)] if (rest := first.data[size:]) else []

    async def _back(self, name: str) -> None:
        self.marks.append(name)
        with contextlib.suppress(ConnectionClosed):
            await self.socket.send(self.script.heard(name))


@asynccontextmanager
async def call(address: str, script: Script, frame_s: float = 0.001, **options: Any) -> AsyncIterator[Listener]:
    """A call of that carrier, with its opening sent."""
    async with connect(f"ws://{address}{script.path}", compression=None, proxy=None, **options) as socket:
        for message in script.opening:
            await socket.send(message)
        listener = Listener(script, socket, frame_s)
        tasks = [asyncio.create_task(work) for work in (listener.listen(), listener.hear())]
        try:
            yield listener
            # A mistake of ours that the other side has found.
            for task in tasks:
                if task.done() and not task.cancelled():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
