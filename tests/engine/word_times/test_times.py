"""Whatever is said and whatever sounds, every word is told once, in order, in its segment."""

from itertools import pairwise

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oscine_engine.events import Mode
from oscine_engine.front import read_front_end
from oscine_engine.planner import Planner
from oscine_engine.text.front_end import FrontEnd
from oscine_engine.word_times.times import WordTimes
from tests.engine.text.test_incremental import PIECES

EMBEDDED = read_front_end(None)
NOISE = np.random.default_rng(0).normal(scale=0.1, size=40000).astype(np.float32)


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["plain", "phones"]),
    st.lists(st.sampled_from([*PIECES, "добрый ", "か"]), max_size=12),
    st.lists(st.integers(0, 30000), min_size=1, max_size=8),
    st.integers(1, 20000),
    st.booleans(),
)
@example("phones", ["the library closes early on holidays"], [0], 1, False)
@example("plain", ["Hello", " ", "hello", " ", "hello"], [700], 9999, True)
def test_every_word_is_told_once(rules: str, parts: list[str], lengths: list[int], packet: int, early: bool) -> None:
    """lengths: samples of the segments, in turn. early: it is told where a segment ends before its samples come."""
    planner = Planner(FrontEnd(rules, EMBEDDED.tokenizer), Mode.SENTENCE, words=True)  # type: ignore[arg-type]
    planner.push("".join(parts))
    planner.flush()
    words, times = planner.take_words(), WordTimes()
    times.tell(words)
    position, borders, told = 0, [0], []
    for number in range(planner.segments):
        length = lengths[number % len(lengths)]
        borders.append(position + length)
        if early:
            times.end_segment(borders[-1])
        for at in range(0, length, packet):
            size = min(packet, length - at)
            times.hear(NOISE[at : at + size])
            times.work()
            position += size
            told += [(number, word, position) for word in times.take()]
        if not early:
            times.end_segment(borders[-1])
        times.work()
        told += [(number, word, position) for word in times.take()]
    expected = [(one.segment, one.word.text) for one in words if one.word.text]
    assert [(number, word.text) for number, word, _ in told] == expected
    for number, word, given_samples in told:
        assert borders[number] <= word.start_sample <= word.end_sample <= min(borders[number + 1], given_samples)
    assert all(a.end_sample <= b.start_sample for (_, a, _), (_, b, _) in pairwise(told))
