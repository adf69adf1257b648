import pytest

from oscine_engine.errors import InvalidInput
from oscine_engine.voices.transcript import check, syllables


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("That comes to two hundred euros.", 8),
        ("rhythm", 1),
        ("你好，世界。", 4),
        ("こんにちは", 5),
        ("안녕하세요", 5),
        ("Crème brûlée", 4),
        ("Bus 42", 5),
        ("...", 0),
        ("Привет", 2.4),
    ],
)
def test_syllables_are_counted_roughly(text: str, count: float) -> None:
    assert syllables(text) == pytest.approx(count, abs=1.0)


def test_words_that_fit_pass() -> None:
    check("That comes to two hundred and fifty-six euros.", 2.4)
    check("比赛结果是八比三，我们队赢了。", 2.6)


@pytest.mark.parametrize(
    ("text", "seconds", "reason"),
    [
        ("Yes.", 6.0, "too short"),
        ("The quick brown fox jumps over the lazy dog, and then it does so again and again. " * 2, 3.0, "too long"),
        ("?!", 3.0, "no words"),
        ("你好" * 30, 3.0, "too long"),
    ],
)
def test_words_of_another_recording_are_refused(text: str, seconds: float, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        check(text, seconds)
