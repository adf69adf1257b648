"""The cache of voices' pages: shared, bounded, evicted by last use, and built without standing in anybody's way."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.errors import Cancelled, InvalidInput, Overloaded
from oscine_engine.events import Audio
from oscine_engine.flow.runner import page_shape
from oscine_engine.runtime.device import DeviceLimits
from oscine_engine.scheduler.views import Stage
from tests.engine.runtime.rig import SAME, Rig, words

PAGES = 2
"""Finished chunks of each voice's prompt of 65 tokens, 15 of which stay open."""
NAMES = ("first", "second", "third")


@pytest.fixture(scope="module")
def voices(checkpoint: Checkpoint) -> Checkpoint:
    """Three voices that differ in their embedding, and one that is too long for any pool."""
    only = checkpoint.voices["synthetic"]
    made = {name: replace(only, name=name, embedding=only.embedding.roll(place)) for place, name in enumerate(NAMES)}
    return replace(checkpoint, voices=made)


def rig_for(voices: Checkpoint, together: int) -> Rig:
    """Room for so many voices at once."""
    page_bytes = 4 * math.prod(page_shape(voices.config.flow, voices.config.n_timesteps))
    budget = together * PAGES * page_bytes
    return Rig(voices, DeviceLimits(max_streams=4, utilisation=float("inf"), voice_bytes=budget))


def speak(rig: Rig, voice: str, seed: int = 1) -> np.ndarray:
    stream, ear = rig.open(seed, voice)
    rig.say(stream, words(9))
    rig.run()
    assert ear.done
    return ear.samples


def test_the_first_voices_that_fit_are_there_from_the_start(voices: Checkpoint) -> None:
    assert rig_for(voices, 2).device.voice_cache.built == ("first", "second")
    assert rig_for(voices, 3).device.voice_cache.built == NAMES
    assert rig_for(voices, 0).device.voice_cache.built == ("first",), "one voice always fits"


def test_a_voice_that_was_evicted_speaks_as_before(voices: Checkpoint) -> None:
    roomy, tight = rig_for(voices, 3), rig_for(voices, 1)
    for name in (*NAMES, *NAMES):
        np.testing.assert_allclose(speak(tight, name), speak(roomy, name), atol=SAME)
        assert tight.device.voice_cache.built == (name,)
        assert tight.device.voice_cache.pages_held == PAGES
    tight.check_idle()
    roomy.check_idle()


def test_the_voice_unused_for_longest_makes_room(voices: Checkpoint) -> None:
    rig = rig_for(voices, 2)
    speak(rig, "first")
    speak(rig, "third")
    assert rig.device.voice_cache.built == ("first", "third")
    speak(rig, "first")
    speak(rig, "second")
    assert rig.device.voice_cache.built == ("first", "second")


def test_a_voice_in_use_is_never_evicted(voices: Checkpoint) -> None:
    rig = rig_for(voices, 1)
    stream, ear = rig.open(1, "first")
    with pytest.raises(Overloaded) as refused:
        rig.open(2, "second")
    assert refused.value.retry_after_s > 0
    rig.say(stream, words(9))
    rig.run()
    assert ear.done
    speak(rig, "second")
    rig.check_idle()


def test_streams_that_wait_for_one_voice_share_its_making(voices: Checkpoint) -> None:
    rig = rig_for(voices, 1)
    together = [rig.open(seed, "second") for seed in range(3)]
    for stream, _ in together:
        rig.say(stream, words(9))
    rig.run()
    for seed, (_, ear) in enumerate(together):
        np.testing.assert_allclose(ear.samples, speak(rig, "second", seed), atol=SAME)
    rig.check_idle()


def test_a_voice_is_made_step_by_step_beside_others(voices: Checkpoint) -> None:
    """Its steps are announced, and between them a stream that sounds gets its ticks."""
    rig = rig_for(voices, 2)
    sounding, ear = rig.open(1, "first")
    rig.say(sounding, *[words(14)] * 4)
    while not ear.samples.size:
        rig.turn()
    newcomer, new_ear = rig.open(2, "third")
    rig.say(newcomer, words(9))
    steps = rig.device.flow.n_timesteps
    left = []
    while newcomer.lane.voice.prefix is None:
        rig.turn()
        left.append(newcomer.view.euler_left)
    assert left[0] == (PAGES + 1) * steps and left == sorted(left, reverse=True)
    assert max(before - after for before, after in itertools.pairwise(left)) <= 1
    rig.run()
    assert ear.done and new_ear.done
    assert ear.done.stats.underruns == 0
    rig.check_idle()


def test_a_voice_left_half_made_is_finished_by_the_next_who_asks(voices: Checkpoint) -> None:
    rig = rig_for(voices, 1)
    stream, _ = rig.open(1, "second")
    for _ in range(4):
        rig.turn()
    rig.core.end(stream, Cancelled("never mind"))
    rig.check_idle()
    assert rig.device.voice_cache.built == ()
    speak(rig, "second")
    assert rig.device.voice_cache.built == ("second",)
    half, _ = rig.open(1, "third")
    rig.turn()
    rig.core.end(half, Cancelled("never mind"))
    speak(rig, "first")
    rig.check_idle()


def test_a_voice_whose_numbers_are_bad_ends_those_who_wait_for_it_alone(voices: Checkpoint) -> None:
    bad = replace(voices.voices["third"], mel=torch.full_like(voices.voices["third"].mel, 1e38))
    rig = rig_for(replace(voices, voices={**voices.voices, "third": bad}), 2)
    beside, ear = rig.open(1, "first")
    rig.say(beside, words(14))
    alone = rig_for(voices, 2)
    others = [rig.open(seed, "third") for seed in (2, 3)]
    for stream, _ in others:
        rig.say(stream, words(9))
    rig.run()
    for _, other_ear in others:
        assert "not finite" in other_ear.error.message or "could not be made" in other_ear.error.message
    stream, alone_ear = alone.open(1, "first")
    alone.say(stream, words(14))
    alone.run()
    np.testing.assert_allclose(ear.samples, alone_ear.samples, atol=SAME)
    assert "third" not in rig.device.voice_cache.built
    rig.check_idle()


def test_a_voice_that_raises_while_it_is_made_ends_those_who_wait(
    voices: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = rig_for(voices, 1)
    stream, ear = rig.open(1, "second")
    _other, other_ear = rig.open(2, "second")
    rig.turn()
    prompt = stream.lane.voice.prompt
    assert prompt is not None and prompt.chunk is not None
    assert prompt.chunk.work is not None
    prompt.chunk.work.x = prompt.chunk.work.x[:, :7]
    rig.run()
    assert ear.error.code == other_ear.error.code == "internal"
    rig.check_idle()
    assert speak(rig, "second").size


def test_a_voice_that_can_never_fit_is_refused_at_once(voices: Checkpoint) -> None:
    noise = voices.noise.rand_noise.shape[-1] // 2
    only = voices.voices["first"]
    tokens = only.flow_speech_tokens.repeat(noise // 65)
    long = replace(only, name="long", flow_speech_tokens=tokens, mel=only.mel.repeat(noise // 65, 1))
    rig = Rig(replace(voices, voices={"first": only, "long": long}))
    with pytest.raises(InvalidInput, match="too long a prompt"):
        rig.open(1, "long")
    assert speak(rig, "first").size
    rig.check_idle()


def test_a_stream_opened_before_its_text_finds_its_voice_ready(voices: Checkpoint) -> None:
    rig = rig_for(voices, 1)
    stream, ear = rig.open(1, "second")
    assert rig.run() == PAGES * rig.device.flow.n_timesteps
    assert {stage for stage, _ in rig.stages.ticks} == {Stage.FLOW}
    rig.say(stream, words(9))
    rig.run()
    assert ear.done.stats.first_packet_s < 0.15


def test_work_counts_from_the_text_on_while_its_voice_is_made(voices: Checkpoint) -> None:
    """There is something to compute all the time: first the voice alone, and then for its listener."""
    rig = rig_for(voices, 1)
    stream, ear = rig.open(1, "second")
    for _ in range(3):
        assert rig.turn()
    began = rig.clock.now
    rig.say(stream, words(9))
    rig.run()
    stats = ear.done.stats
    last = max(at for at, event in ear.events if isinstance(event, Audio))
    assert stats.busy_s == pytest.approx(last - began)
    assert stats.first_packet_s is not None and stats.first_packet_s <= stats.busy_s
