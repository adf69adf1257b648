"""`oscine say`: a text, or standard input as it comes, through the engine into a file or a player."""

import asyncio
import codecs
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import InvalidInput
from oscine_engine.events import Audio, Done, SessionRequest, Stats
from oscine_engine.session import Session
from oscine_service.cli.sinks import open_sink

READ_BYTES = 4096


async def say(settings: EngineSettings, text: str, request: SessionRequest, output: Path | None) -> None:
    """Speak `text`, or standard input if it is "-", and show how fast it went on standard error."""
    async with Engine.load(settings) as engine:
        sink = open_sink(output, engine.sample_rate)
        try:
            async with await engine.open(request) as session, asyncio.TaskGroup() as tasks:
                tasks.create_task(_feed(session, standard_input() if text == "-" else _whole(text)))
                async for event in session:
                    match event:
                        case Audio():
                            await asyncio.to_thread(sink.write, event.samples)
                            show(f"{(event.start_sample + event.samples.size) / engine.sample_rate:.1f} s of speech")
                        case Done():
                            show(summary(event.stats), last=True)
        except* InvalidInput as group:
            raise group.exceptions[0] from None
        finally:
            sink.close()


async def standard_input() -> AsyncIterator[str]:
    """Text as it arrives, not line by line. Raises InvalidInput where it is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while data := await asyncio.to_thread(os.read, sys.stdin.fileno(), READ_BYTES):
            yield decoder.decode(data)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise InvalidInput("standard input is not valid UTF-8 text") from error


async def _whole(text: str) -> AsyncIterator[str]:
    yield text


async def _feed(session: Session, pieces: AsyncIterator[str]) -> None:
    async for piece in pieces:
        await session.append(piece)
    await session.finish()


def show(text: str, *, last: bool = False) -> None:
    """One line on standard error, rewritten as speech comes; where that is no terminal, only its last state."""
    erase = "\r\x1b[K" if sys.stderr.isatty() else ""
    if erase or last:
        print(erase + text, end="\n" if last else "", file=sys.stderr, flush=True)


def summary(stats: Stats) -> str:
    parts = [f"{stats.audio_s:.1f} s of speech"]
    if stats.first_packet_s is not None and stats.busy_s is not None:
        parts.append(f"first packet after {1000 * stats.first_packet_s:.0f} ms")
        parts.append(f"real-time factor {stats.busy_s / stats.audio_s:.2f}")
    return ", ".join(parts)
