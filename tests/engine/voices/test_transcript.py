import pytest

from oscine_engine.errors import InvalidInput
from oscine_engine.voices.transcript import check, check_letters, syllables


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


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("مرحبا كيف حالك", r"transcript: .* no way to read 'مرحبا', 'كيف', 'حالك'; leave"),
        ("The kettle привет как дела", "'привет', 'как', 'дела'; leave the transcript out, or write"),
        ("ア イ ウ エ オ カ キ", "'ア', 'イ', 'ウ', 'エ', 'オ' and more;"),
        ("서" * 99, "'" + "서" * 20 + "'"),
    ],
)
def test_letters_that_a_model_leaves_out_are_named(text: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        check_letters(text, "phones")
    check_letters(text, "plain")


def test_what_a_model_reads_passes() -> None:
    check_letters("It costs 5 € at the Café Łódź, 谢谢, 😀 π?!", "phones")
