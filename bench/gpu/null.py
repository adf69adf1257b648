"""A device that does nothing, at once, and says that it took as long as one: what is left of a loop is its host's work.

The runners for a GPU run on a CPU as well. Here the steps that they would launch are replaced: the language model says
ids by lot, the flow's mels and the vocoder's waves are noise made once, and `Clock`, which goes by nothing else, moves
by what the step costs. So the same streams are moved by the same ticks in every run, however fast the host is.

With `side_by_side` a step of the language model and an Euler step that are at work together get on as
`bench.gpu.overlap` says; otherwise one begins when the other is done.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
import torch

from oscine_engine.flow.graphed import GraphedFlow
from oscine_engine.lm.graphed import GraphedLM
from oscine_engine.runtime.device import Device
from oscine_engine.runtime.kernels import lm_lines
from oscine_engine.scheduler.costs import CostModel
from oscine_engine.scheduler.views import Stage, Tick
from oscine_engine.vocoder.graphed import GraphedVocoder

COSTS = CostModel.measured(
    lm=[(1, 0.82e-3), (8, 0.91e-3), (32, 1.04e-3), (64, 1.1e-3), (1024, 10e-3)],
    flow=[(1, 100, 0.75e-3), (8, 800, 1.2e-3), (8, 4000, 1.7e-3), (32, 3200, 3.5e-3), (32, 16000, 5.5e-3)],
    vocoder=[(1, 0.74e-3), (8, 1.8e-3), (32, 6.0e-3)],
    stepped=True,
)
"""Of one H200 in float16, as measured (docs/benchmarks.md)."""
HOST_S = 0.3e-3
"""What the host is said to take for a tick."""
TOGETHER = 1.2
"""How much faster two steps are side by side than one after the other, as measured."""


@dataclass
class Clock:
    """Seconds. choices: a digest of every tick that was picked. ends: of the two Euler steps launched last."""

    side_by_side: bool = False
    now: float = 1000.0
    choices: Any = field(default_factory=sha256)
    ends: tuple[float, float] = (0.0, 0.0)

    def __call__(self) -> float:
        return self.now

    def note(self, ticks: Sequence[Tick]) -> None:
        for tick in ticks:
            self.choices.update(repr((int(tick.stage), tick.members)).encode())

    def launch(self, seconds: float) -> None:
        """An Euler step, which is not waited for."""
        self.ends = self.ends[1], max(self.now, self.ends[1]) + seconds

    def wait(self) -> None:
        """For the Euler step that was launched last."""
        self.now = max(self.now, self.ends[1])

    def keep_up(self) -> None:
        """For the one before."""
        self.now = max(self.now, self.ends[0])

    def read(self, seconds: float) -> None:
        """A step of the language model, which is waited for."""
        left = max(0.0, self.ends[1] - self.now) if self.side_by_side else 0.0
        if not left:
            self.wait()
        shared = min(seconds, left)
        self.now += seconds + shared * (2 / TOGETHER - 1)
        if left:
            # As much longer for the Euler steps.
            self.ends = self.ends[0], max(self.ends[1] + shared * (2 / TOGETHER - 1), self.now - seconds + shared)


def silence(device: Device, clock: Clock, timed: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
    """Replace every step of `device`; each replacement goes through `timed`, since it is not the loop's work."""
    lm, flow, vocoder = device.lm, device.flow, device.vocoder
    assert isinstance(lm, GraphedLM) and isinstance(flow, GraphedFlow) and isinstance(vocoder, GraphedVocoder)
    generator = np.random.default_rng(0)
    for tick in [*lm._read, *[tick for ticks in lm._say.values() for tick in ticks]]:
        tick.run = timed(_saying(lm, tick, clock, generator))
    for size, steps in flow._ticks.items():
        for step in steps:
            step.outputs.host["mel"][:] = generator.normal(-5, 1, step.outputs.host["mel"].shape)
            step.run = timed(partial(clock.launch, COSTS.tick_s(Stage.FLOW, size, 200 * size)))
        flow._starting[size].run = timed(lambda: None)
    flow._lets_go = True
    setattr(flow._graphs, "wait", clock.wait)  # noqa: B010
    setattr(flow._graphs, "keep_up", clock.keep_up)  # noqa: B010
    for (size, _), batch in vocoder._ticks.items():
        batch.outputs.host["wave"][:] = generator.normal(0, 0.05, batch.outputs.host["wave"].shape)
        batch.run = timed(_sounding(clock, COSTS.tick_s(Stage.VOCODER, size)))


def _sounding(clock: Clock, seconds: float) -> Callable[[], None]:
    def run() -> None:
        clock.wait()
        clock.now += seconds

    return run


def _saying(lm: GraphedLM, tick: Any, clock: Clock, generator: np.random.Generator) -> Callable[[], None]:
    streams, draws = tick.shape.streams, tick.shape.draws
    seconds = COSTS.tick_s(Stage.LM, tick.shape.rows)

    @torch.inference_mode()
    def run() -> None:
        book, results = lm.book, tick.outputs.host
        lines = torch.from_numpy(book.lines[book.at[:streams]])
        lines[:, lm_lines.HELD].clamp_(max=draws - 1)
        picks = torch.from_numpy(generator.integers(0, lm._rule.speech_ids, (streams, draws)))
        picks = torch.where(torch.arange(draws) <= lines[:, lm_lines.HELD, None], picks, -1)
        verdict = lm_lines.verify(picks, lines, lm._lots, book.window, lm._rule.speech_ids)
        results["ids"][:], results["tally"][:], results["lines"][:] = picks, verdict.tally, verdict.lines
        clock.read(seconds)

    return run
