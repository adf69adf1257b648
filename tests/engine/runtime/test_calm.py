"""What the scheduler is told of streams that only go on is what it would be told if each were looked at anew."""

import math

import pytest

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.planner import Begin, Ids, Step
from oscine_engine.runtime.core import Core
from oscine_engine.runtime.stream import Stream
from oscine_engine.settings import DeviceLimits
from tests.engine.runtime.rig import Rig, whole, words


def interleaved(count: int) -> list[Step]:
    return [Begin(whole=False), Ids(tuple(words(count)))]


@pytest.mark.parametrize("graphed", [False, True])
def test_views_are_those_of_a_fresh_look(
    checkpoint: Checkpoint, graphed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Stream] = []
    look = Core._look

    def counted(core: Core, stream: Stream, now: float) -> None:
        looked.append(stream)
        look(core, stream, now)

    monkeypatch.setattr(Core, "_look", counted)
    rig = Rig(checkpoint, DeviceLimits(max_streams=4, utilisation=math.inf, max_waiting_s=2.0), graphed=graphed)
    rig.takes = False
    core = rig.core
    streams = [rig.open(seed)[0] for seed in range(4)]
    for stream, count in zip(streams, (40, 17, 28, 9), strict=True):
        core.speak(stream, whole(words(count), words(12)), end=stream is not streams[1])
    core.speak(streams[1], interleaved(30))
    kept = moved = 0
    for turn in range(4000):
        if not core.turn():
            break
        views = core._views(rig.clock.now)
        looks = len(looked)
        for stream, view in zip(core.streams, views, strict=True):
            calm = stream.lane.calm
            look(core, stream, rig.clock.now)
            assert stream.view == view
            stream.lane.calm = calm
        kept, moved = kept + len(views) - looks, moved + 1
        looked.clear()
        if turn % 7 == 0:
            for stream in core.streams:
                core.taken(stream, max(0, stream.listener.sent - stream.listener.taken) // 2)
    assert moved > 100
    # Where steps of the language model leave streams alone as well, it is more than one in every tick.
    assert kept > (moved if graphed else 0)
