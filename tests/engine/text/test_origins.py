"""Who reads something else says what was written there, however the text was cut."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oscine_engine.checkpoint import synthetic
from oscine_engine.events import Mode
from oscine_engine.front import read_front_end
from oscine_engine.planner import Begin, Planner
from oscine_engine.text.front_end import FrontEnd
from oscine_engine.text.origins import Edit, Origin, edited, within, written
from oscine_engine.text.pronunciations import Pronunciations
from oscine_engine.text.sounds import sounds
from oscine_engine.text.tokenizer import Tokenizer

FRONT_END = read_front_end(None)
NAMES = {number: name for name, number in sounds().items()}
LEXICON = Pronunciations(
    {
        "Nguyen": "win",
        "SQL": "sequel",
        "SQL server": "the S Q L machine",
        "行": "[h][áng]",
        "长城": "[ch][áng][ch][éng]",
        "km/h": "kilometres an hour",
        "~5": "about 5",
        "Mr. X": "Hello. I am. No",
        "hush": "...",
    }
)


def told(
    messages: list[str], mode: Mode = Mode.SENTENCE, front_end: FrontEnd = FRONT_END, language: str | None = None
) -> list[tuple[str, str]]:
    """Each word with what is behind it, and its sounds."""
    planner = Planner(front_end, mode, words=True, pronunciations=LEXICON, language=language)
    words = []
    for message in messages:
        planner.push(message)
        words += planner.take_words()
    planner.flush()
    words += planner.take_words()
    return [
        (one.word.text + one.word.behind, " ".join(NAMES.get(n, "*") for n in one.word.sounds))
        for one in words
        if one.word.text
    ]


CASES = {
    "Ms. Nguyen's car.": [("Ms. ", "M IH Z"), ("Nguyen's ", "W IH N Z"), ("car.", "K AA R")],
    "My SQL server, then": [
        ("My ", "M AY"),
        ("SQL server, ", "DH AH EH S K Y UW EH L M AH SH IY N"),
        ("then", "DH EH N"),
    ],
    "银行行长": [("银", "y in"), ("行", "h ang"), ("行", "h ang"), ("长", "ch ang")],
    "看长城吧": [("看", "k an"), ("长城", "ch ang ch eng"), ("吧", "b a")],
    "It did ~5 km/h.": [
        ("It ", "IH T"),
        ("did ", "D IH D"),
        ("~5 ", "AH B AW T F AY V"),
        ("km/h.", "K IH L AO M AH T ER Z AE N AW ER"),
    ],
    '<sub alias="World Wide Web">WWW</sub>, 5 <sub alias="km">Km.</sub> on': [
        ("WWW, ", "W ER L D W AY D W EH B"),
        ("5 Km. ", "F AY V K AH L AA M AH T ER Z"),
        ("on", "AA N"),
    ],
    'a <phoneme alphabet="arpabet" ph="T AH0 M AA1 T OW0">tomato</phoneme>!': [
        ("a ", "AH"),
        ("tomato!", "T AH M AA T OW"),
    ],
    '<phoneme alphabet="pinyin" ph="chong2">重</phoneme><phoneme alphabet="pinyin" ph="qing4">庆</phoneme>': [
        ("重", "ch ong"),
        ("庆", "q ing"),
    ],
    'to <say-as interpret-as="characters">SFO</say-as> and': [
        ("to ", "T UW"),
        ("SFO ", "EH S EH F OW"),
        ("and", "AH N D"),
    ],
    'by <sub alias="Nguyen and Nguyen">N&amp;N</sub>': [("by ", "B AY"), ("N&N", "W IH N AH N D W IH N")],
    "see hush now": [("see hush ", "S IY"), ("now", "N AW")],
    'he <sub alias=", as told,">(sic)</sub> did': [("he ", "HH IY"), ("(sic) ", "AE Z T OW L D"), ("did", "D IH D")],
}


@pytest.mark.parametrize("text", CASES)
def test_words_are_as_written_with_the_sounds_of_what_is_read(text: str) -> None:
    assert told([text]) == CASES[text]
    for mode in Mode:
        assert told(list(text), mode) == CASES[text]


def test_of_a_reading_of_several_sentences_the_first_has_the_word() -> None:
    text = "So Mr. X left."
    (word, found), *_ = told([text])[1:]
    assert (word, found) == ("Mr. X", "HH AH L OW")
    assert [word for word, _ in told([text])] == ["So ", "Mr. X", "left."]
    for mode in Mode:
        assert told(list(text), mode) == told([text])


PARTS = [
    "Nguyen", "SQL", " server", "行", "长", "城", "~5", " km/h", "hush", "Mr. X", " ", "'s", ". ", "。", "5", "\n", "a",
    '<sub alias="two words">W</sub>', '<sub alias="SQL">q</sub>', '<sub alias=".">dot</sub>', '<sub alias="~">',
    '<phoneme alphabet="pinyin" ph="hao3">好</phoneme>', '<say-as interpret-as="digits">42</say-as>',
    '<prosody rate="slow">', "</prosody>", "</sub>",
]  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=7), st.lists(st.integers(0, 300), max_size=6))
def test_any_cut_gives_the_same_words_in_every_mode(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    messages = [text[a:b] for a, b in pairwise(places)]
    assert told(messages) == told([text]) == told(list(text), Mode.INTERLEAVED) == told(messages, Mode.AUTO)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=7))
def test_what_is_said_does_not_depend_on_who_watches(parts: list[str]) -> None:
    text = "".join(parts)
    said = []
    for words in (False, True):
        planner = Planner(FRONT_END, Mode.SENTENCE, words=words, pronunciations=LEXICON)
        said.append(planner.push(text) + planner.flush())
    assert said[0] == said[1]


def test_kanji_are_told_and_their_kana_are_said(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = synthetic.write(tmp_path_factory.mktemp("model"))
    front_end = FrontEnd("plain", Tokenizer.load(folder / "CosyVoice-BlankEN"))
    words = told(["日本の会議です。"], front_end=front_end, language="ja")
    assert [word for word, _ in words] == ["日本", "の", "会議", "で", "す。"]


@pytest.mark.parametrize(
    "text",
    ['Hi <sub alias="\U000f0000hello there">x</sub> you. ', "Hi you. <sub alias='a\U000f0164b'>c</sub> "],
)
def test_no_alias_changes_the_rate(text: str) -> None:
    """One of nothing would stop the clock."""
    planner = Planner(FRONT_END, Mode.SENTENCE)
    rates = [step.rate for step in planner.push(text) + planner.flush() if isinstance(step, Begin)]
    assert set(rates) == {1.0}


def test_no_reading_changes_the_rate() -> None:
    planner = Planner(FRONT_END, Mode.SENTENCE, pronunciations=Pronunciations({"it": "\U000f0000him"}))
    steps = planner.push("I saw it. And then. ") + planner.flush()
    assert [step.rate for step in steps if isinstance(step, Begin)] == [1.0, 1.0]


def test_edits_that_touch_what_was_replaced_make_one_of_both() -> None:
    text, origins = edited(
        "the big apple pie",
        [Edit(0, 3, "a"), Edit(8, 13, "pear"), Edit(14, 17, "")],
        [Origin(4, 9, "LARGE A")],
    )
    assert text == "a big pear "
    assert origins == (Origin(0, 1, "the"), Origin(2, 10, "LARGE Apple"))
    assert written(text, origins) == "the LARGE Apple "
    assert within(origins, 1, 5) == (Origin(1, 4, "LARGE Apple"),)
    assert within(origins, 5, 11) == (Origin(0, 5, ""),)
