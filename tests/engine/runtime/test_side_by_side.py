"""Steps of the language model beside Euler steps: on a GPU at the same time, and everywhere the same ids and sound."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from oscine_engine.checkpoint import synthetic
from oscine_engine.flow.graphed import GraphedFlow
from oscine_engine.runtime import core as cores
from oscine_engine.runtime.trace import Said, Trace
from oscine_engine.scheduler.policy import pick_beside
from oscine_engine.scheduler.views import Stage, StreamView, Tick
from oscine_engine.settings import DeviceLimits
from tests.engine.runtime.rig import COSTS, SAME, Rig, whole, words

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RULES = replace(synthetic.SMALL.text, min_token_text_ratio=3.0, max_token_text_ratio=3.0)
CONFIG = replace(synthetic.SMALL, text=RULES)
WORKING, SOLVING, RESTING = frozenset({Stage.LM, Stage.FLOW}), frozenset({Stage.FLOW}), frozenset[Stage]()


def spoken(*, side_by_side: bool) -> tuple[dict[int, list[tuple[int, ...]]], list[np.ndarray]]:
    ids: dict[int, list[tuple[int, ...]]] = {}

    def watch(event: Trace) -> None:
        if isinstance(event, Said):
            ids.setdefault(event.seed, []).append(event.ids)

    rig = Rig(
        synthetic.checkpoint(CONFIG, device=DEVICE),
        DeviceLimits(max_streams=4, utilisation=math.inf, stream_bytes=1 << 28, side_by_side=side_by_side),
        observe=watch,
        graphed=True,
        device=DEVICE,
    )
    # As if there were a device that goes on by itself, where there is none.
    assert isinstance(rig.device.flow, GraphedFlow)
    rig.device.flow._lets_go = True
    ears = []
    for seed, count in enumerate((30, 17, 24, 8)):
        stream, ear = rig.open(seed)
        rig.core.speak(stream, whole(words(count), words(12)), end=True)
        ears.append(ear)
    rig.run()
    assert all(ear.done for ear in ears)
    rig.check_idle()
    return ids, [ear.samples for ear in ears]


def test_side_by_side_changes_neither_ids_nor_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    ids, waves = spoken(side_by_side=False)
    picked: list[Tick] = []

    def counted(*args: object) -> Tick | None:
        tick = pick_beside(*args)  # type: ignore[arg-type]
        picked.extend([tick] if tick else [])
        return tick

    monkeypatch.setattr(cores, "pick_beside", counted)
    again, others = spoken(side_by_side=True)
    assert len(picked) > 20
    assert again == ids
    for wave, other in zip(waves, others, strict=True):
        assert wave.shape == other.shape
        np.testing.assert_allclose(other, wave, atol=SAME, rtol=0)


def view(ready: frozenset[Stage], rows: int = 1) -> StreamView:
    return StreamView(0.0, 1.0, ready, ids_left=5, lm_rows=rows)


def test_what_runs_beside_is_no_longer_than_the_euler_step() -> None:
    assert pick_beside([view(WORKING)] * 3, COSTS.lm(3), COSTS) == Tick(Stage.LM, (0, 1, 2))
    # Who is too many for it, or reads a text, waits.
    assert pick_beside([view(WORKING, 40), *[view(WORKING)] * 3], COSTS.lm(3), COSTS) == Tick(Stage.LM, (1, 2, 3))
    assert pick_beside([view(WORKING)] * 3, 0.9 * COSTS.lm(1), COSTS) is None


def test_what_runs_beside_is_for_half_of_those_that_work() -> None:
    half = [view(WORKING), view(SOLVING), view(RESTING), view(RESTING)]
    assert pick_beside(half, 1.0, COSTS) == Tick(Stage.LM, (0,))
    assert pick_beside([*half, view(SOLVING)], 1.0, COSTS) is None
    assert pick_beside([view(RESTING)], 1.0, COSTS) is None
