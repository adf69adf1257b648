"""Error rates and pacing of the intelligibility benchmark."""

import numpy as np
import pytest

from bench.pacing import pieces

pytest.importorskip("whisper_normalizer", reason="the bench extra is not installed")
pytest.importorskip("opencc", reason="the bench extra is not installed")

from bench.intelligibility import Line, leading_silence, summarise
from oscine_service.listening.scoring import characters, edits, words


def test_edits_count_substitutions_insertions_and_deletions() -> None:
    assert edits("a b c".split(), "a b c".split()) == 0
    assert edits("a x c".split(), "a b c".split()) == 1
    assert edits("a b c d".split(), "a b c".split()) == 1
    assert edits([], "a b c".split()) == 3
    assert edits("kitten", "sitting") == 3


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("It costs $12.50 at 10:30 a.m.", "it costs twelve dollars and fifty cents at ten thirty a m"),
        ("The colour isn't grey, Mr. Smith.", "the color is not gray mister smith"),
    ],
)
def test_english_spellings_of_the_same_speech_agree(said: str, wanted: str) -> None:
    assert words(said) == words(wanted)


def test_english_mistakes_are_not_normalised_away() -> None:
    assert words("the cat sat") != words("the cats sat")


@pytest.mark.parametrize(
    ("heard", "wanted"),
    [
        ("請問現在3:20嗎?", "请问现在三点二十吗？"),
        ("其中34%是女生，2023年。", "其中百分之三十四是女生，二零二三年"),
        ("它有12个。", "他有十二个"),
    ],
)
def test_mandarin_writings_of_the_same_speech_agree(heard: str, wanted: str) -> None:
    assert characters(heard) == characters(wanted)


@pytest.mark.parametrize(
    ("lang", "text", "count"),
    [("en", "One, two three.", 3), ("zh", "今天，天气很好。", 6), ("zh", "用 Python 写。", 3), ("en", "Hi", 1)],
)
def test_pieces_join_to_the_text(lang: str, text: str, count: int) -> None:
    made = pieces(text, "zh" if lang == "zh" else "en")
    assert "".join(made) == text
    assert len(made) == count


def test_leading_silence_ends_where_the_tone_begins() -> None:
    tone = np.sin(np.arange(12000) * 0.1).astype(np.float32)
    quiet = np.full(4800, 1e-4, np.float32)
    assert leading_silence(np.concatenate([quiet, tone]), 24000) == pytest.approx(0.2, abs=0.011)
    assert leading_silence(quiet[:0], 24000) == 0.0


def line(text: str, in_time: bool, edited: int = 1, error: str | None = None) -> Line:
    return Line(text, "", edited, 10, 2.0, 3.0, 0.1, 0.2, 0.3, None, in_time, error)


def test_only_late_long_lines_and_failed_lines_fail_a_run() -> None:
    long = "word " * 16
    assert summarise([line("short one", False), line(long, True)], "en")["ok"]
    late = summarise([line(long, True), line(long, False)], "en")
    assert (late["late_lines"], late["ok"]) == ([2], False)
    failed = summarise([line("short one", True, 10, "broken"), line("short one", True, 0)], "en")
    assert (failed["failed_lines"], failed["ok"], failed["wer"]) == ([1], False, 0.5)
