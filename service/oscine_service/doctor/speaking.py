"""Whether it speaks: a whole engine process, a whole sentence."""

import time
from collections.abc import AsyncIterator

from oscine_engine.errors import OscineError
from oscine_engine.events import Audio, Done, SessionRequest
from oscine_service.config.engine import engine_settings
from oscine_service.config.model import Settings
from oscine_service.doctor.finding import Finding, advice, fault, good
from oscine_service.unit.front import unit

SENTENCE = "This machine can speak, and this is how it sounds."
SLOW = 0.8
"""A real-time factor from which on there is nothing left for a second caller, or for a bad moment."""


async def speaking(settings: Settings) -> AsyncIterator[Finding]:
    began = time.monotonic()
    try:
        async with unit(engine_settings(settings), devices=settings.engine.device) as started:
            ready = time.monotonic()
            voice = next(iter(started.front.voices), None)
            if voice is None:
                yield advice("speech", "the model has no voice of its own to try", "add spk2info.pt to its directory")
                return
            async with await started.front.open(SessionRequest(voice=voice, seed=1)) as session:
                asked = time.monotonic()
                await session.append(SENTENCE)
                await session.finish()
                first, done = None, None
                async for event in session:
                    if isinstance(event, Audio) and first is None:
                        first = time.monotonic() - asked
                    elif isinstance(event, Done):
                        done = event
            assert first is not None and done is not None
            factor = (time.monotonic() - asked) / done.stats.audio_s
    except OscineError as error:
        yield fault("speech", f"the engine does not speak: {error}", "see what it logged above")
        return
    told = f"ready after {ready - began:.1f} s, first sound after {1000 * first:.0f} ms, real-time factor {factor:.2f}"
    if factor > 1:
        yield fault("speech", f"{told}: slower than it is heard", "give it faster cores, or a GPU")
    elif factor > SLOW:
        yield advice("speech", f"{told}: one caller at a time", "give it faster cores, or a GPU")
    else:
        yield good("speech", told)
