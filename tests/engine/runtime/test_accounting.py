"""What a tick took is learned even where nobody waited for it."""

from collections.abc import Sequence
from typing import Any

import pytest

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.errors import Cancelled
from oscine_engine.runtime.stages import Chunk
from oscine_engine.runtime.trace import Ticked, Trace
from oscine_engine.scheduler.views import Stage
from tests.engine.runtime.rig import COSTS, Rig, TimedStages, words


class LateStages(TimedStages):
    """Euler steps return at once, and the next tick that is waited for takes their time as well."""

    owed: float = 0.0

    def _spend(self, stage: Stage, rows: int) -> None:
        self.ticks.append((stage, rows))
        self.owed += self.costs.tick_s(stage, rows)
        if stage is not Stage.FLOW:
            self._pay()

    def _pay(self) -> None:
        self.clock.now += self.owed
        self.owed = 0.0

    def denoise(self, lanes: Sequence[Any]) -> Any:
        outcomes = super().denoise(lanes)
        self.flow.pending = not any(isinstance(outcome, Chunk) for outcome in outcomes)
        if not self.flow.pending:
            self._pay()
        return outcomes


@pytest.mark.parametrize("streams", [1, 4])
def test_ticks_that_are_not_waited_for_are_told_of_and_learned_from_together(
    checkpoint: Checkpoint, streams: int
) -> None:
    events: list[Trace] = []
    # Context is said to cost nothing, as it costs the rig nothing.
    costs = type(COSTS)(COSTS.lm, COSTS.flow, COSTS.vocoder)
    rig = Rig(checkpoint, costs=costs, observe=events.append)
    rig.stages.__class__ = LateStages
    start = rig.clock.now
    for seed in range(streams):
        stream, _ = rig.open(seed)
        rig.say(stream, words(9 + seed), words(6))
    rig.run()
    ticks = [event for event in events if isinstance(event, Ticked)]
    assert [(tick.stage, len(tick.seeds)) for tick in ticks] == rig.stages.ticks
    assert sum(tick.wall_s for tick in ticks) == pytest.approx(rig.clock.now - start)
    for tick in ticks:
        # Prompts are read for more than a tick is said to cost here; whoever shares with them seems dearer.
        assert tick.wall_s > 0
    whole = [tick for tick in ticks if tick.stage is Stage.FLOW]
    assert sum(tick.wall_s for tick in whole) == pytest.approx(
        sum(costs.tick_s(Stage.FLOW, len(tick.seeds)) for tick in whole), rel=0.1
    )
    assert rig.core.costs.correction[Stage.FLOW] == pytest.approx(1.0, abs=0.1)


def test_an_idle_device_is_not_counted(checkpoint: Checkpoint) -> None:
    """A stream is ended between two steps, and nothing follows for an hour."""
    rig = Rig(checkpoint)
    rig.stages.__class__ = LateStages
    stream, _ = rig.open()
    rig.say(stream, words(9))
    while not rig.device.flow.pending:
        rig.turn()
    rig.core.end(stream, Cancelled("gone"))
    assert not rig.turn()
    rig.clock.now += 3600
    before = rig.core.costs.correction
    rig.heard(words(9))
    assert all(after < 1.1 * value for after, value in zip(rig.core.costs.correction, before, strict=True))
