"""Long Chinese without punctuation is cut between words."""

import pytest

from oscine_engine.text.breaks import may_part
from oscine_engine.text.pieces import Cutter
from oscine_engine.text.scan import Scanner
from oscine_engine.text.segments import SentenceStream
from oscine_engine.text.verbalise import Verbaliser

RUNS = {
    "walk": (
        "今天的天气比昨天好一些所以大家决定先去山上走走再到河边的小店里吃一碗热汤面然后坐下午三点的火车回城里去"
        "看望住在老房子里的爷爷奶奶顺便把上个月借的那本讲航海故事的旧书还给图书馆"
    ),
    "machines": (
        "人工智能技术正在改变我们的生活方式越来越多的企业开始使用智能客服系统来回答用户提出的各种问题这些系统能够"
        "理解自然语言并且根据上下文给出合适的回答从而大大提高了服务效率降低了人力成本同时也给用户带来了更好的体验"
    ),
}
WORDS = (
    "天气 昨天 大家 决定 山上 走走 河边 小店 热汤面 下午 火车 城里 看望 房子 爷爷 奶奶 顺便 上个月 航海 故事 旧书 "
    "图书馆 人工 智能 技术 正在 改变 我们 生活 方式 企业 开始 使用 客服 系统 回答 用户 提出 各种 问题 这些 能够 "
    "理解 语言 并且 根据 上下文 合适 从而 提高 服务 效率 降低 人力 成本 同时 体验 "
).split()


def pieces(text: str) -> list[str]:
    sentences = SentenceStream()
    found = []
    for sentence in sentences.push(text) + sentences.flush():
        scanner, verbaliser = Scanner(), Verbaliser()
        items = verbaliser.push(scanner.push(sentence) + scanner.finish()) + verbaliser.finish()
        found += ["".join(item.text for item in run) for run in Cutter().push(items)]
    return found


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("times", [1, 2, 3])
def test_no_word_is_cut_in_two(name: str, times: int) -> None:
    text = RUNS[name] * times
    found = pieces(text)
    assert "".join(found) == text
    assert len(found) > 1
    assert all(10 < len(piece) <= 88 for piece in found)
    at = 0
    for piece in found[:-1]:
        at += len(piece)
        around = text[at - 3 : at + 3]
        assert not any(0 <= around.find(word) < 3 < around.find(word) + len(word) for word in WORDS), around


@pytest.mark.parametrize(("before", "after"), [("的", "火"), ("了", "人"), ("好", "但"), ("里", "把"), ("吗", "你")])
def test_words_part_at_particles(before: str, after: str) -> None:
    assert may_part(before, after)


@pytest.mark.parametrize("pair", ["的确", "过去", "地方", "不但", "现在", "了解", "方向", "得到", "人工"])
def test_words_that_look_like_particles_stay_whole(pair: str) -> None:
    assert not may_part(*pair)


def test_a_run_without_any_particle_is_cut_all_the_same() -> None:
    found = pieces("山水花鸟" * 60)
    assert "".join(found) == "山水花鸟" * 60
    assert all(len(piece) <= 88 for piece in found)
