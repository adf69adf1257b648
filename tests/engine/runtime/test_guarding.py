"""What the loop does with its guards' verdicts: a second attempt, then an error, and never a hole in the sound."""

from collections.abc import Sequence

import numpy as np
import pytest

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.guards.segment import SegmentGuard
from oscine_engine.lm.runner import LMRunner
from oscine_engine.runtime.trace import Said
from tests.engine.runtime.rig import SAME, Rig, words

TEXTS = [words(15), words(12, 120), words(14, 110)]


class Sticking:
    """Makes the language model say one id on and on from `start`, for as long as it draws with one of `seeds`."""

    def __init__(self, runner: LMRunner, start: int, attempts: int, seed: int) -> None:
        self._choose, self._start, self._attempts, self._seed = runner.choose, start, attempts, seed
        self.drawn: set[int] = set()

    def __call__(self, logits: object, draws: Sequence[object]) -> list[int]:
        chosen = self._choose(logits, draws)  # type: ignore[arg-type]
        for place, draw in enumerate(draws):
            said, seed = len(draw.said), draw.seed  # type: ignore[attr-defined]
            if draw.said and said >= self._start and self._mine(seed):  # type: ignore[attr-defined]
                chosen[place] = 7
        return chosen

    def _mine(self, seed: int) -> bool:
        """The stream under test, in one of its first attempts."""
        if seed != self._seed and seed not in self.drawn:
            return False
        return seed == self._seed or self._attempts > 1


def guarded(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, *, start: int, attempts: int) -> tuple[Rig, list]:
    """A rig whose second stream sticks; the Saids its observer is told."""
    told: list[Said] = []
    rig = Rig(checkpoint, observe=lambda event: told.append(event) if isinstance(event, Said) else None)
    sticking = Sticking(rig.device.lm, start, attempts, seed=2)
    monkeypatch.setattr(rig.device.lm, "choose", sticking)
    rewind = rig.device.lm.rewind

    def noting(stream: object, keep: int, seed: int) -> None:
        sticking.drawn.add(seed)
        rewind(stream, keep, seed)  # type: ignore[arg-type]

    monkeypatch.setattr(rig.device.lm, "rewind", noting)
    return rig, told


@pytest.mark.parametrize("start", [2, 6, 10])
def test_a_stream_that_runs_in_circles_gets_a_second_attempt(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    """Its ids go on from before the circle under another seed, and its neighbours are what they always were."""
    alone = [Rig(checkpoint).heard(text, seed=seed) for seed, text in ((1, TEXTS[0]), (3, TEXTS[2]))]
    rig, told = guarded(checkpoint, monkeypatch, start=start, attempts=1)
    streams = [rig.open(seed) for seed in (1, 2, 3)]
    for (stream, _), text in zip(streams, TEXTS, strict=True):
        rig.say(stream, text)
    rig.run()
    for place, wave in zip((0, 2), alone, strict=True):
        np.testing.assert_allclose(streams[place][1].samples, wave, atol=SAME)
    said = next(said for said in told if said.seed == 2)
    assert len(said.draws) == 2 and said.draws[1][0] >= 1
    ear = streams[1][1]
    assert ear.done.stats.speech_tokens == len(said.ids)
    assert ear.samples.size == 960 * len(said.ids)
    rig.check_idle()


def test_a_second_attempt_depends_on_nothing_but_the_stream(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone or among others, however far its stages happened to be."""
    spoken = []
    for company in (0, 3):
        rig, told = guarded(checkpoint, monkeypatch, start=10, attempts=1)
        for other in range(company):
            rig.say(rig.open(10 + other)[0], words(14, 115 + other))
        stream, ear = rig.open(2)
        rig.say(stream, TEXTS[1])
        rig.run()
        spoken.append((next(said for said in told if said.seed == 2), ear.samples))
        monkeypatch.undo()
    assert spoken[0][0] == spoken[1][0]
    np.testing.assert_allclose(spoken[0][1], spoken[1][1], atol=SAME)


def test_the_second_time_is_an_error(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    rig, _ = guarded(checkpoint, monkeypatch, start=4, attempts=2)
    beside, beside_ear = rig.open(1)
    rig.say(beside, TEXTS[0])
    stream, ear = rig.open(2)
    rig.say(stream, TEXTS[1])
    rig.run()
    assert ear.error.code == "run_away"
    ear.check()
    assert beside_ear.done
    rig.check_idle()


def silence(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, attempts: int) -> tuple[Rig, list[int]]:
    """A rig whose stream of seed 2 solves to silence for so many attempts."""
    rig = Rig(checkpoint)
    solved = SegmentGuard.solved
    tried: list[int] = []

    def deaf(guard: SegmentGuard, mel: np.ndarray, last: bool) -> object:
        if guard._seed == 2 and guard._attempts <= attempts:
            tried.append(guard._attempts)
            mel = np.full_like(mel, -11.5)
        return solved(guard, mel, last)

    monkeypatch.setattr(SegmentGuard, "solved", deaf)
    return rig, tried


def test_a_sentence_without_sound_starts_again(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    rig, tried = silence(checkpoint, monkeypatch, 1)
    stream, ear = rig.open(2)
    rig.say(stream, TEXTS[1], TEXTS[0])
    rig.run()
    assert tried and ear.done.stats.segments == 2
    assert ear.samples.size
    rig.check_idle()


def test_a_sentence_without_sound_twice_is_an_error(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    rig, tried = silence(checkpoint, monkeypatch, 2)
    stream, ear = rig.open(2)
    rig.say(stream, TEXTS[1])
    rig.run()
    assert set(tried) == {1, 2}
    assert ear.error.code == "run_away"
    rig.check_idle()


def test_a_guard_that_raises_ends_its_own_stream(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = Rig(checkpoint).heard(TEXTS[0])
    for name in ("said", "solved", "edge"):
        verb = getattr(SegmentGuard, name)

        def broken(guard: SegmentGuard, *args: object, verb: object = verb, **kwargs: object) -> object:
            if guard._seed == 2:
                raise ZeroDivisionError
            return verb(guard, *args, **kwargs)  # type: ignore[operator]

        with monkeypatch.context() as patch:
            patch.setattr(SegmentGuard, name, broken)
            rig = Rig(checkpoint)
            (good, good_ear), (bad, bad_ear) = rig.open(1), rig.open(2)
            rig.say(good, TEXTS[0])
            rig.say(bad, TEXTS[1])
            rig.run()
            assert bad_ear.error.code == "internal"
            np.testing.assert_allclose(good_ear.samples, alone, atol=SAME)
            rig.check_idle()


def test_trimming_leaves_no_hole_and_no_empty_packet(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vocoder that starts each sentence with half a second of silence."""
    rig = Rig(checkpoint)
    step = rig.device.vocoder.step

    def late(work: Sequence[tuple]) -> list[np.ndarray]:
        fresh = [stream.decoded == 0 for stream, _, _ in work]
        out = step(work)
        return [
            np.concatenate((np.zeros(12000, np.float32), x)) if new else x for new, x in zip(fresh, out, strict=True)
        ]

    monkeypatch.setattr(rig.device.vocoder, "step", late)
    trimmed, trimmed_ear = rig.open(1, trim=True)
    kept, kept_ear = rig.open(1, trim=False)
    for stream in (trimmed, kept):
        rig.say(stream, TEXTS[1], TEXTS[0], mark=True)
    rig.run()
    assert kept_ear.samples.size - trimmed_ear.samples.size > 0.4 * 24000
    assert trimmed_ear.done.stats.audio_s == trimmed_ear.samples.size / 24000
    rig.check_idle()
