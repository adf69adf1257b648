"""Sentences from text as it arrives."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oscine_engine.text.joining import Joiner
from oscine_engine.text.segments import SentenceStream, Splitter
from oscine_engine.text.spoken import spoken

PIECES = [
    "Hello",
    "there",
    "ok",
    "I",
    "We",
    "A",
    "J",
    "Dr",
    "no",
    "No",
    "U.S",
    "a.m",
    "etc",
    "x.y",
    "3",
    "12",
    "3.5",
    "Node.js",
    " ",
    "  ",
    "\n",
    ".",
    "?",
    "!",
    "...",
    "…",
    ",",
    ";",
    '"',
    "'",
    "”",
    ")",
    "(",
    "-",
    "—",
    "你好",
    "我们",
    "。",
    "！",
    "？",
    "，",
    "”",
    "「",
    "」",
    "🙂",
    "́",
    "é",
    "Ä",
]
texts = st.lists(st.sampled_from(PIECES), max_size=20).map("".join)


def split(text: str, cuts: list[int] | None = None, longest_s: float = 20.0) -> list[str]:
    stream = Splitter(longest_s)
    places = sorted({cut % (len(text) + 1) for cut in cuts or []} | {0, len(text)})
    found = [sentence for a, b in pairwise(places) for sentence in stream.push(text[a:b])]
    return found + stream.flush()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello there. How are you?", ["Hello there. ", "How are you?"]),
        ("Dr. Lee met Mr. Wu at 3.5 p.m. on it. Bye.", ["Dr. Lee met Mr. Wu at 3.5 p.m. on it. ", "Bye."]),
        ("We left the U.S. They stayed.", ["We left the U.S. ", "They stayed."]),
        ("George W. Bush and J. Smith. So do I. Bye.", ["George W. Bush and J. Smith. ", "So do I. ", "Bye."]),
        ('He said "stop." Then he left.', ['He said "stop." ', "Then he left."]),
        ('"Stop!" he said. "Why?" Nobody knew.', ['"Stop!" he said. ', '"Why?" ', "Nobody knew."]),
        ("It's on example.com/a?b=c now. Go", ["It's on example.com/a?b=c now. ", "Go"]),
        ("Hello there.How are you?Fine", ["Hello there.", "How are you?", "Fine"]),
        ("Well... maybe. Wait... Now!", ["Well... maybe. ", "Wait... ", "Now!"]),
        ("1. Soup\n2. Salad\n", ["1. Soup\n", "2. Salad\n"]),
        ("See No. 5 today. No. Never.", ["See No. 5 today. ", "No. ", "Never."]),
        ("She moved in May 2007. We stayed.", ["She moved in May 2007. ", "We stayed."]),
        ("你好。今天怎么样？很好！", ["你好。", "今天怎么样？", "很好！"]),
        ("他说：“好的。”然后走了。", ["他说：“好的。", "”然后走了。"]),
        ("价格是3.5元.很便宜!走吧", ["价格是3.5元.", "很便宜!", "走吧"]),
        ("hello. how are you", ["hello. ", "how are you"]),
        ("... !!! Hi", ["... !!! Hi"]),
        ("……", ["……"]),
        ("🙂 👍🏽", ["🙂 👍🏽"]),
        ("Yes. \u200d…", ["Yes. ", "\u200d…"]),
        ("", []),
    ],
)
def test_sentence_ends(text: str, expected: list[str]) -> None:
    assert split(text) == expected


@given(text=texts, cuts=st.lists(st.integers(0, 200), max_size=15), longest=st.sampled_from([0.5, 2.0, 20.0]))
@settings(max_examples=300, deadline=None)
def test_message_borders_do_not_matter_and_nothing_is_lost(text: str, cuts: list[int], longest: float) -> None:
    sentences = split(text, cuts, longest)
    assert sentences == split(text, None, longest)
    assert "".join(sentences) == text
    assert all(any(c.isalnum() for c in sentence) for sentence in sentences[:-1])


@given(text=st.text(max_size=60), longest=st.sampled_from([0.5, 20.0]))
@settings(max_examples=300, deadline=None)
def test_no_character_is_lost(text: str, longest: float) -> None:
    assert "".join(split(text, None, longest)) == text


def test_signs_without_end_are_not_piled_up() -> None:
    stream = SentenceStream()
    out = stream.push("…🙂 " * 5000)
    assert len(stream.pending) < 1000
    assert "".join(out) + stream.pending == "…🙂 " * 5000
    assert stream.push("Hi there. ")[0].endswith("Hi there. ")


def test_no_character_of_a_list_is_lost() -> None:
    item = "26) Chairs (blue): 4, at $3.50 each [see B.2]; tables: none. Then: "
    text = "".join(item.replace("26", str(n)) for n in range(1, 12))
    assert len(text) > 600
    assert "".join(split(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "She moved in May 2007.",
        "We left the U.S.",
        "Good morning.",
        "Good morning. ",
        "It starts at 8 a.m.",
        "He said “stop.”",
        "(That is all.)",
        "**Done!**",
        "你好。",
        "他说：“好的。”",
        "是吗？",
        "Well…",
        "Well...",
        "Really?!",
        "It is 3.5.",
        "See you in Oct.",
        "They live on Main St.",
        "No.",
        "See you soon. 🙂",
        "See you soon!👍🏽",
        "It is plan B.",
        "Of 20°C.",
    ],
)
def test_what_a_reader_would_call_finished(text: str) -> None:
    stream = SentenceStream()
    assert stream.push(text) or stream.finished


@pytest.mark.parametrize(
    "text",
    [
        "",
        "我",
        "...",
        "。。",
        "🙂.",
        "Half a",
        "Half a sentence",
        "First part,",
        "Here is why:",
        "We met Dr.",
        "Mr. ",
        "Some fruit, e.g.",
        "1.",
        " 12. ",
        "It is 20°",
        "He said “stop",
    ],
)
def test_what_a_reader_would_wait_for(text: str) -> None:
    stream = SentenceStream()
    assert not stream.push(text)
    assert not stream.finished


@pytest.mark.parametrize("text", ["Don't say it's o'clock yet. It isn't.", "The dogs' bowls. 'Tis 'good.' Yes."])
def test_a_curly_apostrophe_ends_what_a_straight_one_ends(text: str) -> None:
    curly = [sentence.replace("'", "’") for sentence in split(text)]
    assert split(text.replace("'", "’")) == curly


@given(text=texts)
@settings(max_examples=150, deadline=None)
def test_pending_is_never_taken_back(text: str) -> None:
    stream = SentenceStream(2.0)
    pending = ""
    for character in text:
        for sentence in stream.push(character):
            assert sentence.startswith(pending)
            pending = ""
        assert stream.pending.startswith(pending)
        pending = stream.pending


def test_a_finished_sentence_does_not_wait_for_the_next() -> None:
    assert SentenceStream().push("Hello there. ") == ["Hello there. "]
    assert SentenceStream().push("你好。") == ["你好。"]
    assert SentenceStream().push("Yes! ") == ["Yes! "]


def test_long_sentences_are_cut_at_pauses_then_blanks_then_anywhere() -> None:
    clause = "it was the year of plain bread, "
    pieces = split(clause * 30)
    assert len(pieces) > 3
    assert all(piece.endswith(",") or piece is pieces[-1] for piece in pieces)
    words = split("bread and butter " * 60)
    assert len(words) > 2
    assert all(piece.endswith(" ") for piece in words[:-1])
    runs = split("a" * 1000)
    assert 2 < len(runs) < 6
    chinese = split("我们今天去公园" * 40)
    assert all(len(piece) <= 100 for piece in chinese)


@pytest.mark.parametrize("whole", ["太好了👍🏽!", "👨‍👩‍👧 hi 🇩🇪", "𠮷野家。e\u0301"])
def test_halves_of_a_character_are_joined(whole: str) -> None:
    units = whole.encode("utf-16-le")
    halves = [units[n : n + 2].decode("utf-16-le", "surrogatepass") for n in range(0, len(units), 2)]
    joiner = Joiner()
    assert "".join(joiner.push(half) for half in halves) == whole


def test_lone_halves_and_nul_are_dropped() -> None:
    joiner = Joiner()
    assert joiner.push("a\ud83d") + joiner.push("b\udc4d\0c") == "abc"
    joiner.push("\ud83d")
    joiner.finish()
    assert joiner.push("\udc4d") == ""


@pytest.mark.parametrize("sign", ["% ", "& ", "№ ", "½ ", "℃", "a@", "W "])
def test_no_text_makes_a_sentence_without_bound(sign: str) -> None:
    for sentence in split(sign * 3000 + "a"):
        assert len(sentence) < 300


@pytest.mark.parametrize(
    "tag",
    [
        "<a>",
        "</span>",
        "<|im_start|>",
        '<b title="Hello there. How are you; fine, thanks!">',
        '<i lang="我们你好我们">',
    ],
)
def test_no_sentence_ends_inside_a_tag(tag: str) -> None:
    stream = SentenceStream()
    sentences = [*stream.push(tag * 400 + "x"), *stream.flush()]
    assert len(sentences) > 1 and "".join(sentences) == tag * 400 + "x"
    assert all(sentence.removesuffix("x").endswith(tag[-1:]) for sentence in sentences)
    assert spoken(tag * 400 + "x") == "x"


def test_what_only_begins_like_a_tag_ends_as_ever() -> None:
    stream = SentenceStream()
    assert stream.push("If a <b. Then <c now. We go") == ["If a <b. ", "Then <c now. "]
