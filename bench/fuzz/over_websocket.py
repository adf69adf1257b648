"""Messages that are none, or not in that order, on WebSockets of every dialect.

A socket hears some cases, one after the other. Each ends with a message that no dialect can read and that says where it
goes wrong, so that its refusal tells that all before it was heard and that the socket still lives.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from bench.fuzz import draw
from bench.fuzz.verdict import FaultError

CASES = 8
"""On one socket."""
CODES = frozenset({1000, 1001, 1002, 1003, 1007, 1008, 1009, 1013})
STATUSES = frozenset({400, 401, 403, 404, 429})
FORMAT = {"encoding": "pcm16", "sample_rate": 24000}
CARTESIA = {
    "context_id": "a",
    "model_id": "sonic",
    "transcript": "Hello there. ",
    "voice": {"mode": "id", "id": "ada"},
    "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000},
    "language": "en",
    "continue": True,
    "add_timestamps": False,
}
_TASK = {"action": "run-task", "task_id": "t", "streaming": "duplex"}
_RUN = {
    "task_group": "audio",
    "task": "tts",
    "function": "SpeechSynthesizer",
    "model": "cosyvoice-v3",
    "parameters": {"text_type": "PlainText", "voice": "li", "format": "pcm", "sample_rate": 24000, "rate": 1.0},
    "input": {},
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """path and query: of its sockets. messages: such as its clients send."""

    path: str
    query: Mapping[str, str]
    messages: Sequence[Mapping[str, Any]]


DIALECTS = {
    "websocket": Dialect(
        "/v1/speech",
        {},
        (
            {"type": "start", "context": "a", "voice": "ada", "format": FORMAT, "seed": 1, "mode": "sentence"},
            {"type": "start", "context": "b", "format": {"encoding": "opus"}, "pronunciations": {"Hi": "[HH][AY1]"}},
            {"type": "start", "context": "c", "format": FORMAT, "reference": {"audio": "UklGRg==", "transcript": "x"}},
            {"type": "text", "context": "a", "text": "Hello there. "},
            {"type": "text", "context": "b", "text": "你好。"},
            {"type": "flush", "context": "a"},
            {"type": "mark", "context": "a", "name": "here"},
            {"type": "played", "context": "a", "samples": 960},
            {"type": "cancel", "context": "b"},
            {"type": "end", "context": "a"},
        ),
    ),
    "cartesia": Dialect(
        "/tts/websocket",
        {"cartesia_version": "2026-03-01"},
        (
            CARTESIA,
            {**CARTESIA, "voice": "li", "transcript": "你好。", "max_buffer_delay_ms": 0},
            {**CARTESIA, "context_id": "b", "continue": False, "generation_config": {"speed": 1.1}},
            {**CARTESIA, "flush": True, "transcript": ""},
            {**CARTESIA, "transcript": "", "continue": False},
            {"context_id": "a", "cancel": True},
        ),
    ),
    "elevenlabs": Dialect(
        "/v1/text-to-speech/ada/multi-stream-input",
        {"output_format": "pcm_24000", "model_id": "x"},
        (
            {"text": " ", "context_id": "a", "voice_settings": {"speed": 1.0}},
            {"text": "Hello there. ", "context_id": "a"},
            {"text": "你好。", "context_id": "b", "flush": True},
            {"context_id": "a", "flush": True},
            {"context_id": "a", "close_context": True},
            {"text": "", "context_id": "a"},
            {"close_socket": True},
        ),
    ),
    "elevenlabs-single": Dialect(
        "/v1/text-to-speech/ada/stream-input",
        {"output_format": "mp3_44100_128", "auto_mode": "true"},
        (
            {"text": " ", "voice_settings": {"speed": 1.0}},
            {"text": "Hello there. ", "try_trigger_generation": True},
            {"text": "你好。", "flush": True},
            {"text": ""},
        ),
    ),
    "deepgram": Dialect(
        "/v1/speak",
        {"encoding": "linear16", "sample_rate": "24000", "model": "ada"},
        (
            {"type": "Speak", "text": "Hello there. "},
            {"type": "Speak", "text": "你好。"},
            {"type": "Flush"},
            {"type": "Clear"},
            {"type": "Close"},
        ),
    ),
    "dashscope": Dialect(
        "/api-ws/v1/inference",
        {},
        (
            {"header": _TASK, "payload": _RUN},
            {"header": {**_TASK, "action": "continue-task"}, "payload": {"input": {"text": "你好。Hello. "}}},
            {"header": {**_TASK, "action": "finish-task"}, "payload": {"input": {}}},
            {"header": {**_TASK, "action": "finish-task"}, "payload": {"input": {"directive": "cancel"}}},
        ),
    ),
}


class WebSocketDoor:
    """One dialect on one port."""

    def __init__(self, name: str, address: str, key: str) -> None:
        self._dialect = DIALECTS[name]
        self._address = address
        self._key = key

    async def case(self, random: Random) -> list[str]:
        """Some cases on one socket. Raises FaultError."""
        path, query = self._dialect.path, dict(self._dialect.query)
        if draw.chance(random, 0.1):
            query = _odd(random, query)
        if draw.chance(random, 0.02):
            path = path.replace("ada", draw.plain(random, 20).replace("/", "").replace("?", "").replace("#", "") or "x")
        address = f"ws://{self._address}{_quoted(path)}?{urlencode(query)}"
        headers = [("Authorization", f"Bearer {self._key}")]
        if draw.chance(random, 0.02):
            headers = random.choice(([], [("xi-api-key", "x")], [("Origin", "http://[::1"), *headers]))
        try:
            async with connect(
                address, compression=None, proxy=None, additional_headers=headers, max_size=None, ping_interval=None
            ) as socket:
                return await self._talk(random, socket)
        except InvalidStatus as refused:
            if refused.response.status_code not in STATUSES or not refused.response.body:
                raise FaultError(f"{address} was refused with {refused.response.status_code}") from refused
            return [f"status {refused.response.status_code}"]

    async def _talk(self, random: Random, socket: ClientConnection) -> list[str]:
        said: list[str | bytes] = []
        ended: list[str] = []
        try:
            for number in range(CASES):
                messages = self._drawn(random)
                said += messages
                for message in messages:
                    await socket.send(message)
                # An error that names a place which is this case's own.
                place = 5000 + number
                await socket.send(" " * place + "x")
                await _until(socket, f"(char {place})", said)
                ended.append("heard")
            return ended
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd is not None else None
            if code not in CODES:
                why = closed.rcvd.reason if closed.rcvd is not None else "no close frame"
                raise FaultError(f"the socket was closed with {code}: {why}; messages: {draw.shown(said)}") from closed
            return [*ended, f"closed {code}"]

    def _drawn(self, random: Random) -> list[str | bytes]:
        """The messages of a case."""
        messages: list[str | bytes] = []
        for message in draw.shuffled(random, self._dialect.messages, 7):
            changed: Any = message
            for _ in range(random.choice((0, 0, 0, 1, 1, 3))):
                changed = draw.altered(random, changed)
            match random.randrange(100):
                case 0:
                    messages.append(draw.noise(random, 4096))
                case 1:
                    messages.append(draw.plain(random, 2000))
                case 2 if draw.chance(random, 0.1):
                    messages.append(json.dumps({**message, "text": "a" * random.choice((70_000, 11 << 20, 13 << 20))}))
                case _:
                    # Half a surrogate pair can stand in JSON, and in no message.
                    messages.append(draw.dumped(random, changed).encode(errors="replace").decode())
        return messages


async def _until(socket: ClientConnection, place: str, said: Sequence[str | bytes]) -> None:
    """Take all answers up to the one that names that place."""
    while True:
        answer = await socket.recv()
        if isinstance(answer, bytes):
            continue
        told = json.loads(answer)
        if place in answer:
            return
        names = [told.get(name) for name in ("code", "error", "error_code")]
        names.append(told.get("header", {}).get("error_code"))
        if "internal" in names or 1011 in names:
            raise FaultError(f"the answer was {draw.shown(answer)}; messages: {draw.shown(said, 1500)}")


def _odd(random: Random, query: dict[str, str]) -> dict[str, str]:
    name = random.choice([*query, "x", "seed", "speed", "language_code", "sync_alignment"])
    return {**query, name: random.choice((draw.plain(random, 40), str(random.choice(draw.NUMBERS)), "true", "zh-CN"))}


def _quoted(path: str) -> str:
    return "".join(each if each.isascii() and each.isalnum() or each in "/-" else "%21" for each in path)
