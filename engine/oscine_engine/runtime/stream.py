"""One session inside the loop: plain state, owned by the loop's thread."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oscine_engine.figures import Standing
from oscine_engine.lm.drawing import Drawing
from oscine_engine.port import Deliver, Progress, StreamOptions
from oscine_engine.runtime.book import ReadyVoice
from oscine_engine.runtime.lane import Lane, Segment
from oscine_engine.runtime.listener import Listener
from oscine_engine.scheduler.views import StreamView

STILL = Progress(working=False, answered=0)


@dataclass(slots=True, eq=False)
class Stream:
    """What the loop knows of one session.

    view: what the scheduler was last told; `stale` asks for a new one.
    writing: the segment whose text is open. begun: segments so far.
    held: packets made and held back until the start is safe, and how many segments ended with them.
    spoken: segments sounded to their end; answered: those sent to their end, and flushes.
    pause: samples of silence that the last segment to sound ended in.
    paused: a flush was asked for and nothing since; rested: that was so when it last had nothing to compute.
    wants_text: it has had nothing to compute for want of text.
    read: a step has read something of it. standing, since: what its time goes by with, and from when on.
    drawing: how its speech ids are drawn, None for as the model says.
    """

    options: StreamOptions
    deliver: Deliver
    voice: ReadyVoice
    lane: Lane
    listener: Listener
    view: StreamView = field(default_factory=lambda: StreamView(0.0, None, frozenset()))
    stale: bool = True
    writing: Segment | None = None
    begun: int = 0
    held: list[NDArray[np.float32]] = field(default_factory=list)
    held_ends: int = 0
    spoken: int = 0
    speech_tokens: int = 0
    answered: int = 0
    pause: int | None = None
    paused: bool = False
    rested: bool = False
    wants_text: bool = False
    read: bool = False
    standing: Standing = Standing.IDLE
    since: float = 0.0
    ending: bool = False
    ended: bool = False
    progress: Progress = STILL
    drawing: Drawing | None = None

    @property
    def held_samples(self) -> int:
        return sum(len(packet) for packet in self.held) if self.held else 0


def segment_seed(seed: int, index: int) -> int:
    """Each segment draws from a stream of its own, so that what one says never shifts the next one's draws."""
    return (seed + index * 0x9E3779B97F4A7C15) % 2**63
