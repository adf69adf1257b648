"""Tags of SSML and a user's words, in text that arrives in any pieces."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oscine_engine.errors import InvalidInput
from oscine_engine.events import Mode
from oscine_engine.front import read_front_end
from oscine_engine.planner import Begin, Planner
from oscine_engine.text.pronunciations import LONGEST_WORD, MOST_WORDS, Pronunciations
from oscine_engine.text.segments import SentenceStream
from oscine_engine.text.spoken import SpokenStream, spoken
from tests.engine.text.test_spoken import cut, in_messages

FRONT_END = read_front_end(None)

TAGS = [
    ('<speak><prosody rate="100%">One. Two.</prosody></speak>', "One. Two."),
    ("<speak>not closed", "not closed"),
    ('Wait <break time="300ms"/>here.', "Wait, here."),
    ('Wait<break time="1s"/>here.', "Wait. here."),
    ('Wait <break strength="none"/>here.', "Wait here."),
    ('The <sub alias="World Wide Web">WWW</sub> is big.', "The World Wide Web is big."),
    ('<sub alias="万维网">WWW</sub>很大。', "万维网很大。"),
    ('A <phoneme alphabet="x-arpabet" ph="m ay0 n uw1 t">minute</phoneme> part.', "A [M][AY0][N][UW1][T] part."),
    ('<phoneme alphabet="pinyin" ph="hang2">行</phoneme>业', "[h][áng]业"),
    ('A <phoneme alphabet="ipa" ph="təˈmeɪtoʊ">tomato</phoneme>.', "A tomato."),
    ('Code <say-as interpret-as="characters">aB1</say-as>.', "Code A B one."),
    ('Call <say-as interpret-as="telephone">555-0199</say-as>.', "Call five five five zero one nine nine."),
    ('My <say-as interpret-as="ordinal">22</say-as> try.', "My twenty second try."),
    ('Date <say-as interpret-as="date">2024-05-06</say-as>.', "Date May sixth twenty twenty four."),
    ('<say-as interpret-as="characters">never closed', "never closed"),
    ('<sub alias="World">W. I mean it', "W. I mean it"),
    ('<sub alias="World">W.</SUB > I mean it', "World I mean it"),
    (f'<sub alias="World">{"a b " * 50}c</sub> d', f"{'a b ' * 50}c d"),
    ('<sub alias="AT&amp;T and others"><b>A</b></sub> call', "AT and T and others call"),
    (f'<phoneme alphabet="pinyin" ph="hao3" x="{"y" * 250}">好</phoneme>', "[h][ǎo]"),
    (f'<br class="{"y " * 150}">', f"br class {'y ' * 149}y,"),
    ("<p>One</p><p>Two</p>", "One. Two"),
    ("One<br>Two", "One. Two"),
    ("<emphasis level='strong'>Now</emphasis> go", "Now go"),
    ("if a<b and b>s", "if a less than b and b greater than s"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "said"), TAGS)
def test_tags(written: str, said: str) -> None:
    assert spoken(written) == said
    assert in_messages(list(written)) == said


@given(
    text=st.lists(st.sampled_from([written for written, _ in TAGS] + list("<>/=\"' bsp\n")), max_size=5).map("".join),
    places=st.lists(st.integers(0, 300), max_size=8),
)
@settings(max_examples=150, deadline=None)
def test_any_cut_of_tags_says_the_same(text: str, places: list[int]) -> None:
    assert in_messages(cut(text, places)) == spoken(text)


WORDS = Pronunciations(
    {
        "Nguyen": "win",
        "SQL": "sequel",
        "SQL server": "the server",
        "行": "[x][íng]",
        "长城": "[ch][áng]城",
        "城市": "[ch][éng]市",
        "server x": "sx",
    }
)


def with_words(messages: list[str]) -> str:
    stream = SpokenStream(WORDS)
    return "".join(map(stream.push, messages)) + stream.finish()


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("Ms. Nguyen knows sql.", "miz win knows sequel."),
        ("My SQL server and mySQL or SQLs", "My the server and mySQL or SQLs"),
        ("银行在长城下", "银[x][íng]在[ch][áng]城下"),
        ("NGUYEN", "win"),
        ("SQL", "sequel"),
    ],
)
def test_words_of_a_user_are_read_as_told(written: str, said: str) -> None:
    assert with_words([written]) == said
    assert with_words(list(written)) == said


@pytest.mark.parametrize(
    ("word", "written", "said"),
    [
        ("Istanbul", "In İstanbul.", "In İstanbul."),
        ("İzmir", "In İzmir, not Izmir.", "In x, not Izmir."),
        ("Straße", "STRASSE, STRAẞE", "STRASSE, x"),
        ("ΟΔΟΣΑ", "ΟΔΟΣ, οδοσα", "ΟΔΟΣ, x"),
        ("sin", "ſin", "x"),
    ],
)
def test_capitals_of_every_script_are_those_of_their_word(word: str, written: str, said: str) -> None:
    for messages in ([written], list(written)):
        stream = Pronunciations({word: "x"}).stream()
        assert "".join(map(stream.push, messages)) + stream.flush() == said


def test_a_lexicon_without_words_changes_nothing() -> None:
    stream = Pronunciations({}).stream()
    assert stream.push("Hello, you. ") + stream.flush() == "Hello, you. "


@given(
    text=st.lists(
        st.sampled_from(["Nguyen", "SQL", "SQL server", "server", "行", "长", "城", "市", "s", " ", ".", "5 ", "\n"]),
        max_size=9,
    ).map("".join),
    places=st.lists(st.integers(0, 60), max_size=8),
)
@settings(max_examples=150, deadline=None)
def test_any_cut_reads_the_same_words_as_told(text: str, places: list[int]) -> None:
    assert with_words(cut(text, places)) == with_words([text])


def test_a_word_that_may_go_on_does_not_make_a_sentence_unfinished() -> None:
    stream = SentenceStream(pronunciations=WORDS)
    assert not stream.push("I know SQL")
    assert not stream.finished
    assert not stream.push(".")
    assert stream.finished


@pytest.mark.parametrize(
    "readings",
    [
        {"": "x"},
        {"a" * (LONGEST_WORD + 1): "x"},
        {"a": "x" * 1000},
        {"a\nb": "x"},
        {str(n): "x" for n in range(MOST_WORDS + 1)},
    ],
)
def test_a_lexicon_out_of_range_is_refused(readings: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="pronunciations"):
        Pronunciations(readings)


RATED = [
    ('<prosody rate="slow">One. Two.</prosody> Three.', [("One. ", 75), ("Two.", 75), (" Three.", 100)]),
    ('<speak><prosody rate="100%">One. Two.</prosody></speak>', [("<speak>One. ", 100), ("Two.</speak>", 100)]),
    ('Say <prosody rate="x-fast">this</prosody> now.', [("Say ,", 100), ("this", 150), (" now.", 100)]),
    ('<prosody rate="80%">a <prosody rate="+50%">b</prosody> c</prosody>', [("a ,", 80), ("b", 120), (" c", 80)]),
    ('<prosody rate="1000%">a</prosody><prosody rate="1%">b</prosody>', [("a", 200), ("b", 50)]),
    ('<prosody pitch="high">a</prosody> b', [("a b", 100)]),
    ('<prosody rate="quick">a</prosody> b', [("a b", 100)]),
    ("a</prosody> b", [("a b", 100)]),
    ('我<prosody rate="80%">很</prosody>好', [("我，", 100), ("很", 80), ("好", 100)]),
    ('Well, <prosody rate="80%">yes</prosody>', [("Well, ", 100), ("yes", 80)]),
    ('a <prosody rate="1.2"/>b', [("a b", 100)]),
    ('a <prosody rate="1.2">b', [("a ,", 100), ("b", 120)]),
    ("a \U000f004b b", [("a  b", 100)]),
    ("a < b, <prose> c", [("a < b, <prose> c", 100)]),
]


def rated(pieces: Sequence[str]) -> list[tuple[str, int]]:
    stream, found = SentenceStream(), []
    for piece in pieces:
        found += zip(stream.push(piece), stream.rates, strict=True)
    found += zip(stream.flush(), stream.rates, strict=True)
    return found


@pytest.mark.parametrize(("text", "wanted"), RATED)
def test_a_rate_counts_for_what_it_stands_around(text: str, wanted: list[tuple[str, int]]) -> None:
    assert rated([text]) == wanted
    assert rated(list(text)) == wanted


@given(st.sampled_from(RATED), st.lists(st.integers(0, 80), max_size=4))
def test_any_cut_gives_the_same_rates(case: tuple[str, object], cuts: list[int]) -> None:
    text = case[0]
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    assert rated([text[a:b] for a, b in pairwise(places)]) == case[1]


def test_a_rate_outlasts_a_flush() -> None:
    """Whoever pauses inside a slow part goes on slowly."""
    stream = SentenceStream()
    stream.push('<prosody rate="slow">One')
    assert (stream.flush(), stream.rates) == (["One"], [75])
    stream.push(" two</prosody> three")
    assert (stream.flush(), stream.rates) == ([" three"], [100])


SILENCES = [
    ('Wait <break time="1.5s"/>here. And <break time="700ms"/><break time="1s"/>  now.', [0, 1.5, 0, 1.7]),
    ('<break time="2s"/>Hi. ', [2]),
    ('a<break time="99s"/>... <break time="2s"/> b', [0, 10]),
    ('one, <break time="499ms"/> two', [0]),
    ('one<break time=".5s"/>two<break time="1s"/>', [0, 0.5]),
    ("a \U000f0464 b", [0]),
]


@pytest.mark.parametrize(("text", "wanted"), SILENCES)
@pytest.mark.parametrize("mode", list(Mode))
def test_a_silence_stands_in_front_of_what_is_said_next(text: str, wanted: list[float], mode: Mode) -> None:
    for messages in ([text], list(text)):
        planner = Planner(FRONT_END, mode)
        steps = [step for message in messages for step in planner.push(message)] + planner.flush()
        assert [step.silence_s for step in steps if isinstance(step, Begin)] == pytest.approx(wanted)
