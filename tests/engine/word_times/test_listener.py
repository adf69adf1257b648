"""Features and scores do not depend on how the samples came."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from oscine_engine.text.sounds import any_sound
from oscine_engine.word_times.features import FRAME, SIZE, Features, features_of_silence
from oscine_engine.word_times.listener import Listener, network, scores

NOISE = np.random.default_rng(0).normal(scale=0.1, size=24000).astype(np.float32)


def cut(samples: np.ndarray, places: list[int]) -> list[np.ndarray]:
    return np.split(samples, sorted(place % (len(samples) + 1) for place in places))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 10**6), max_size=6), st.integers(0, 24000))
def test_any_cut_gives_the_same_scores(places: list[int], size: int) -> None:
    whole, samples = Features(), NOISE[:size]
    frames = np.concatenate((whole.push(samples), whole.finish()))
    assert frames.shape == (-(-size // FRAME), SIZE)
    parts, listener = Features(), Listener()
    scored, seen = [], []
    for part in cut(samples, places):
        seen.append(parts.push(part))
        scored.append(listener.push(seen[-1]))
    seen.append(parts.finish())
    scored += [listener.push(seen[-1]), listener.finish()]
    np.testing.assert_allclose(np.concatenate(seen), frames, atol=1e-5)
    at_once = Listener()
    expected = np.concatenate((at_once.push(frames), at_once.finish()))
    assert expected.shape == (len(frames), any_sound() + 1)
    np.testing.assert_allclose(np.concatenate(scored), expected, atol=1e-3)


def test_a_frame_is_scored_as_soon_as_all_that_it_depends_on_is_there() -> None:
    features, listener = Features(), Listener()
    assert len(listener.push(features.push(NOISE[: 20 * FRAME + 180]))) == 12


def test_silence_is_flat() -> None:
    features = Features()
    silent = features.push(np.zeros(4800, np.float32))
    np.testing.assert_allclose(silent, np.tile(features_of_silence(), (len(silent), 1)), atol=1e-5)


def test_scores_are_chances_over_how_frequent_a_sound_is() -> None:
    features = Features()
    scored = scores(features.push(NOISE))
    np.testing.assert_allclose(np.exp(scored[:, :-1] + network()["prior"]).sum(1), 1.0, atol=1e-3)
    assert np.isfinite(scored).all()
