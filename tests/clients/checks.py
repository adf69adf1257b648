"""What every client must hear, over whatever protocol."""

import asyncio
from collections.abc import Callable

import pytest

import oscine_client as oc


async def away(act: Callable[[], object]) -> None:
    """In a thread: the service lives on this event loop."""
    await asyncio.to_thread(act)


def check(events: list[oc.Event]) -> bytes:
    """All that a call that was spoken to its end must hold; returns its audio."""
    started, *_, done = events
    assert isinstance(started, oc.Started) and isinstance(done, oc.Done)
    audio = [event for event in events if isinstance(event, oc.Audio)]
    end = 0
    for number, each in enumerate(audio):
        assert (each.sequence, each.start_sample) == (number, end)
        end += each.samples
    assert done.audio_seconds == pytest.approx(end / started.sample_rate) and end > 0
    return b"".join(each.data for each in audio)
