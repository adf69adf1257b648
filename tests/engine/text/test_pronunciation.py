"""Dictionary, inflection, letter-to-sound and Mandarin readings."""

import time

import pytest

from oscine_engine.text import letter_sounds, lexicon, mandarin
from oscine_engine.text.english import pronounce, spell
from oscine_engine.text.marks import added_tokens


def english(word: str, before: str = "") -> str:
    return " | ".join(" ".join(phones) for phones in pronounce(word, before))


@pytest.mark.parametrize(
    ("word", "phones"),
    [
        ("café", "K AH0 F EY1"),
        ("neighbour's", "N EY1 B ER0 Z"),
        ("unchangeable", "AH0 N CH EY1 N JH AH0 B AH0 L"),
        ("granulated", "G R AE1 N Y AH0 L EY2 T IH0 D"),
        ("crossbars", "K R AO1 S B AA2 R Z"),
        ("smoothie", "S M UW1 DH IY0"),
        ("movin'", "M UW1 V IH0 N"),
        ("hmm", "HH AH1 M"),
        ("NASA", "N AE1 S AH0"),
        ("CPU", "S IY1 | P IY1 | Y UW1"),
        ("DeepFM", "D IY1 P | EH1 F | EH1 M"),
        ("YouTube", "Y UW1 T Y UW2 B"),
        ("xyz", "EH1 K S W AY1 Z IY1"),
    ],
)
def test_words(word: str, phones: str) -> None:
    assert english(word) == phones


def test_shouting_is_no_acronym() -> None:
    assert english("US") == "Y UW1 | EH1 S"
    assert english("US", before="CONTACT") == "AH1 S"


def test_spelled_plural() -> None:
    assert spell("GPUs")[-1] == ("Y", "UW1", "Z")


def test_every_phone_of_the_data_has_a_token() -> None:
    known = set(added_tokens())
    words = lexicon.shipped()
    assert len(words) > 100_000
    phones = {phone for word in words.words() for phone in words.get(word) or ()}
    phones |= {phone for said in letter_sounds.shipped().phones.values() for phone in said}
    assert {f"[{phone}]" for phone in phones} <= known


def test_unknown_words_are_sounded_out_with_one_stress() -> None:
    said = letter_sounds.sound_out("blickett")
    assert said[:3] == ("B", "L", "IH1")
    assert said[-1] == "T"
    assert sum(phone.endswith("1") for phone in said) == 1


def test_a_run_of_letters_that_is_no_word_is_sounded_out_roughly(monkeypatch: pytest.MonkeyPatch) -> None:
    """All other sessions wait meanwhile: 256 letters, the most of a sentence, took 0.2 s."""
    scored = 0
    score = letter_sounds.Model.score

    def counted(model: letter_sounds.Model, history: str, pair: str) -> float:
        nonlocal scored
        scored += 1
        return score(model, history, pair)

    monkeypatch.setattr(letter_sounds.Model, "score", counted)
    letters = "qoxuzjevikwy"
    pronounce((letters + "mbrp")[:16])
    word, scored = scored, 0
    assert len(pronounce(letters * 21)[0]) > 100
    assert scored < 16 * word / 4


def test_very_long_words_take_bounded_time() -> None:
    pronounce("a")
    started = time.thread_time()
    assert len(pronounce("qa" * 2000)[0]) > 2000
    assert time.thread_time() - started < 10.0


def test_a_long_nonsense_word_takes_bounded_time() -> None:
    started = time.thread_time()
    letter_sounds.sound_out("donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauunterbeamten")
    assert time.thread_time() - started < 2.0


def test_every_syllable_of_the_data_has_tokens() -> None:
    from pypinyin.constants import PHRASES_DICT, PINYIN_DICT

    syllables = {syllable for readings in PINYIN_DICT.values() for syllable in readings.split(",")}
    syllables |= {option for readings in PHRASES_DICT.values() for options in readings for option in options}
    assert len(syllables) > 1000
    known = set(added_tokens())
    for syllable in syllables:
        assert set(mandarin.marks_of(syllable)) <= known
        assert set(mandarin.marks_of(mandarin.neutral(syllable))) <= known


def test_different_syllables_have_different_tokens() -> None:
    from pypinyin.constants import PINYIN_DICT

    syllables = {syllable for readings in PINYIN_DICT.values() for syllable in readings.split(",")}
    plain = {s for s in syllables if s not in mandarin._ALIASES and s[0].isascii() is not None and "ê" not in s}
    by_marks: dict[tuple[str, ...], list[str]] = {}
    for syllable in plain:
        by_marks.setdefault(mandarin.marks_of(syllable), []).append(syllable)
    assert [same for same in by_marks.values() if len(same) > 1] == []


@pytest.mark.parametrize(("reading", "tone"), [("mā", 1), ("lǘ", 2), ("nǚ", 3), ("lüè", 4), ("de", 5)])
def test_tones(reading: str, tone: int) -> None:
    assert mandarin.tone(reading) == tone
    assert tone == 5 or mandarin.tone(mandarin.with_tone(reading, 2)) == 2
