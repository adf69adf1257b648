"""What was written, word for word, and the sounds of each."""

from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oscine_engine.front import read_front_end
from oscine_engine.text.front_end import FrontEnd, Rules
from oscine_engine.text.marks import added_tokens
from oscine_engine.text.sounds import any_sound, sound, sounds
from oscine_engine.text.word_sounds import Word
from tests.engine.text.test_incremental import PIECES

NAMES = {number: name for name, number in sounds().items()} | {any_sound(): "*"}


@cache
def embedded() -> FrontEnd:
    return read_front_end(None)


def read(texts: Sequence[str], rules: Rules = "phones") -> list[list[Word]]:
    """The words of each piece of one sentence."""
    stream = FrontEnd(rules, embedded().tokenizer).pieces(words=True)
    found: list[list[Word]] = [[]]
    for text in (*texts, None):
        ids = stream.finish() if text is None else stream.push(text)
        assert len(stream.words) == len(ids)
        found[-1] += stream.words[0]
        found += stream.words[1:]
    return found


def shown(words: list[Word]) -> list[tuple[str, str]]:
    return [(word.text, " ".join(NAMES[number] for number in word.sounds)) for word in words]


CASES = {
    "Dr. Smith paid $3.50, twice.": [
        ("Dr.", "D AA K T ER"),
        ("Smith", "S M IH TH"),
        ("paid", "P EY D"),
        ("$3.50", "TH R IY D AA L ER Z AH N D F IH F T IY S EH N T S"),
        ("twice", "T W AY S"),
    ],
    "她花了150元，买了iPhone。": [
        ("她", "t a"),
        ("花", "h ua"),
        ("了", "l e"),
        ("150", "y i b ai w u sh i"),
        ("元", "y uan"),
        ("买", "m ai"),
        ("了", "l e"),
        ("iPhone", "AY F OW N"),
    ],
    "[HH][AH0][L][OW1] 他[h][ào][breath] GPU": [
        ("[HH][AH0][L][OW1]", "HH AH L OW"),
        ("他", "t a"),
        ("[h][ào]", "h ao"),
        ("GPU", "JH IY P IY Y UW"),
    ],
}


@pytest.mark.parametrize("text", CASES)
def test_words_are_as_written_with_the_sounds_that_are_said(text: str) -> None:
    assert [shown(words) for words in read([text])] == [CASES[text]]


@pytest.mark.parametrize("text", CASES)
def test_english_and_chinese_are_the_same_for_both_front_ends(text: str) -> None:
    assert told(read([text], "plain")) == told(read([text]))


def test_what_stands_between_words_is_told() -> None:
    (words,) = read(['He said (at last): "Yes, 好。对！" Really?!'])
    assert "".join(word.text + word.behind for word in words) == 'He said (at last): "Yes, 好。对！" Really?!'


FOREIGN = {
    "We say добрый день, OK?": [
        ("We", "W IY"),
        ("say", "S EY"),
        ("добрый", "D AO B R IH Y"),
        ("день", "D EH N"),
        ("OK", "OW K EY"),
    ],
    "ガッコーです": [("ガッ", "G AA"), ("コー", "K OW"), ("で", "D EH"), ("す", "S UW")],
    "か나な": [("か", "K AA"), ("나", "N AA"), ("な", "N AA")],
    "안녕 여러분": [("안녕", "AA N N Y AH NG"), ("여러분", "Y AH L AH P UW N")],
    "שלום 3": [("שלום", "* * * *"), ("3", "TH R IY")],
}


@pytest.mark.parametrize("text", FOREIGN)
def test_letters_that_only_some_models_read(text: str) -> None:
    assert shown(read([text], "plain")[0]) == FOREIGN[text]
    ascii_words = [word for word, _ in FOREIGN[text] if word.isascii()]
    assert [word.text for word in read([text])[0]] == ascii_words
    assert told(read([text], "plain")) == told(read(text, "plain"))


def test_latin_letters_and_digits_in_a_foreign_word_are_heard_as_what_they_are() -> None:
    (words,) = read(["ﾊ", "Hello", "3"], "plain")
    assert shown(words) == [("ﾊHello3", "* HH AH L OW TH R IY")]


def test_a_word_that_is_cut_is_told_once() -> None:
    pieces = read(["1" * 300])
    assert len(pieces) > 1
    assert [[word.text for word in words] for words in pieces] == [["1" * 300], *([[""]] * (len(pieces) - 1))]


def test_readers_only_watch() -> None:
    text = "Call 555-0123 by 8:05, or 他们 will read it."
    plain, watched = embedded().pieces(), embedded().pieces(words=True)
    assert plain.push(text) + plain.finish() == watched.push(text) + watched.finish()
    assert all(not words for words in plain.words)


def told(pieces: list[list[Word]]) -> list[list[tuple[str, str, list[int]]]]:
    return [[(word.text, word.behind, word.sounds) for word in words] for words in pieces]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=10))
def test_any_split_gives_the_same_words(parts: list[str]) -> None:
    text = "".join(parts)
    assert told(read([text])) == told(read(parts)) == told(read(text))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=10))
@example(["3", "儿"])
@example(["重", " ", "庆", "[breath]", "我们"])
@example(["行", "\u0301", "行"])
def test_the_sounds_are_those_that_the_model_is_given(parts: list[str]) -> None:
    text = "".join(parts)
    marks = added_tokens()
    read_by_model = [sound(marks[number]) for number in embedded().whole(text) if number < len(marks)]
    heard = [number for words in read([text]) for word in words for number in word.sounds]
    assert heard == [number for number in read_by_model if number is not None]
