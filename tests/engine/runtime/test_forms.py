"""What a stream is spoken as: whose voice, in which form, or after a recording of its own."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from oscine_engine.checkpoint import draft, synthetic
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.errors import CheckpointError, InvalidInput, UnknownVoice
from oscine_engine.lm.drafter import PackedDraft
from oscine_engine.options import Knobs
from oscine_engine.port import HeardVoice, StreamOptions
from oscine_engine.runtime.book import KEPT_COLD, ReadyVoice
from oscine_engine.runtime.device import Device, DeviceLimits
from oscine_engine.runtime.pages import PagePool
from oscine_engine.runtime.trace import Said, Trace
from oscine_engine.voices.prompt import VoicePrompt
from oscine_engine.voices.store import VoiceStore
from tests.engine.runtime.rig import COSTS, Rig, whole, words

LIMITS = DeviceLimits(max_streams=2, utilisation=math.inf)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """A model with the text rules of the released one, and a voice with words."""
    config = replace(synthetic.TINY, lm=replace(synthetic.TINY.lm, vocab_size=1024), text=synthetic.FULL.text)
    made = load(synthetic.write(tmp_path_factory.mktemp("plain"), config))
    (name, voice), *_ = made.voices.items()
    spoken = replace(voice, transcript="Good morning.", lm_speech_tokens=voice.flow_speech_tokens, language="en")
    return replace(made, voices={name: spoken})


def book_of(checkpoint: Checkpoint, **options: object) -> Device:
    device = Device(checkpoint, LIMITS, costs=COSTS, **options)  # type: ignore[arg-type]
    device.read_prompts()
    return device


def speaking(device: Device, **options: object) -> ReadyVoice:
    voice = next(iter(device.voices))
    return device.book.speaking(StreamOptions(**{"voice": voice, "seed": 1, **options}))  # type: ignore[arg-type]


def written(device: Device, ready: ReadyVoice, *, whole: bool = True) -> str:
    prompt = ready.whole if whole else ready.interleaved
    return device._tokenizer.decode(list(prompt.prefix))


def test_an_instruction_is_read_before_the_text_and_nothing_of_the_recording(plain: Checkpoint) -> None:
    device = book_of(plain)
    usual, told = speaking(device), speaking(device, instruction="  Whisper,\n softly. ")
    assert usual.whole.speech and usual.whole.transcript
    for each in (True, False):
        assert written(device, told, whole=each) == "You are a helpful assistant. Whisper, softly.<|endofprompt|>"
    assert told.whole == told.interleaved and not told.whole.speech and not told.whole.transcript
    assert told.key == usual.key and told.prompt is usual.prompt, "its sound is computed once"


def test_a_model_that_takes_no_instructions_says_so(checkpoint: Checkpoint) -> None:
    with pytest.raises(InvalidInput, match="instruction"):
        speaking(book_of(checkpoint), instruction="Whisper.")


@pytest.mark.parametrize(
    ("asked", "crosses"),
    [
        ({}, False),
        ({"language": "en"}, False),
        ({"language": "ja"}, True),
        ({"language": "ja", "cross_lingual": False}, False),
        ({"cross_lingual": True}, True),
    ],
)
def test_in_another_language_only_the_sound_of_a_voice_is_taken(
    plain: Checkpoint, asked: dict[str, object], crosses: bool
) -> None:
    device = book_of(plain)
    ready = speaking(device, **asked)
    assert bool(ready.whole.speech) is not crosses
    assert bool(ready.whole.transcript) is not crosses
    assert ready.key == speaking(device).key


def voice(name: str, seed: int) -> VoicePrompt:
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 20, (5,), generator=random, dtype=torch.int32)
    mel, speaker = torch.randn(10, 80, generator=random), torch.randn(192, generator=random)
    return VoicePrompt(name, "en", "", "<|endofprompt|>", "", ids[:0], ids, mel, speaker)


def test_of_two_voices_of_a_name_an_owner_has_their_own(checkpoint: Checkpoint, tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    device = book_of(checkpoint, store=store)
    everybodys, anns, bobs = (store.add(voice("mine", seed), owner) for seed, owner in enumerate(("", "ann", "bob")))
    store.add(voice("secret", 9), "ann")
    for owner, stored in (("", everybodys), ("ann", anns), ("bob", bobs), ("eve", everybodys)):
        assert speaking(device, voice="mine", owner=owner).key == stored.digest
    assert speaking(device, voice="secret", owner="ann").name == "secret"
    for owner in ("", "bob"):
        with pytest.raises(UnknownVoice, match="secret"):
            speaking(device, voice="secret", owner=owner)


def test_recordings_are_refused_where_they_are_not_allowed(checkpoint: Checkpoint) -> None:
    heard = HeardVoice(np.zeros(48000, np.float32), 24000)
    with pytest.raises(InvalidInput, match="reference"):
        speaking(book_of(checkpoint), voice="", reference=heard)
    with pytest.raises(CheckpointError, match=r"campplus\.onnx"):
        book_of(checkpoint, references=True)


def test_a_recording_is_made_a_voice_once_and_kept_for_a_while() -> None:
    """The embedded voice's own encoders, over a vowel; the same sound with other words is another voice."""
    device = book_of(load(), references=True)
    shipped = next(iter(device.voices.values()))
    rng = np.random.default_rng(1)
    time = np.arange(60000) / 24000
    buzz = sum(np.sin(2 * np.pi * 120 * n * time) / n for n in range(1, 30))
    loudness = np.clip(np.sin(2 * np.pi * 3 * time), 0, 1) * 0.2
    sound = (buzz * loudness + rng.normal(0, 1e-4, time.size)).astype(np.float32)
    with ThreadPoolExecutor(2) as two:
        asks = [two.submit(speaking, device, voice="", reference=HeardVoice(sound, 24000)) for _ in range(2)]
    first = asks[0].result()
    assert asks[1].result() is first and device.book.knows(HeardVoice(sound, 24000))
    assert speaking(device, voice="", reference=HeardVoice(sound.copy(), 24000)) is first
    assert first.tokens > 20 and not first.whole.speech
    told = speaking(device, voice="", reference=HeardVoice(sound, 24000, "ma ma ma ma ma"))
    assert told.key != first.key and told.whole.speech
    assert first.key not in {shipped.name, *(each.key for each in device.book.ready)}
    assert len(device.book._cold) == 2 <= KEPT_COLD
    with pytest.raises(InvalidInput, match="silent"):
        speaking(device, voice="", reference=HeardVoice(np.zeros(48000, np.float32), 24000))


def test_each_stream_is_drawn_for_in_its_own_way_beside_others(checkpoint: Checkpoint) -> None:
    """What one is asked changes its own ids and nobody else's; the same asked again says the same."""
    hot = Knobs(temperature=1.8, top_p=1.0, top_k=100)

    def tokens(*asked: Knobs) -> list[np.ndarray]:
        rig = Rig(checkpoint)
        opened = [rig.open(seed, knobs=knobs) for seed, knobs in enumerate(asked)]
        for stream, _ in opened:
            rig.say(stream, words(8))
        rig.run()
        return [ear.samples for _, ear in opened]

    usual, mixed = tokens(Knobs(), Knobs()), tokens(Knobs(), hot)
    np.testing.assert_allclose(mixed[0], usual[0], atol=2e-2, rtol=0)
    assert mixed[1].shape != usual[1].shape or np.abs(mixed[1] - usual[1]).max() > 0.05
    np.testing.assert_allclose(tokens(Knobs(), hot)[1], mixed[1], atol=1e-6, rtol=0)


def test_a_window_beyond_the_models_own_is_refused(checkpoint: Checkpoint) -> None:
    rig = Rig(checkpoint)
    longest = checkpoint.config.sampling.win_size
    with pytest.raises(InvalidInput, match=f"repetition_window: {longest + 1} .* 0 to {longest}"):
        rig.open(knobs=Knobs(repetition_window=longest + 1))
    rig.check_idle()


def test_fixed_steps_draw_as_asked_with_guesses_and_without(checkpoint: Checkpoint) -> None:
    """What a GPU captures, run on a CPU: lines carry how each is drawn for, and guesses change nothing."""
    asks = (Knobs(), Knobs(temperature=1.7, top_p=1.0), Knobs(top_k=2, repetition_limit=2), Knobs(repetition_window=0))

    def ids(**options: object) -> dict[int, tuple[int, ...]]:
        said: dict[int, tuple[int, ...]] = {}

        def watch(event: Trace) -> None:
            if isinstance(event, Said):
                said[event.seed] = event.ids

        limits = DeviceLimits(max_streams=4, utilisation=math.inf)
        device = Device(checkpoint, limits, costs=COSTS, observe=watch, warmed=False, **options)  # type: ignore[arg-type]
        device.read_prompts()
        core, ready = device.make_core(), device.book.get(next(iter(device.voices)))
        streams = []
        for seed, knobs in enumerate(asks):
            stream = core.admit(StreamOptions(ready.name, seed, False, knobs=knobs), lambda _: None, ready)
            streams.append(stream)
            core.speak(stream, whole(words(6)), end=True)
        while core.turn():
            for stream in streams:
                core.taken(stream, stream.listener.sent - stream.listener.taken)
        return said

    plain = ids(graphed=False)
    assert len(plain) == len(asks)
    assert ids(graphed=True) == plain
    assert ids(graphed=True, drafter=partial(_random_draft, checkpoint)) == plain


def _random_draft(checkpoint: Checkpoint, pool: PagePool) -> PackedDraft:
    network = draft.random(checkpoint.config.lm, seed=0)
    return PackedDraft(network, checkpoint.lm, pool, checkpoint.config.sampling, max_streams=4)
