"""DashScope's CosyVoice WebSocket onto conversations, for clients that were written for the hosted model.

A task is a conversation; tasks follow each other on a socket. Which model is named makes no difference.
"""

import json
from collections.abc import Iterator
from typing import Any

from starlette.websockets import WebSocket

from oscine_engine.errors import InvalidInput
from oscine_engine.events import SessionRequest
from oscine_engine.front import Front
from oscine_engine.session import NothingToSay
from oscine_service.audio import Container, Encoding, Format
from oscine_service.conversation import (
    Audio,
    Calls,
    Cancel,
    Cancelled,
    Config,
    Done,
    Flush,
    Reply,
    Started,
    Text,
    Words,
)
from oscine_service.errors import code
from oscine_service.limits import Limits
from oscine_service.websocket.accepting import accepted
from oscine_service.websocket.channel import Channel
from oscine_service.websocket.fields import Object, field, loads, only, shown
from oscine_service.websocket.socket import Message, Socket

PATHS = ("/api-ws/v1/inference", "/api-ws/v1/inference/")
FORMATS = {
    "pcm": (Encoding.PCM16, Container.RAW),
    "wav": (Encoding.PCM16, Container.WAV),
    "mp3": (Encoding.MP3, Container.RAW),
    "Default": (Encoding.MP3, Container.RAW),
    "opus": (Encoding.OPUS, Container.OGG),
}
"""A client that chooses none sends "Default", and a rate of 0."""
MAX_CHARACTERS = 20_000
"""Of one message, as the original has it."""
MAX_TASK = 64
_PARAMETERS = frozenset(
    "voice format sample_rate bit_rate volume rate pitch seed type text_type instruction language_hints enable_ssml "
    "enable_markdown_filter word_timestamp_enabled hot_fix".split()
)


def config(parameters: Object) -> Config:
    """What the parameters of a task ask. Raises InvalidInput."""
    only(parameters, _PARAMETERS, "parameters")
    for name, kind, usual in (("volume", int, 50), ("pitch", float, 1.0), ("type", int, 0)):
        if field(parameters, name, kind, usual) != usual:
            raise InvalidInput(f"parameters.{name}: it is not offered; leave it out, or {usual}")
    hints = parameters.get("language_hints") or [None]
    if not isinstance(hints, list) or not isinstance(hints[0], str | None):
        raise InvalidInput("parameters.language_hints: it must be a list of languages, such as [zh]")
    seed = field(parameters, "seed", int, 0)
    session = SessionRequest(
        voice=field(parameters, "voice", str) or None,
        seed=seed or None,  # 0 is what clients send who want none
        speed=field(parameters, "rate", float, 1.0),
        instruction=field(parameters, "instruction", str, None),
        language=hints[0],
        pronunciations=_words(field(parameters, "hot_fix", dict, {})),
        word_times=field(parameters, "word_timestamp_enabled", bool, False),
    )
    return Config(session, _format(parameters))


def _format(parameters: Object) -> Format:
    name = field(parameters, "format", str, "mp3")
    if name not in FORMATS:
        raise InvalidInput(f"parameters.format: {shown(name)} is unknown; use one of {', '.join(FORMATS)}")
    encoding, container = FORMATS[name]
    rate = field(parameters, "sample_rate", int, 0) or 22050
    # In kbit/s, and sent with Opus alone.
    kilobits = field(parameters, "bit_rate", int, 0) if encoding is Encoding.OPUS else 0
    return Format(encoding, rate, 1000 * kilobits, container)


def _words(hot_fix: Object) -> dict[str, str] | None:
    """Of `replace`: word -> what is read in its place. Raises InvalidInput for `pronunciation`."""
    only(hot_fix, frozenset({"pronunciation", "replace"}), "hot_fix")
    if hot_fix.get("pronunciation"):
        raise InvalidInput("hot_fix.pronunciation: it is not offered; use replace, or write it in the text")
    words: dict[str, str] = {}
    pairs = hot_fix.get("replace") or []
    if not isinstance(pairs, list) or not all(isinstance(pair, dict) for pair in pairs):
        raise InvalidInput("hot_fix.replace: it must be a list of objects, of words and what is read in their place")
    for pair in pairs:
        for word in pair:
            words[word] = field(pair, word, str, inside="hot_fix")
    return words or None


class Task:
    """One conversation as this dialect tells it. characters: of text so far."""

    def __init__(self, name: str, rate: int) -> None:
        self.characters = 0
        self._name = name
        self._rate = rate
        self._sentences = 0
        self._read = 0

    def said(self, reply: Reply) -> Iterator[Message]:
        match reply:
            case Started():
                yield event("task-started", self._name)
            case Audio(frames=frames):
                yield b"".join(frames)
            case Words(words=words):
                yield event("result-generated", self._name, output=self._timed(words), usage=self._usage)
            case Done() | Cancelled():
                yield event("task-finished", self._name, output={}, usage=self._usage)

    def failed(self, error: Exception) -> Iterator[Message]:
        if isinstance(error, NothingToSay):
            yield event("task-finished", self._name, output={}, usage=self._usage)
        else:
            yield failure(error, self._name)

    @property
    def _usage(self) -> dict[str, int]:
        return {"characters": self.characters}

    def _timed(self, words: Any) -> dict[str, object]:
        told = []
        for word in words:
            begin, self._read = self._read, self._read + len(word.text)
            told.append(
                {
                    "text": word.text,
                    "begin_index": begin,
                    "end_index": self._read,
                    "begin_time": word.start_sample * 1000 // self._rate,
                    "end_time": word.end_sample * 1000 // self._rate,
                }
            )
        return {"type": "sentence-synthesis", "sentence": {"index": 0, "words": told}}


def event(kind: str, task: str, **payload: object) -> str:
    return json.dumps({"header": {"task_id": task, "event": kind, "attributes": {}}, "payload": payload})


def failure(error: Exception, task: str) -> str:
    """An error as clients read it."""
    header = {"task_id": task, "event": "task-failed", "error_code": code(error), "error_message": str(error)}
    return json.dumps({"header": {**header, "attributes": {}}, "payload": {}})


class DashScope:
    """Messages of one client onto the tasks that follow each other on its socket."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._tasks: dict[str, Task] = {}

    async def hear(self, message: Message) -> None:
        found = loads(message)
        header = field(found, "header", dict)
        name = field(header, "task_id", str)
        if not 0 < len(name) <= MAX_TASK:
            raise InvalidInput(f"header.task_id: {len(name)} characters; it has 1 to {MAX_TASK}")
        channel = self._socket.channel(name)
        try:
            await self._act(name, field(header, "action", str), field(found, "payload", dict, {}), channel)
        except InvalidInput as error:
            # Also one that this message has opened.
            if (channel := self._socket.channel(name)) is not None:
                await channel.end(error)  # all that was accepted before is spoken first
            else:
                await self._socket.send(failure(error, name))

    def refused(self, error: InvalidInput) -> str:
        return failure(error, "")

    async def _act(self, name: str, action: str, payload: Object, channel: Channel | None) -> None:
        given = field(payload, "input", dict, {})
        match action:
            case "run-task":
                self._open(name, payload)
                await self._say(name, given)
            case "continue-task" if channel is not None:
                await self._say(name, given)
            case "finish-task" if channel is not None:
                await self._say(name, {key: value for key, value in given.items() if key != "directive"})
                if field(given, "directive", str, "") == "cancel":
                    await channel.put(Cancel())
                else:
                    await channel.end()
            case "continue-task":
                raise InvalidInput(f"the task {shown(name)} is not running: send run-task first")
            case "finish-task":
                return  # it has just ended
            case _:
                raise InvalidInput(
                    f"header.action: {shown(action)} is unknown; use one of run-task, continue-task, finish-task"
                )

    def _open(self, name: str, payload: Object) -> None:
        self._tasks = {each: task for each, task in self._tasks.items() if self._socket.channel(each) is not None}
        if self._tasks:
            raise InvalidInput(f"the task {shown(next(iter(self._tasks)))} is still running: finish it first")
        for field_name, only_one in (("task_group", "audio"), ("task", "tts"), ("function", "SpeechSynthesizer")):
            if field(payload, field_name, str, only_one) != only_one:
                raise InvalidInput(f"payload.{field_name}: {shown(payload[field_name])} is not offered; use {only_one}")
        wanted = config(field(payload, "parameters", dict))
        task = Task(name, wanted.format.sample_rate)
        self._socket.open(name, wanted, task)
        self._tasks[name] = task

    async def _say(self, name: str, given: Object) -> None:
        channel = self._socket.channel(name)
        if channel is None:
            return
        only(given, frozenset({"text", "flush"}), "input")
        text = field(given, "text", str, "")
        if len(text) > MAX_CHARACTERS:
            raise InvalidInput(f"input.text: {len(text)} characters; send at most {MAX_CHARACTERS} in one message")
        if text:
            self._tasks[name].characters += len(text)
            await channel.put(Text(text))
        if field(given, "flush", bool, False):
            await channel.put(Flush())


async def serve(websocket: WebSocket, front: Front, limits: Limits, calls: Calls) -> None:
    """One client, from its request to the end of its socket."""
    if await accepted(websocket, calls):
        socket = Socket(websocket, front, limits, calls)
        await socket.run(DashScope(socket))
