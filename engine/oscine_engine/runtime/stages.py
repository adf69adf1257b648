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

from oscine_engine.errors import InvalidInput, OscineError
from oscine_engine.flow.runner import FlowPrefix, FlowRunner
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

    `flow` opens on `prefix` with the first ids, so that a sentence still waiting for its turn costs little memory.
    `frames` counts mel frames the flow has finished; `mel_ended` tells that no mel follows what waits.
    """

    lm: LMStream
    prefix: FlowPrefix
    vocoder: VocoderStream
    flow: FlowStream | None = None
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
            elif (flow := segment.flow) is not None and (
                flow.chunk is not None or (not lane.held and self._flow.ready(flow))
            ):
                stages.add(Stage.FLOW)
        return frozenset(stages)

    def read(self, lanes: Sequence[Lane]) -> list[OscineError | None]:
        """One language model step for every lane; the ids go straight on to the flow. Returns each lane's failure.

        Raises PoolExhausted, with nothing changed.
        """
        segments = [segment for lane in lanes if (segment := lane.reading) is not None]
        self._lm.step([segment.lm for segment in segments])
        return [self._hand_on(segment) for segment in segments]

    def _hand_on(self, segment: Segment) -> OscineError | None:
        """Feed the flow what the language model has said since the last time."""
        if segment.lm.failure is not None:
            return segment.lm.failure
        flow = segment.flow = segment.flow or self._flow.open(segment.prefix)
        done = segment.lm.state == "done"
        new = segment.lm.tokens[segment.fed :]
        if new or done:
            try:
                self._flow.feed(flow, new, last=done)
            except InvalidInput as error:
                return error
            segment.fed += len(new)
        if done and not segment.lm.tokens:
            # Nothing was said, so the flow will never be ready: the end goes straight on.
            segment.mel, segment.mel_ended = self._flow.take_mel(flow), True
        return None

    def denoise(self, lanes: Sequence[Lane]) -> None:
        """One Euler step for every lane, each wherever it is in its chunk.

        Raises PoolExhausted before any step; chunks begun by then stay begun.
        """
        sounding = [(segment, segment.flow) for lane in lanes if (segment := lane.sounding) and segment.flow]
        for _, flow in sounding:
            if flow.chunk is None:
                self._flow.begin(flow)
        self._flow.step([flow for _, flow in sounding])
        for segment, flow in sounding:
            if flow.chunk is None:
                segment.mel = self._flow.take_mel(flow)
                segment.frames += segment.mel.shape[0]
                segment.mel_ended = self._flow.finished(flow)

    def vocode(self, lanes: Sequence[Lane]) -> list[NDArray[np.float32]]:
        """Turn each lane's waiting mel into samples, in order of `lanes`."""
        segments = [segment for lane in lanes if (segment := lane.sounding) is not None]
        work = [(segment.vocoder, segment.mel, segment.mel_ended) for segment in segments if segment.mel is not None]
        samples = self._vocoder.step(work)
        for segment in segments:
            segment.mel = None
        return samples

    def pages(self, stage: Stage, lane: Lane) -> int:
        """Pages of the stage's pool that the lane holds alone."""
        if stage is Stage.LM:
            return sum(len(segment.lm.pages) for segment in lane.segments())
        return sum(len(s.flow.pages) - len(s.prefix.pages) for s in lane.segments() if s.flow is not None)

    def close(self, segment: Segment) -> None:
        """Give back everything `segment` holds."""
        self._lm.close(segment.lm)
        if segment.flow is not None:
            self._flow.close(segment.flow)
