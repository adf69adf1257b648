"""Voices of a store in a device: read outside the loop, bounded in number, shared where they sound the same."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from oscine_engine.checkpoint import synthetic
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.errors import Cancelled, InvalidInput, UnknownVoice
from oscine_engine.port import StreamOptions
from oscine_engine.runtime.core import Core
from oscine_engine.runtime.device import IDLE_VOICES, Device, DeviceLimits
from oscine_engine.voices.prompt import VoicePrompt
from oscine_engine.voices.store import VoiceStore
from tests.engine.runtime.rig import COSTS

LIMITS = DeviceLimits(max_streams=2, utilisation=math.inf)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return load(synthetic.write(tmp_path_factory.mktemp("model"), synthetic.TINY))


def voice(name: str, seed: int, tokens: int = 5) -> VoicePrompt:
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 20, (tokens,), generator=random, dtype=torch.int32)
    mel, speaker = torch.randn(2 * tokens, 80, generator=random), torch.randn(192, generator=random)
    return VoicePrompt(name, "en", "", "<|endofprompt|>", "", ids[:0], ids, mel, speaker)


def begun(checkpoint: Checkpoint, store: VoiceStore, *, graphed: bool = False) -> tuple[Device, Core]:
    device = Device(checkpoint, LIMITS, costs=COSTS, store=store, graphed=graphed, warmed=False)
    device.read_prompts()
    return device, device.make_core()


@pytest.mark.parametrize("graphed", [False, True])
def test_no_more_voices_are_kept_than_there_are_places_for(
    checkpoint: Checkpoint, tmp_path: Path, graphed: bool
) -> None:
    store = VoiceStore(tmp_path)
    device, core = begun(checkpoint, store, graphed=graphed)
    most = len(device.voices) + LIMITS.max_streams + IDLE_VOICES
    for number in range(most + 5):
        name = f"v{number}"
        store.add(voice(name, number))
        stream = core.admit(StreamOptions(name, 1), lambda _: None, device.book.get(name))
        core.end(stream, Cancelled("enough"))
        assert len(device.voice_cache._cached) <= most
    assert len(device.voice_cache._cached) == most


def test_voices_of_the_same_sound_share_what_is_computed_for_it(checkpoint: Checkpoint, tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    store.add(voice("one", 1, 60))
    store.add(replace(voice("one", 1, 60), name="other", description="the same sound"))
    device, core = begun(checkpoint, store)
    ready = [device.book.get(name) for name in ("one", "other")]
    streams = [core.admit(StreamOptions(each.name, 1), lambda _: None, each) for each in ready]
    assert [each.name for each in ready] == ["one", "other"]
    assert streams[0].lane.voice is streams[1].lane.voice
    for stream in streams:
        core.end(stream, Cancelled("enough"))


def test_a_voice_counts_for_as_long_as_it_is_in_the_store(checkpoint: Checkpoint, tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    device, _ = begun(checkpoint, store)
    with pytest.raises(UnknownVoice, match="ann"):
        device.book.get("ann")
    VoiceStore(tmp_path).add(voice("ann", 1))
    first = device.book.get("ann")
    assert device.book.get("ann") is first
    VoiceStore(tmp_path).add(voice("ann", 2), replace_it=True)
    assert device.book.get("ann").key != first.key
    VoiceStore(tmp_path).remove("ann")
    with pytest.raises(UnknownVoice, match="ann"):
        device.book.get("ann")


@pytest.mark.parametrize("part", ["flow_speech_tokens", "lm_speech_tokens"])
def test_a_voice_of_another_model_is_refused_before_it_reaches_a_kernel(
    checkpoint: Checkpoint, tmp_path: Path, part: str
) -> None:
    store = VoiceStore(tmp_path)
    device, _ = begun(checkpoint, store)
    ids = torch.arange(5, dtype=torch.int32)
    ids[3] = checkpoint.config.lm.speech_token_size
    store.add(replace(voice("theirs", 1), transcript="hello", **{part: ids}))
    with pytest.raises(InvalidInput, match=r"'theirs' was made for another model.*register"):
        device.book.get("theirs")


def test_a_voice_of_the_model_comes_first(checkpoint: Checkpoint, tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    device, _ = begun(checkpoint, store)
    name = next(iter(device.voices))
    store.add(voice(name, 1))
    assert device.book.get(name).key == name
