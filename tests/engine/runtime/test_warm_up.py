"""Before the first listener: sentences to nobody, which leave nothing behind."""

import math

import pytest

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.errors import InternalError
from oscine_engine.runtime.device import Device, DeviceLimits
from oscine_engine.runtime.trace import Trace
from oscine_engine.runtime.warm_up import SENTENCES
from oscine_engine.scheduler.views import Stage
from tests.engine.runtime.rig import COSTS


def make(checkpoint: Checkpoint, events: list[Trace], *, graphed: bool = False) -> Device:
    limits = DeviceLimits(max_streams=3, utilisation=math.inf)
    return Device(checkpoint, limits, costs=COSTS, observe=events.append, warmed=True, graphed=graphed)


@pytest.mark.parametrize("graphed", [False, True])
def test_every_stage_has_run_and_nothing_is_left(checkpoint: Checkpoint, graphed: bool) -> None:
    events: list[Trace] = []
    device = make(checkpoint, events, graphed=graphed)
    device.read_prompts()
    assert len(device._warm_texts) >= len(SENTENCES) // 2
    core = device.make_core()
    assert core.streams == [] and device.pages_held == 0
    assert device.lm.pool.num_free == device.lm.pool.num_pages
    # The rig's costs are not this machine's, so every stage must have learned.
    assert all(core.costs.correction[stage] != 1.0 for stage in Stage)
    assert events == [] and core.observe is not None


def test_an_engine_that_cannot_speak_does_not_start(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    device = make(checkpoint, [])

    def broken(*_: object) -> object:
        raise RuntimeError("no such device")

    monkeypatch.setattr(device.vocoder, "step", broken)
    with pytest.raises(InternalError, match="no such device"):
        device.start()
