"""Drives the loop's inside by hand: the real tiny model, a clock that moves by what ticks are said to cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.errors import OscineError
from oscine_engine.events import Audio, Done, Flushed
from oscine_engine.planner import Begin, End, Ids, Step
from oscine_engine.port import PortEvent, Progress, StreamOptions
from oscine_engine.runtime.device import Device, DeviceLimits
from oscine_engine.runtime.stages import Stages
from oscine_engine.runtime.stream import Stream
from oscine_engine.runtime.trace import Observe
from oscine_engine.scheduler.costs import CostModel
from oscine_engine.scheduler.views import Stage

COSTS = CostModel.measured(
    lm=[(1, 0.002), (8, 0.003), (64, 0.006)], flow=[(1, 50, 0.004), (8, 400, 0.012)], vocoder=[(1, 0.01), (8, 0.03)]
)
SAME = 2e-2
"""Waves of the same ids are equal up to rounding, which the phase of the vocoder's source makes larger."""


@dataclass
class Ear:
    """What one stream was told."""

    clock: "Clock"
    events: list[tuple[float, PortEvent]] = field(default_factory=list)
    taken: int = 0

    def __call__(self, event: PortEvent) -> None:
        assert not self.over, "nothing comes after the end"
        self.events.append((self.clock.now, event))

    def of(self, kind: type) -> list[Any]:
        return [event for _, event in self.events if isinstance(event, kind)]

    @property
    def over(self) -> bool:
        return bool(self.events) and isinstance(self.events[-1][1], Done | OscineError)

    @property
    def done(self) -> Done:
        end = self.events[-1][1]
        assert isinstance(end, Done), end
        return end

    @property
    def error(self) -> OscineError:
        end = self.events[-1][1]
        assert isinstance(end, OscineError), end
        return end

    @property
    def samples(self) -> np.ndarray:
        """All audio, whose numbering must be without a hole."""
        position, parts = 0, [np.zeros(0, np.float32)]
        for seq, audio in enumerate(self.of(Audio)):
            assert (audio.seq, audio.start_sample) == (seq, position)
            assert audio.samples.size and np.isfinite(audio.samples).all()
            position += audio.samples.size
            parts.append(audio.samples)
        return np.concatenate(parts)

    def check(self) -> None:
        """Whatever happened to the stream, what it was told makes sense."""
        samples = self.samples.size
        assert all(mark.end_sample <= samples for mark in self.of(Flushed))
        answered = [progress.answered for progress in self.of(Progress)]
        assert answered == sorted(answered)
        for before, after in zip(self.of(Progress), self.of(Progress)[1:], strict=False):
            assert before != after


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


class TimedStages(Stages):
    """The real stages; every tick moves the clock."""

    clock: Clock
    costs: CostModel
    ticks: list[tuple[Stage, int]]

    def _spend(self, stage: Stage, rows: int) -> None:
        self.clock.now += self.costs.tick_s(stage, rows)
        self.ticks.append((stage, rows))

    def read(self, lanes: Sequence[Any], guesses: int | None = None) -> Any:
        self._spend(Stage.LM, len(lanes))
        return super().read(lanes, guesses)

    def denoise(self, lanes: Sequence[Any]) -> Any:
        self._spend(Stage.FLOW, len(lanes))
        return super().denoise(lanes)

    def vocode(self, lanes: Sequence[Any]) -> Any:
        self._spend(Stage.VOCODER, len(lanes))
        return super().vocode(lanes)


class Rig:
    """A core without a thread. Its listeners take all they are sent after every turn, unless `takes` is unset."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        limits: DeviceLimits | None = None,
        *,
        costs: CostModel = COSTS,
        observe: Observe | None = None,
        graphed: bool = False,
        device: str = "cpu",
    ) -> None:
        self.clock = Clock()
        self.device = Device(
            checkpoint,
            limits or DeviceLimits(max_streams=4, utilisation=float("inf")),
            device,
            costs=costs,
            clock=self.clock,
            observe=observe,
            graphed=graphed,
        )
        self.device.read_prompts()
        self.core = self.device.make_core()
        stages = self.core.stages
        stages.__class__ = TimedStages
        self.stages: TimedStages = stages  # type: ignore[assignment]
        self.stages.clock, self.stages.costs, self.stages.ticks = self.clock, costs, []
        self.takes = True
        self._ears: list[tuple[Stream, Ear]] = []
        self.voice = next(iter(self.device.voices), "")

    def open(self, seed: int = 1, voice: str | None = None, trim: bool = False, **more: Any) -> tuple[Stream, Ear]:
        """more: further `StreamOptions`."""
        ear = Ear(self.clock)
        options = StreamOptions(voice or self.voice, seed, trim, **more)
        stream = self.core.admit(options, ear, self.device.book.get(voice or self.voice))
        self._ears.append((stream, ear))
        return stream, ear

    def say(self, stream: Stream, *sentences: Sequence[int], mark: bool = False, end: bool = True) -> None:
        self.core.speak(stream, whole(*sentences), mark=mark, end=end)

    def turn(self) -> bool:
        """One turn of the loop; True if there was something to do."""
        worked = self.core.turn()
        self._ears = [(stream, ear) for stream, ear in self._ears if not ear.over]
        for stream, ear in self._ears if self.takes else ():
            sent = stream.listener.sent
            if sent > ear.taken:
                self.core.taken(stream, sent - ear.taken)
                ear.taken = sent
        return worked

    def run(self, *, most: int = 10000) -> int:
        """Turn until there is nothing to do; returns the turns taken."""
        for turn in range(most):
            if not self.turn():
                return turn
        raise AssertionError("the loop does not come to rest")

    def heard(self, *sentences: Sequence[int], seed: int = 1) -> np.ndarray:
        """The samples of a stream that is alone."""
        stream, ear = self.open(seed)
        self.say(stream, *sentences)
        self.run()
        assert ear.done
        return ear.samples

    def check_idle(self) -> None:
        """Nothing is left behind: no stream, no page, no holder of a voice, and exact counts in both pools."""
        device = self.device
        assert self.core.streams == [] and device.pages_held == 0
        assert device.lm.pool.num_free == device.lm.pool.num_pages
        assert device.flow.pool.num_pages - device.flow.pool.num_free == device.voice_cache.pages_held
        assert all(voice.holders == 0 for voice in device.voice_cache._cached.values())


def whole(*sentences: Sequence[int]) -> list[Step]:
    return [step for ids in sentences for step in (Begin(whole=True), Ids(tuple(ids)), End())]


def words(count: int, start: int = 100) -> list[int]:
    """So many text ids of the synthetic tokenizer."""
    return [start + index * 7 % 50 for index in range(count)]
