"""`oscine say`: a text, or standard input as it comes, through the engine into a file or a player."""

import asyncio
import codecs
import os
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

from oscine_codecs import opus
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import InvalidInput
from oscine_engine.events import Audio, Done, SessionRequest
from oscine_engine.session import Session
from oscine_service.cli.progress import Progress
from oscine_service.cli.sinks import OPUS_SUFFIXES, open_sink

READ_BYTES = 4096


async def say(settings: EngineSettings, text: str, request: SessionRequest, output: Path | None) -> None:
    """Speak `text`, or standard input if it is "-", and show how fast it went on standard error."""
    pieces = standard_input() if text == "-" else _whole(text)
    if output is not None and output.suffix in OPUS_SUFFIXES:
        opus.require()
    engine = Engine.load(settings)
    progress = Progress(engine.sample_rate)
    with open_sink(output, engine.sample_rate) as sink:
        async with engine, await engine.open(request) as session, asyncio.TaskGroup() as tasks:
            tasks.create_task(_feed(session, pieces))
            async for event in session:
                match event:
                    case Audio():
                        progress.heard(event, session.first_packet_s, session.busy_s)
                        await asyncio.to_thread(sink.write, event.samples)
                    case Done():
                        progress.done(event.stats)


async def standard_input() -> AsyncIterator[str]:
    """Text as it arrives, not line by line. Raises InvalidInput where it cannot be read or is not UTF-8."""
    arrived: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    if sys.stdin is None:
        raise InvalidInput("standard input is closed: pipe a text in, or give it as an argument")

    def read() -> None:
        data: bytes | OSError = b" "
        while data and not isinstance(data, OSError):
            try:
                data = os.read(0, READ_BYTES)
            except OSError as error:
                data = error
            try:
                loop.call_soon_threadsafe(arrived.put_nowait, data)
            except RuntimeError:  # the command has ended before its input
                return

    # A daemon: a read that waits for a terminal or a pipe cannot be cancelled, and must not hold the exit up.
    threading.Thread(target=read, name="oscine-stdin", daemon=True).start()
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while data := await arrived.get():
            if isinstance(data, OSError):
                raise InvalidInput(f"cannot read standard input: {data.strerror}") from data
            yield decoder.decode(data)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise InvalidInput("standard input is not valid UTF-8 text") from error


async def _whole(text: str) -> AsyncIterator[str]:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput("the text is not valid UTF-8") from error
    yield text


async def _feed(session: Session, pieces: AsyncIterator[str]) -> None:
    async for piece in pieces:
        await session.append(piece)
    await session.finish()
