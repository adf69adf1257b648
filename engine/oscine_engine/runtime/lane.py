"""One stream's sentences on their way through the three stages: plain state, in the order they will sound."""

from collections import deque
from dataclasses import dataclass, field

from torch import Tensor

from oscine_engine.flow.stream import FlowStream
from oscine_engine.guards.segment import SegmentGuard
from oscine_engine.lm.interleave import Prompt
from oscine_engine.lm.stream import LMStream
from oscine_engine.runtime.tempo import Tempo
from oscine_engine.runtime.voices import CachedVoice
from oscine_engine.vocoder.stream import VocoderStream

LM_AHEAD = 50
"""Speech ids the language model may be ahead of the finished mel: two chunks."""


@dataclass(slots=True, eq=False)
class Segment:
    """A sentence: `lm` says ids, which wait in `ids` for `flow`, whose `mel` waits for the vocoder.

    index: which one of its stream. prompt, text: what it reads. guard: judges what comes of it. `flow` opens with its
    first chunk, so that a sentence still waiting for its turn costs little memory. given: ids for the flow so far;
    complete: no more will come. frames: mel frames the flow has finished. solved: no mel follows what waits, and its
    pages are given back. marks: flushes to be answered when it has sounded.
    draws: (position, seed): from which id on which seed draws. promised: pages of the flow's pool that are kept for it.
    silence_s: to stand in front of its first samples, 0 once it does.
    tempo: what draws its mel together or apart; `frames` count what the flow finished, `mel` is what came out of it.
    """

    index: int
    prompt: Prompt
    interleaved: bool
    lm: LMStream
    vocoder: VocoderStream
    guard: SegmentGuard
    flow: FlowStream | None = None
    text: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    given: int = 0
    complete: bool = False
    frames: int = 0
    mel: Tensor | None = None
    solved: bool = False
    marks: int = 0
    draws: list[tuple[int, int]] = field(default_factory=list)
    promised: int = 0
    silence_s: float = 0.0
    tempo: Tempo = field(default_factory=lambda: Tempo(1.0))

    @property
    def ahead_left(self) -> int:
        """Ids that it may be given until the language model is far enough ahead."""
        return LM_AHEAD - self.given + self.frames // 2


@dataclass(slots=True, eq=False)
class Lane:
    """The first segment sounds; the language model, and once the first is solved the flow, may be at the second.

    credit: samples that may still be made ready, besides those of one more chunk, before the listener takes some; below
    0 no chunk begins. calm: so many ids may be said, since its prospect was told, until anything else in that changes
    than the ids left. read: what the language model is at as long as it is not below 0. What that says meanwhile waits
    in it until `Stages.catch_up`: a guard hears many ids at a fraction of what one by one take.
    """

    voice: CachedVoice
    segments: deque[Segment] = field(default_factory=deque)
    credit: int = 0
    calm: int = -1
    read: Segment | None = None

    @property
    def held(self) -> bool:
        """The listener has enough waiting."""
        return self.credit < 0

    @property
    def sounding(self) -> Segment | None:
        return self.segments[0] if self.segments else None

    @property
    def solving(self) -> Segment | None:
        """The segment whose mel comes next."""
        segments = self.segments
        if not segments:
            return None
        if not segments[0].solved:
            return segments[0]
        return segments[1] if len(segments) > 1 and not segments[1].solved else None

    @property
    def reading(self) -> Segment | None:
        """The segment to run through the language model now, if any."""
        segments = self.segments
        if not segments:
            return None
        segment = segments[0]
        if segment.complete:
            if len(segments) == 1 or segments[1].complete:
                return None
            segment = segments[1]
        # `plain` has an id to feed.
        if segment.ahead_left <= 0 or not (segment.lm.plain or segment.lm.num_ready):
            return None
        return segment
