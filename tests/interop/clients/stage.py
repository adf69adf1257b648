"""What every client is asked to do, and how it answers: lines of JSON on standard input and output.

Runs in the client's own environment, by the standard library alone. A client has three methods, each asynchronous or
not. `speak` says pieces of text as a language model writes them, and hears them out. `interrupt` starts to say one
thing, breaks it off in the client's own way once it sounds, and then speaks another. `abandon` starts to say something,
calls what it is given once that sounds, and may go on as it likes: nobody asks for its end.
"""

import asyncio
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

# What a client prints must not come between the answers.
OUT = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

Sounding = Callable[[], None]


@dataclass
class Spoken:
    """What a client handed to its application. encoding: pcm (16 bits, mono) or the name of a file format. words: each
    with the seconds of its start and end, or of its start alone where the client tells no more."""

    audio: bytes
    rate: int
    encoding: str = "pcm"
    words: list[list[Any]] = field(default_factory=list)


class Client(Protocol):
    def speak(self, pieces: list[str]) -> Any: ...

    def interrupt(self, long: list[str], pieces: list[str]) -> Any: ...

    def abandon(self, long: list[str], sounding: Sounding) -> Any: ...


def cut(text: str) -> list[str]:
    """As language models write: a word with the blank before it, or a character of Chinese."""
    if not text.isascii():
        return list(text)
    first, *more = text.split(" ")
    return [first, *(f" {word}" for word in more)]


def answer(**told: object) -> None:
    print(json.dumps(told), file=OUT, flush=True)


async def settled(method: Callable[..., Any], *arguments: object) -> Any:
    """What a method returns, which runs in a thread unless it is asynchronous."""
    if inspect.iscoroutinefunction(method):
        return await method(*arguments)
    return await asyncio.to_thread(method, *arguments)


async def obey(client: Client, command: dict[str, Any]) -> None:
    pieces = cut(command["text"])
    match command["do"]:
        case "abandon":
            await settled(client.abandon, pieces, lambda: answer(sounding=True))
            return
        case "speak":
            spoken = await settled(client.speak, pieces)
        case _:
            spoken = await settled(client.interrupt, cut(command["long"]), pieces)
    await asyncio.to_thread(Path(command["to"]).write_bytes, spoken.audio)
    answer(rate=spoken.rate, encoding=spoken.encoding, words=spoken.words)


def perform(make: Callable[[dict[str, Any]], Client]) -> None:
    """Make a client of what the command line says, on the event loop that it will live on, and obey until the input
    ends."""

    async def main() -> None:
        client = make(json.loads(sys.argv[1]))
        answer(ready=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                await obey(client, json.loads(line))
            except Exception as error:
                told = f"{type(error).__name__}: {' '.join(str(error).split())}"
                answer(fault=told[:300], trace=traceback.format_exc(limit=-8))

    asyncio.run(main())
