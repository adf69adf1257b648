"""One stream's way through the three stages, and the batched ticks that move many streams at once.

Owned by the device loop's thread; nothing here locks, waits or knows about asyncio.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from oscine_engine.errors import OscineError
from oscine_engine.flow.runner import FlowRunner
from oscine_engine.flow.stream import FlowStream
from oscine_engine.lm.runner import LMRunner
from oscine_engine.lm.stream import LMStream
from oscine_engine.scheduler.policy import Stage
from oscine_engine.vocoder.runner import VocoderRunner
from oscine_engine.vocoder.stream import VocoderStream

LM_AHEAD = 50
"""Speech ids the language model may be ahead of the finished mel: two chunks."""


@dataclass(slots=True, eq=False)
class Segment:
    """A sentence on its way: ids from `lm` go on to `flow` (`fed` so far), `mel` waits for the vocoder.

    `frames` counts mel frames the flow has finished; `mel_ended` tells that no mel follows what waits.
    """

    lm: LMStream
    flow: FlowStream
    vocoder: VocoderStream
    fed: int = 0
    frames: int = 0
    mel: Tensor | None = None
    mel_ended: bool = False


@dataclass(slots=True, eq=False)
class FlushMark:
    """A place in the order of segments: the listener is told once all before it was sent."""


@dataclass(slots=True, eq=False)
class Lane:
    """One stream's segments in order: the first one sounds, and the language model may already read the second.

    `held` keeps the flow back while the listener has enough audio waiting.
    """

    queue: deque[Segment | FlushMark] = field(default_factory=deque)
    held: bool = False

    def segments(self) -> Iterator[Segment]:
        return (item for item in self.queue if isinstance(item, Segment))

    @property
    def sounding(self) -> Segment | None:
        return next(self.segments(), None)

    @property
    def reading(self) -> Segment | None:
        """The segment to run through the language model now, if any."""
        for segment in islice(self.segments(), 2):
            if segment.lm.state != "done":
                ahead = len(segment.lm.tokens) - segment.frames // 2
                return segment if segment.lm.wants_step and ahead < LM_AHEAD else None
        return None


class Stages:
    """The three runners, and one tick of each over many lanes."""

    def __init__(self, lm: LMRunner, flow: FlowRunner, vocoder: VocoderRunner) -> None:
        self._lm = lm
        self._flow = flow
        self._vocoder = vocoder

    def ready(self, lane: Lane) -> frozenset[Stage]:
        """The stages in which `lane` could take a tick now."""
        stages = set()
        if lane.reading is not None:
            stages.add(Stage.LM)
        if (segment := lane.sounding) is not None:
            if segment.mel is not None:
                stages.add(Stage.VOCODER)
            elif segment.flow.chunk is not None or (not lane.held and self._flow.ready(segment.flow)):
                stages.add(Stage.FLOW)
        return frozenset(stages)

    def read(self, lanes: Sequence[Lane]) -> list[OscineError | None]:
        """One language model step for every lane; the ids go straight on to the flow. Returns each lane's failure."""
        segments = [segment for lane in lanes if (segment := lane.reading) is not None]
        self._lm.step([segment.lm for segment in segments])
        for segment in segments:
            done = segment.lm.state == "done"
            new = segment.lm.tokens[segment.fed :]
            if new or done:
                self._flow.feed(segment.flow, new, last=done)
                segment.fed += len(new)
        return [segment.lm.failure for segment in segments]

    def denoise(self, lanes: Sequence[Lane]) -> None:
        """One Euler step for every lane, each wherever it is in its chunk."""
        segments = [segment for lane in lanes if (segment := lane.sounding) is not None]
        for segment in segments:
            if segment.flow.chunk is None:
                self._flow.begin(segment.flow)
        self._flow.step([segment.flow for segment in segments])
        for segment in segments:
            if segment.flow.chunk is None:
                segment.mel = self._flow.take_mel(segment.flow)
                segment.frames += segment.mel.shape[0]
                segment.mel_ended = self._flow.finished(segment.flow)

    def vocode(self, lanes: Sequence[Lane]) -> list[NDArray[np.float32]]:
        """Turn each lane's waiting mel into samples, in order of `lanes`."""
        segments = [segment for lane in lanes if (segment := lane.sounding) is not None]
        work = [(segment.vocoder, segment.mel, segment.mel_ended) for segment in segments if segment.mel is not None]
        samples = self._vocoder.step(work)
        for segment in segments:
            segment.mel = None
        return samples

    def close(self, segment: Segment) -> None:
        """Give back everything `segment` holds."""
        self._lm.close(segment.lm)
        self._flow.close(segment.flow)
