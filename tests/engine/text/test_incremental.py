"""However a text is cut, the ids are those of one push and finish."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from oscine_engine.text.front_end import FrontEnd

PIECES = [
    "Hello",
    "hello",
    " ",
    "  ",
    ", ",
    ". ",
    ".",
    "\n",
    "?",
    "!",
    "...",
    "-",
    " - ",
    "'",
    "’s",
    "n't",
    '"',
    "(",
    ")",
    "/",
    ":",
    "@",
    "3",
    "1,234",
    "3.5",
    "8:05",
    "$5",
    "50%",
    "2005",
    "in ",
    "By ",
    "No",
    "No.",
    "Dr.",
    "U.S.",
    "a.m.",
    "a",
    "A",
    "I",
    "m",
    "p",
    "million",
    "read",
    "have ",
    "e.g.",
    "R2-D2",
    "GPU",
    "http://",
    "://",
    "//",
    "第",
    "号",
    "mph",
    "Jan.",
    "St.",
    "n",
    "x.y",
    "+86",
    "€",
    "20°C",
    "é",
    "e",
    "́",
    "ß",
    "你好",
    "我",
    "不",
    "一",
    "个",
    "行",
    "银",
    "长",
    "重",
    "年",
    "米",
    "，",
    "。",
    "、",
    "？",
    "儿",
    "得",
    "地",
    "很好",
    "一月",
    "为什么",
    "[HH]",
    "[AH0]",
    "[j]",
    "[ǐ]",
    "[",
    "]",
    "[foo]",
    "<",
    ">",
    "<|",
    "|>",
    "<|im_start|>",
    "<strong>",
    "<b>",
    "a < b",
    "🙂",
    "👍🏽",
    "\u200d",
    "\u200b",
    "\u3000",
    "%",
    "&",
    "#",
    "*",
    "カ",
    "한",
    "я",
    "％",
    "１２",
    "ﾊ",
    "𠀀",
]
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({cut % (len(text) + 1) for cut in cuts} | {0, len(text)})
    return [text[a:b] for a, b in pairwise(places)]


def check(front_end: FrontEnd, text: str, cuts: list[int]) -> None:
    stream = front_end.stream()
    ids = [number for piece in pieces(text, cuts) for number in stream.push(piece)]
    assert ids + stream.finish() == front_end.whole(text)


@given(text=texts, cuts=st.lists(st.integers(0, 100), max_size=12))
@settings(max_examples=150, deadline=None)
def test_any_split_gives_the_same_marks(phones: FrontEnd, text: str, cuts: list[int]) -> None:
    check(phones, text, cuts)


@given(text=texts)
@settings(max_examples=80, deadline=None)
def test_one_character_at_a_time_gives_the_same_marks(phones: FrontEnd, text: str) -> None:
    check(phones, text, list(range(100)))


@given(text=texts, cuts=st.lists(st.integers(0, 100), max_size=12))
@settings(max_examples=80, deadline=None)
def test_any_split_gives_the_same_plain_ids(plain: FrontEnd, text: str, cuts: list[int]) -> None:
    check(plain, text, cuts)


@given(text=texts)
@settings(max_examples=80, deadline=None)
def test_no_control_id_ever_comes_out(phones: FrontEnd, plain: FrontEnd, text: str) -> None:
    for front_end in (phones, plain):
        assert not front_end.tokenizer.control_ids.intersection(front_end.whole(text))


def test_finished_words_are_not_held_back(phones: FrontEnd) -> None:
    stream = phones.stream()
    first = stream.push("Hello there ")
    assert phones.tokenizer.decode(first) == "[HH][AH0][L][OW1] [DH][EH1][R]"
    assert stream.push("frie") == []
    assert phones.tokenizer.decode(stream.push("nd, ")) == " [F][R][EH1][N][D]"


def test_a_number_waits_for_what_it_counts(phones: FrontEnd) -> None:
    stream = phones.stream()
    assert stream.push("$5 ") == []
    assert phones.tokenizer.decode(stream.push("million now")).startswith("[F][AY1][V] [M][IH1][L][Y][AH0][N] [D][AA1]")


def test_chinese_is_held_for_a_few_characters_only(phones: FrontEnd) -> None:
    stream = phones.stream()
    said = stream.push("我们明天早上八点出发")
    assert len(said) >= 2 * 6
    assert len(said) + len(stream.finish()) == 2 * 10 + 1
