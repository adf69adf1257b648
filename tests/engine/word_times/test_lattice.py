"""The best path, against all paths there are."""

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from oscine_engine.text.sounds import SILENCE
from oscine_engine.word_times.lattice import Lattice, Place

SOUNDS = 4


def paths(words: list[list[int]], frames: int) -> list[list[tuple[int, int]]]:
    """All ways to say all words in so many frames: (word or -1, sound) of each frame."""
    states: list[list[tuple[int, int, int]]] = [[]]
    number = 0
    for word in range(len(words) + 1):
        silence = (number, -1, SILENCE)
        number += 1
        states = [[*each, *more] for each in states for more in ([], [silence])]
        if word < len(words):
            said = [(number + at, word, sound) for at, sound in enumerate(words[word])]
            number += len(said)
            states = [[*each, *said] for each in states]
    found = []
    for each in states:
        for cuts in combinations(range(1, frames), len(each) - 1):
            path: list[tuple[int, int]] = []
            for state, (start, end) in zip(each, pairwise((0, *cuts, frames)), strict=True):
                path += [state[1:]] * (end - start)
            found.append(path)
    return found


def places(path: list[tuple[int, int]]) -> list[Place]:
    words = [word for word, _ in path]
    return [
        Place(word, words.index(word), len(words) - words[::-1].index(word))
        for word in dict.fromkeys(words)
        if word >= 0
    ]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, SOUNDS - 1), min_size=1, max_size=2), min_size=1, max_size=3),
    st.integers(1, 8),
    st.integers(0, 2**32 - 1),
)
def test_the_best_path_is_found(words: list[list[int]], frames: int, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(frames, SOUNDS)).astype(np.float32)
    lattice = Lattice()
    for word in words:
        lattice.add(word)
    lattice.push(scores[: frames // 2])
    lattice.push(scores[frames // 2 :])
    found = lattice.places(ended=True)
    if frames < sum(map(len, words)):
        assert found == [] and lattice.path() == []
        return
    values = [
        (float(sum(scores[t, sound] for t, (_, sound) in enumerate(path))), path) for path in paths(words, frames)
    ]
    best, path = max(values, key=lambda pair: pair[0])
    if sum(value > best - 1e-4 for value, _ in values) == 1:
        assert found == places(path)
        assert lattice.path() == [sound for _, sound in path]


def heard(*runs: tuple[int, int]) -> np.ndarray:
    """Scores of a clear sequence of (sound, frames)."""
    return np.concatenate([np.tile(np.where(np.arange(SOUNDS) == s, 0.0, -9.0), (n, 1)) for s, n in runs]).astype(
        np.float32
    )


def test_words_may_come_while_the_frames_do() -> None:
    lattice = Lattice()
    lattice.add([1, 2])
    lattice.push(heard((SILENCE, 3), (1, 2), (2, 4)))
    assert lattice.places(ended=False) == [Place(0, 3, 9)]
    lattice.add([3])
    lattice.push(heard((SILENCE, 2), (3, 5), (SILENCE, 4)))
    assert lattice.places(ended=False) == lattice.places(ended=True) == [Place(0, 3, 9), Place(1, 11, 16)]


def test_a_look_from_later_on_sees_what_goes_on_there() -> None:
    lattice = Lattice()
    for sound in (1, 2, 3):
        lattice.add([sound])
    lattice.push(heard((1, 4), (SILENCE, 2), (2, 4), (3, 4)))
    assert lattice.places(ended=True, since=5) == [Place(1, 6, 10), Place(2, 10, 14)]
    assert lattice.places(ended=True, since=8) == [Place(1, 8, 10), Place(2, 10, 14)]


def test_nothing_is_found_before_the_first_frame() -> None:
    lattice = Lattice()
    lattice.add([1])
    assert lattice.places(ended=False) == lattice.places(ended=True) == []
