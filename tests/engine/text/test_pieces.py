"""No piece of a sentence outlasts a segment, and cutting loses and changes nothing."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.lm.interleave import Prompt
from oscine_engine.lm.packed import page_shape
from oscine_engine.lm.runner import LMRunner
from oscine_engine.runtime.device import LM_PAGE_TOKENS, MAX_SEGMENT_S
from oscine_engine.runtime.pages import PagePool
from oscine_engine.text.front_end import FrontEnd
from oscine_engine.text.items import Item, Spoken
from oscine_engine.text.pieces import LONGEST_S, Cutter, seconds

COMPOUND = "Donaudampfschifffahrtsgesellschaftskapitaensmuetzenabzeichen"
WORST = {
    "hex": "0123456789abcdef" * 4,
    "letters": "ka" * 250,
    "compound": f"Das {COMPOUND} ist neu, und " * 8 + "das war es.",
    "digits": "It is 31415926535897932384626433832795, and so on, " * 4 + "and done.",
    "groups": "It is 1,234,567,890,123 and 9,876,543,210,987 or so, " * 6,
    "capitals": "WXYZ QWRT ABCD " * 20,
    "initials": "The F.B.I. and the C.I.A. of the U.S.A. and the U.K. met, " * 8,
    "abbreviations": "Dr. Lee vs. Mrs. Smith, approx. 5 km, 3 kg, etc. at No. 7 St. James, " * 6,
    "signs": "$3.50 & 50% + 20°C = 1/2 @ 9:05 # " * 12,
    "address": "https://docs.example.travel/a_b-c?d=1&e=2 " * 6,
    "chinese": (
        "今天的天气比昨天好一些所以大家决定先去山上走走再到河边的小店里吃一碗热汤面然后坐下午三点的火车回城里去"
        "看望住在老房子里的爷爷奶奶顺便把上个月借的那本讲航海故事的旧书还给图书馆"
    )
    * 2,
    "list": "苹果、梨、桃、杏、枣，" * 30,
    "mixed": "我们用GPU训练DeepFM，价格是12345元，" * 12,
}

items = st.one_of(
    st.sampled_from(
        [Item(Spoken.BLANK, " "), Item(Spoken.PAUSE, ","), Item(Spoken.PAUSE, "\n"), Item(Spoken.HAN, "我")]
    ),
    st.builds(Item, st.just(Spoken.WORD), st.text("abcXYZ", min_size=1, max_size=80)),
    st.builds(Item, st.just(Spoken.LETTERS), st.text("ABC", min_size=1, max_size=9)),
)


@given(
    made=st.lists(items, max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    longest=st.sampled_from([2.0, 6.0]),
)
@settings(max_examples=300, deadline=None)
def test_pieces_hold_all_items_in_order_and_none_is_too_long(made: list[Item], cuts: list[int], longest: float) -> None:
    cutter = Cutter(longest)
    runs: list[list[Item]] = [[]]
    edges = sorted({0, len(made), *(cut % (len(made) + 1) for cut in cuts)})
    for start, end in pairwise(edges):
        first, *further = cutter.push(made[start:end])
        runs[-1] += first
        runs += further
    assert runs == Cutter(longest).push(made)
    flat = [item for run in runs for item in run]
    assert "".join(item.text for item in flat) == "".join(item.text for item in made)
    for run in runs:
        said = [seconds(item) for item in run if item.kind not in (Spoken.PAUSE, Spoken.BLANK)]
        assert sum(said) <= longest
        assert said or runs == [run]


def test_a_pause_is_the_best_place_and_then_a_blank() -> None:
    word, blank, comma = Item(Spoken.WORD, "aaaaaaaaaa"), Item(Spoken.BLANK, " "), Item(Spoken.PAUSE, ",")
    clause = [word, blank, word, blank, word, comma, blank]
    runs = Cutter(6.0).push(clause * 4)
    assert [run[-2:] for run in runs] == [[comma, blank]] * len(runs)
    assert len(runs) > 1
    words = Cutter(6.0).push([word, blank] * 20)
    assert len(words) > 2
    assert all(run[-1] == blank for run in words)


def test_a_compound_word_stays_whole_and_a_run_of_letters_does_not() -> None:
    assert Cutter().push([Item(Spoken.WORD, COMPOUND)]) == [[Item(Spoken.WORD, COMPOUND)]]
    (first, *further) = Cutter().push([Item(Spoken.WORD, "a" * 500)])
    assert len(first) > 1 and further


def pieces(front_end: FrontEnd, text: str) -> list[list[int]]:
    reader = front_end.pieces()
    first, last = reader.push(text), reader.finish()
    return [*first[:-1], first[-1] + last[0], *last[1:]]


def test_a_reader_is_as_new_after_its_sentence(phones: FrontEnd) -> None:
    reader = phones.pieces()
    text = "it was the year of plain bread and then, " * 4
    assert len(reader.push(text) + reader.finish()[1:]) == 1
    again = reader.push(text) + reader.finish()[1:]
    assert len(again) == 1


@pytest.mark.parametrize("name", WORST)
@pytest.mark.parametrize("rules", ["phones", "plain"])
def test_the_ids_of_a_piece_fit_the_pages_of_a_segment(rules: str, name: str, request: pytest.FixtureRequest) -> None:
    front_end: FrontEnd = request.getfixturevalue(rules)
    longest = MAX_SEGMENT_S * 25
    made = pieces(front_end, WORST[name])
    assert all(0 < len(ids) <= longest // 2 for ids in made)
    assert sum(len(ids) for ids in made) >= len(front_end.whole(WORST[name])) - len(made)


def test_a_segment_holds_what_a_slow_voice_makes_of_a_piece() -> None:
    assert LONGEST_S * 4 / 3 < MAX_SEGMENT_S


@pytest.fixture(scope="module")
def fledgling() -> Checkpoint:
    return load()


@pytest.mark.slow
@pytest.mark.parametrize("name", WORST)
def test_the_embedded_voice_says_the_last_words_before_a_segment_is_full(fledgling: Checkpoint, name: str) -> None:
    """It tells when it has come to the end of its text."""
    config = fledgling.config
    front_end = FrontEnd(config.text.front_end, fledgling.tokenizer)
    runner = LMRunner(fledgling.lm, PagePool(32, page_shape(config.lm, LM_PAGE_TOKENS)), config.sampling, config.text)
    limit = MAX_SEGMENT_S * config.flow.input_frame_rate
    voice = next(iter(fledgling.voices.values()))
    prompt = Prompt(tuple(fledgling.tokenizer.encode(voice.prompt_text)))
    for ids in pieces(front_end, WORST[name]):
        stream = runner.open(prompt, seed=1, limit=limit)
        stream.add_text(ids)
        stream.end_text()
        while stream.state == "running":
            runner.step([stream])
        runner.close(stream)
        assert len(stream.tokens) < limit
