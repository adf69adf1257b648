"""Kanji, read by a dictionary that is not ours."""

from pathlib import Path

import pytest

from oscine_engine.checkpoint import synthetic
from oscine_engine.errors import InvalidInput
from oscine_engine.events import Mode, SessionRequest
from oscine_engine.front import Front
from oscine_engine.planner import Begin, Planner
from oscine_engine.text import japanese
from oscine_engine.text.front_end import FrontEnd
from oscine_engine.text.origins import edited
from oscine_engine.text.tokenizer import Tokenizer
from tests.engine.ports import HandPort

READINGS = [
    ("今日は日本銀行の会議に出席します。", "キョウはニッポンギンコウのカイギにシュッセキします。"),
    ("私はiPhone 15を買いました。", "ワタクシはiPhone 15をカイました。"),
    ("人々は時々「はい」と書く。", "ヒトビトはトキドキ「はい」とカク。"),
    (" かな と カナ。\n", " かな と カナ。\n"),
    ("", ""),
]


@pytest.mark.parametrize(("written", "read"), READINGS)
def test_words_with_kanji_are_read_and_nothing_else_is_touched(written: str, read: str) -> None:
    assert edited(written, japanese.readings(written), ())[0] == read


def test_a_text_longer_than_the_dictionary_takes_is_read_in_parts() -> None:
    text = "山" + "-" * 60_000
    assert edited(text, japanese.readings(text), ())[0] == "ヤマ" + "-" * 60_000


@pytest.fixture(scope="module")
def front_end(tmp_path_factory: pytest.TempPathFactory) -> FrontEnd:
    folder = synthetic.write(tmp_path_factory.mktemp("model"))
    return FrontEnd("plain", Tokenizer.load(Path(folder) / "CosyVoice-BlankEN"))


@pytest.mark.parametrize("mode", list(Mode))
def test_a_japanese_session_reads_whole_sentences(front_end: FrontEnd, mode: Mode) -> None:
    text, kana = "今日は休み。明日も休み。", "キョウはヤスミ。アスもヤスミ。"
    steps = []
    for written in (text, kana):
        planner = Planner(front_end, mode, language="ja")
        steps.append([step for character in written for step in planner.push(character)] + planner.flush())
    assert steps[0] == steps[1]
    assert [step.whole for step in steps[0] if isinstance(step, Begin)] == [True, True]


async def test_without_the_dictionary_the_language_is_refused(
    front_end: FrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(japanese, "_DICTIONARY", "none_of_that_name")
    front = Front(HandPort(), front_end, {}, 24000, stored=True)
    with pytest.raises(InvalidInput, match=r"language: .* oscine\[japanese\]"):
        await front.open(SessionRequest(voice="somebody", language="ja"))
