"""Whatever happens in whatever order: nothing is left behind, nothing is lost, and nobody is told nonsense."""

from dataclasses import dataclass, field

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.errors import Cancelled, Overloaded
from oscine_engine.events import Audio, Flushed
from oscine_engine.planner import Begin, End, Ids
from oscine_engine.runtime.stream import Stream
from tests.engine.runtime.rig import Ear, Rig, words

STREAMS = 3
MOST_SENTENCES = 4


@dataclass
class Life:
    """One stream and what was done to it."""

    stream: Stream
    ear: Ear
    sentences: int = 0
    ids: int = 0
    marks: int = 0
    open: bool = False
    finished: bool = False
    cancelled: bool = False
    poisoned: bool = False
    taken: int = 0

    @property
    def writable(self) -> bool:
        return not (self.finished or self.cancelled)


@dataclass
class World:
    rig: Rig
    lives: list[Life] = field(default_factory=list)


class Interleavings(RuleBasedStateMachine):
    """Streams of one loop under every verb at any moment, between any two ticks."""

    checkpoint: Checkpoint

    @initialize()
    def begin(self) -> None:
        self.world = World(Rig(self.checkpoint))
        self.world.rig.takes = False

    def pick(self, data: st.DataObject, wanted: str = "writable") -> Life | None:
        fitting = [life for life in self.world.lives if getattr(life, wanted)]
        return data.draw(st.sampled_from(fitting)) if fitting else None

    @rule(seed=st.integers(0, 5), trim=st.booleans())
    def open(self, seed: int, trim: bool) -> None:
        if len(self.world.lives) >= 6:
            return
        try:
            stream, ear = self.world.rig.open(seed, trim=trim)
        except Overloaded:
            assert len(self.world.rig.core.streams) == 4
            return
        self.world.lives.append(Life(stream, ear))

    @rule(data=st.data(), count=st.integers(1, 12))
    def speak(self, data: st.DataObject, count: int) -> None:
        life = self.pick(data)
        if life is None or life.open or life.sentences >= MOST_SENTENCES:
            return
        life.sentences += 1
        life.ids += count
        self.world.rig.core.speak(life.stream, [Begin(whole=True), Ids(tuple(words(count))), End()])

    @rule(data=st.data(), count=st.integers(0, 7), end=st.booleans())
    def write(self, data: st.DataObject, count: int, end: bool) -> None:
        """A sentence in pieces."""
        life = self.pick(data)
        if life is None or (not life.open and life.sentences >= MOST_SENTENCES):
            return
        steps: list[Begin | Ids | End] = []
        if not life.open:
            life.sentences += 1
            steps.append(Begin(whole=False))
        steps.append(Ids(tuple(words(count))))
        life.ids += count
        if end:
            steps.append(End())
        life.open = not end
        self.world.rig.core.speak(life.stream, steps)

    @rule(data=st.data(), finish=st.booleans())
    def flush(self, data: st.DataObject, finish: bool) -> None:
        life = self.pick(data)
        if life is None or life.marks > 8:
            return
        steps = [End()] if life.open else []
        life.open = False
        life.marks += 1
        life.finished = finish
        self.world.rig.core.speak(life.stream, steps, mark=True, end=finish)

    @rule(data=st.data(), share=st.floats(0, 1))
    def take(self, data: st.DataObject, share: float) -> None:
        life = self.pick(data, "ear")
        if life is not None:
            samples = int(share * (life.ear.samples.size - life.taken))
            life.taken += samples
            self.world.rig.core.taken(life.stream, samples)

    @rule(data=st.data(), share=st.floats(0, 1.5))
    def report(self, data: st.DataObject, share: float) -> None:
        life = self.pick(data, "ear")
        if life is not None:
            self.world.rig.core.played(life.stream, int(share * life.ear.samples.size))

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        life = self.pick(data, "ear")
        if life is not None:
            life.cancelled = True
            self.world.rig.core.end(life.stream, Cancelled("never mind"))

    @rule(data=st.data())
    def poison(self, data: st.DataObject) -> None:
        life = self.pick(data, "ear")
        if life is None or not life.stream.lane.segments:
            return
        segment = life.stream.lane.segments[0]
        if segment.mel is not None and segment.mel.numel():
            segment.mel[0, 0] = torch.nan
        elif segment.flow is not None and segment.flow.chunk is not None:
            assert segment.flow.chunk.work is not None
            segment.flow.chunk.work.x = segment.flow.chunk.work.x[:, :7]
        elif segment.lm.pages and not segment.complete:
            self.world.rig.device.lm.pool.data[segment.lm.pages] = torch.nan
        else:
            return
        life.poisoned = True

    @rule(turns=st.integers(1, 60))
    def turn(self, turns: int) -> None:
        for _ in range(turns):
            self.world.rig.turn()
        self.check_shares()

    @rule(seconds=st.floats(0, 3))
    def wait(self, seconds: float) -> None:
        self.world.rig.clock.now += seconds

    @precondition(lambda self: self.world.lives)
    @rule()
    def drain(self) -> None:
        """Whoever listens takes everything: all comes to rest with all said that could be."""
        self.settle()

    def settle(self) -> None:
        for _ in range(200):
            self.world.rig.run()
            moved = False
            for life in self.world.lives:
                if not life.ear.over and (sent := life.ear.samples.size) > life.taken:
                    self.world.rig.core.taken(life.stream, sent - life.taken)
                    self.world.rig.core.played(life.stream, sent)
                    life.taken, moved = sent, True
            if not moved:
                break
        for life in self.world.lives:
            self.check(life)

    def check_shares(self) -> None:
        device, core = self.world.rig.device, self.world.rig.core
        held = shared = 0
        for stream in core.streams:
            prefix = stream.lane.voice.prefix
            for segment in stream.lane.segments:
                held += len(segment.lm.pages)
                if segment.flow is not None and segment.flow.pages:
                    held += len(segment.flow.pages)
                    shared += len(prefix.pages) if prefix is not None else 0
        assert device.pages_held == held - shared

    def check(self, life: Life) -> None:
        """After all has come to rest."""
        life.ear.check()
        answered = len(life.ear.of(Flushed))
        if life.ear.over:
            assert life.finished or life.cancelled or life.poisoned
            if not (life.cancelled or life.poisoned):
                assert life.ear.done.stats.segments == life.sentences and answered == life.marks
        else:
            assert not life.finished and not life.cancelled
            if not life.open:
                assert answered == life.marks
                assert not life.stream.lane.segments and not life.stream.held
        if life.ids and not life.open and not (life.cancelled or life.poisoned):
            assert life.ear.of(Audio)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.settle()
        for life in self.world.lives:
            if not life.ear.over:
                self.world.rig.core.end(life.stream, Cancelled("the end"))
        self.world.rig.check_idle()
        assert not self.world.rig.core.turn()


@pytest.mark.parametrize("batch", range(2))
def test_any_interleaving_leaves_nothing_behind(checkpoint: Checkpoint, batch: int) -> None:
    machine = type("Machine", (Interleavings,), {"checkpoint": checkpoint})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=12,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@given(cuts=st.lists(st.integers(1, 12), min_size=1, max_size=12), turns=st.lists(st.integers(0, 8), min_size=12))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_how_text_trickles_in_changes_nothing(checkpoint: Checkpoint, cuts: list[int], turns: list[int]) -> None:
    """An interleaved sentence says the same whenever its ids come."""
    text = words(14)
    rig = Rig(checkpoint)
    waves = []
    for pieces in ([len(text)], cuts):
        stream, ear = rig.open()
        rig.core.speak(stream, [Begin(whole=False)])
        place = 0
        for piece, wait in zip([*pieces, len(text)], [*turns, *turns], strict=False):
            rig.core.speak(stream, [Ids(tuple(text[place : place + piece]))])
            place += piece
            for _ in range(wait):
                rig.turn()
        rig.core.speak(stream, [End()], end=True)
        rig.run()
        assert ear.done
        waves.append(ear.samples)
    assert waves[0].size == waves[1].size
    np.testing.assert_allclose(waves[0], waves[1], atol=2e-2)
    rig.check_idle()
