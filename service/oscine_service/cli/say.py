"""`oscine say`: a text, or standard input as it comes, through the engine into a file or a player."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from oscine_codecs import opus
from oscine_engine.errors import InvalidInput
from oscine_engine.events import Audio, Done, SessionRequest
from oscine_engine.session import Session
from oscine_engine.settings import EngineSettings
from oscine_service.cli.progress import Progress
from oscine_service.cli.sinks import OPUS_SUFFIXES, open_sink
from oscine_service.cli.texts import Unreadable, pieces_of
from oscine_service.recordings import decode


async def say(settings: EngineSettings, text: str, request: SessionRequest, output: Path | None) -> None:
    """Speak `text`, or standard input if it is "-", and show how fast it went on standard error.

    Raises Unreadable for input that goes wrong, after all before it was spoken.
    """
    pieces = pieces_of(text)
    if output is not None and output.suffix in OPUS_SUFFIXES:
        opus.require()
    # What is wrong so far is said before libraries load.
    from oscine_engine.engine import Engine

    if request.reference is not None:
        settings = replace(settings, references=True)
    engine = Engine.load(settings, decode=decode)
    progress = Progress(engine.sample_rate)
    with open_sink(output, engine.sample_rate) as sink:
        async with engine, await engine.open(request) as session, asyncio.TaskGroup() as tasks:
            feeding = tasks.create_task(_feed(session, pieces))
            async for event in session:
                match event:
                    case Audio():
                        progress.heard(event, session.first_packet_s, session.busy_s)
                        await asyncio.to_thread(sink.write, event.samples)
                    case Done():
                        progress.done(event.stats)
    if (fault := feeding.result()) is not None:
        raise fault


async def _feed(session: Session, pieces: AsyncIterator[str]) -> Unreadable | None:
    """Returns what was wrong with input that ended too early. Raises that if there was nothing to say before it."""
    fault: Unreadable | None = None
    try:
        async for piece in pieces:
            await session.append(piece)
    except Unreadable as error:
        fault = error
    try:
        await session.finish()
    except InvalidInput:
        if fault is None:
            raise
        raise fault from None
    return fault
