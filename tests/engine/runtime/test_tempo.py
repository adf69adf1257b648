"""Speech drawn together and apart: the mel, the loop over it, and admission."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.errors import Overloaded
from oscine_engine.runtime.tempo import Tempo
from oscine_engine.runtime.trace import Solved, Trace
from oscine_engine.scheduler.admission import Pace, utilisation
from oscine_engine.settings import DeviceLimits
from tests.engine.runtime.rig import COSTS, Rig, words

SPEEDS = (0.5, 0.8, 1.25, 2.0)


@pytest.mark.parametrize("speed", SPEEDS)
def test_frames_are_those_of_the_released_code(speed: float) -> None:
    mel = torch.randn(200, 80, generator=torch.Generator().manual_seed(1))
    wanted = F.interpolate(mel.T[None], size=int(200 / speed), mode="linear")[0].T
    torch.testing.assert_close(Tempo(speed).push(mel, last=True), wanted, atol=1e-4, rtol=0)


@given(st.floats(0.5, 2.0), st.lists(st.integers(0, 60), max_size=8), st.integers(1, 60))
@settings(max_examples=200, deadline=None)
def test_any_cut_gives_the_frames_of_the_whole(speed: float, sizes: list[int], rest: int) -> None:
    total = sum(sizes) + rest
    mel = torch.randn(total, 8, generator=torch.Generator().manual_seed(total))
    whole = Tempo(speed).push(mel, last=True)
    tempo, at, made = Tempo(speed), 0, []
    for size in sizes:
        made.append(tempo.push(mel[at : at + size], last=False))
        at += size
        # Nothing is held back that a frame still to come could not change.
        assert sum(map(len, made)) >= at / speed - 1 - 1 / speed
    made.append(tempo.push(mel[at:], last=True))
    torch.testing.assert_close(torch.cat(made), whole, atol=1e-5, rtol=0)
    assert len(whole) == max(1, int(total / speed))


def test_as_the_voice_speaks_nothing_is_changed() -> None:
    mel = torch.randn(50, 80)
    assert Tempo(1.0).push(mel, last=False) is mel


@pytest.mark.parametrize("speed", [0.5, 1.5, 2.0])
def test_a_stream_sounds_its_frames_drawn_at_its_speed_beside_others(checkpoint: Checkpoint, speed: float) -> None:
    """Its samples are the vocoder's of the whole mel, drawn at once; another's beside it are as if it were alone."""
    mels: dict[int, list[torch.Tensor]] = {}

    def watch(event: Trace) -> None:
        if isinstance(event, Solved):
            mels.setdefault(event.seed, []).append(event.mel.clone())

    rig = Rig(checkpoint, observe=watch)
    alone = rig.heard(words(9), seed=2)
    mels.clear()
    changed, plain = rig.open(1, speed=speed), rig.open(2)
    for stream, _ in (changed, plain):
        rig.say(stream, words(9))
    rig.run()
    assert changed[1].done.stats.underruns == 0
    whole = torch.cat(mels[1])
    vocoder = rig.device.vocoder
    (wanted,) = vocoder.step([(vocoder.open(), Tempo(speed).push(whole, last=True), True)])
    assert changed[1].samples.size == int(len(whole) / speed) * 480
    faded = slice(240, -240)
    np.testing.assert_allclose(changed[1].samples[faded], wanted[faded], atol=2e-2, rtol=0)
    np.testing.assert_allclose(plain[1].samples, alone, atol=2e-2, rtol=0)
    rig.check_idle()


def test_a_speed_does_not_change_what_is_said(checkpoint: Checkpoint) -> None:
    """Speech ids and segments are those of the same seed; only the sound is shorter or longer."""
    lengths = []
    for speed in (1.0, 2.0):
        rig = Rig(checkpoint)
        stream, ear = rig.open(3, speed=speed)
        rig.say(stream, words(6), words(7))
        rig.run()
        lengths.append((ear.done.stats.speech_tokens, ear.done.stats.segments, ear.samples.size))
    assert lengths[0][:2] == lengths[1][:2]
    assert lengths[0][2] == pytest.approx(2 * lengths[1][2], abs=2 * 480)


def test_who_speaks_faster_is_reckoned_to_ask_for_more() -> None:
    as_ever, twice = utilisation(4, COSTS, Pace()), utilisation(4, COSTS, Pace(rate=2.0))
    assert as_ever < twice < 2 * as_ever


def test_fast_speakers_fill_an_engine_sooner(checkpoint: Checkpoint) -> None:
    """With a limit that four just keep, the fourth is refused beside three who speak twice as fast."""
    rates = {}
    limit = utilisation(4, COSTS, Rig(checkpoint).core.bounds.pace) * 1.01
    for speed in (1.0, 2.0):
        rig = Rig(checkpoint, DeviceLimits(max_streams=8, utilisation=limit))
        for count in itertools.count():
            try:
                rig.open(count, speed=speed)
            except Overloaded:
                rates[speed] = count
                break
    assert rates[2.0] < rates[1.0]
