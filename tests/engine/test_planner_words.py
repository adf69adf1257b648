"""The words of each segment, however the text was cut, and nothing else for those who ask for them."""

import pytest
from hypothesis import given, settings

from oscine_engine.events import Mode
from oscine_engine.front import read_front_end
from oscine_engine.planner import Begin, End, Ids, Planner
from tests.engine.test_planner import TEXT, cuts, samples

FRONT_END = read_front_end(None)


def spoken(text: str, mode: Mode, at: list[int] | None = None) -> tuple[list[list[str]], list[object]]:
    """The words of each segment with the signs behind them, and what is spoken."""
    planner = Planner(FRONT_END, mode, words=True)
    places = sorted({cut % (len(text) + 1) for cut in at or []})
    steps, told = [], []
    for start, end in zip([0, *places], [*places, len(text)], strict=True):
        steps += planner.push(text[start:end])
        told += planner.take_words()
    steps += planner.flush()
    told += planner.take_words()
    assert planner.take_words() == []
    words: list[list[str]] = [[] for _ in range(planner.segments)]
    for one in told:
        words[one.segment].append(one.word.text + one.word.behind)
    return words, [step for step in steps if isinstance(step, Begin | End)]


@pytest.mark.parametrize("mode", list(Mode))
def test_each_segment_has_its_words(mode: Mode) -> None:
    assert spoken(TEXT, mode)[0] == [
        ["Hello ", "there, ", "Dr. ", "Smith! "],
        ["It ", "is ", "3.5 ", "degrees ", "today... \n"],
        ["你", "好，", "今", "天", "天", "气", "很", "好。"],
        ["Well? "],
        ["Yes.) "],
        ["End"],
    ]


@settings(max_examples=20, deadline=None)
@given(samples, cuts)
def test_any_cut_gives_the_same_words_in_every_mode(text: str, at: list[int]) -> None:
    for mode in Mode:
        assert spoken(text, mode, at) == spoken(text, mode)
    assert spoken(text, Mode.INTERLEAVED)[0] == spoken(text, Mode.SENTENCE)[0]


def test_words_come_no_later_than_the_ids_behind_them() -> None:
    planner = Planner(FRONT_END, Mode.INTERLEAVED, words=True)
    given_ids = 0
    for word in "the library closes early on holidays so please come before noon ".split(" "):
        steps = planner.push(word + " ")
        given_ids += sum(len(step.ids) for step in steps if isinstance(step, Ids))
        told = planner.take_words()
        assert [one.word.text for one in told] == [word] if word else not told


def test_nobody_is_told_who_does_not_ask() -> None:
    planner = Planner(FRONT_END, Mode.AUTO)
    planner.push(TEXT)
    planner.flush()
    assert planner.take_words() == []
