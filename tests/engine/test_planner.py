"""Text cut anywhere -> the same segments, by mode."""

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oscine_engine.checkpoint import synthetic
from oscine_engine.events import Mode
from oscine_engine.planner import Begin, End, Ids, Planner, Step
from oscine_engine.text.front_end import FrontEnd
from oscine_engine.text.pronunciations import Pronunciations
from oscine_engine.text.tokenizer import Tokenizer

TEXT = "Hello there, Dr. Smith! It is 3.5 degrees today… \n- 你好，今天天气很好。 Well? (Yes.) 🙂 End"


@pytest.fixture(scope="module")
def front_end(tmp_path_factory: pytest.TempPathFactory) -> FrontEnd:
    folder = synthetic.write(tmp_path_factory.mktemp("model"))
    return FrontEnd("phones", Tokenizer.load(folder / "CosyVoice-BlankEN"))


SAMPLES = [
    "Turn",
    "ing on th",
    " the",
    " lig",
    "hts",
    " in roo",
    "m 12.",
    "Good morning.",
    "Yes! ",
    "Dr.",
    " J.",
    "3.5",
    "2007.",
    "U.S. ",
    "Don’t",
    "“No.”",
    " ",
    "\n",
    "...",
    "…",
    ", ",
    "-",
    "# ",
    "[AA1]",
    "[",
    "<laughter>",
    "<",
    "℃",
    "№",
    "½",
    "50%",
    "$5",
    "我们",
    "明天",
    "行",
    "3元",
    "。",
    "，",
    "！",
    "”",
    "e\u0301",
    "\u0301",
    "👍🏽",
    "👨\u200d👩\u200d👧",
    "🇩🇪",
    "❤\ufe0f",
    "\u200b",
    "\u3000",
    "ƒ",
    "a" * 300,
    "7" * 90,
]
samples = st.lists(st.sampled_from(SAMPLES), max_size=12).map("".join)
cuts = st.lists(st.integers(0, 10**6), max_size=12)


def cut_up(text: str, cuts: list[int]) -> list[str]:
    """Pieces of a text, cut between any two UTF-16 units."""
    units = text.encode("utf-16-le")
    edges = sorted({cut % (len(units) // 2 + 1) for cut in cuts} | {0, len(units) // 2})
    return [units[2 * a : 2 * b].decode("utf-16-le", "surrogatepass") for a, b in pairwise(edges)]


def planned(front_end: FrontEnd, mode: Mode, pieces: list[str]) -> list[Step]:
    planner = Planner(front_end, mode)
    steps = [step for piece in pieces for step in planner.push(piece)] + planner.flush()
    assert planner.segments == sum(isinstance(step, Begin) for step in steps)
    return steps


def segments(steps: list[Step]) -> list[tuple[bool, tuple[int, ...]]]:
    """(whole, ids) of each segment; fails unless begin, ids and end are in order."""
    made: list[tuple[bool, tuple[int, ...]]] = []
    is_open = False
    for step in steps:
        match step:
            case Begin(whole=whole):
                assert not is_open
                is_open = True
                made.append((whole, ()))
            case Ids(ids=ids):
                assert is_open
                assert ids
                made[-1] = (made[-1][0], made[-1][1] + ids)
            case End():
                assert is_open
                is_open = False
    assert not is_open
    return made


def test_modes_differ_only_in_when_text_is_read(front_end: FrontEnd) -> None:
    by_mode = {mode: segments(planned(front_end, mode, [TEXT])) for mode in Mode}
    ids = [ids for _, ids in by_mode[Mode.SENTENCE]]
    assert len(ids) > 4
    for made in by_mode.values():
        assert [each for _, each in made] == ids
    assert [whole for whole, _ in by_mode[Mode.SENTENCE]] == [True] * len(ids)
    assert [whole for whole, _ in by_mode[Mode.INTERLEAVED]] == [False] * len(ids)
    assert [whole for whole, _ in by_mode[Mode.AUTO]] == [False] + [True] * (len(ids) - 1)


@settings(max_examples=60, deadline=None)
@given(cuts=st.sets(st.integers(1, len(TEXT) - 1)), mode=st.sampled_from(list(Mode)))
def test_cuts_change_nothing(front_end: FrontEnd, cuts: set[int], mode: Mode) -> None:
    edges = [0, *sorted(cuts), len(TEXT)]
    pieces = [TEXT[a:b] for a, b in pairwise(edges)]
    assert segments(planned(front_end, mode, pieces)) == segments(planned(front_end, mode, [TEXT]))


def test_an_arriving_sentence_is_read_before_it_ends(front_end: FrontEnd) -> None:
    planner = Planner(front_end, Mode.AUTO)
    steps = [step for word in ["One ", "two ", "three ", "four "] for step in planner.push(word)]
    assert isinstance(steps[0], Begin)
    assert isinstance(steps[1], Ids)
    assert not any(isinstance(step, End) for step in steps)


@settings(max_examples=150, deadline=None)
@given(text=samples, cuts=cuts)
def test_any_cut_gives_the_same_segments_in_every_mode(front_end: FrontEnd, text: str, cuts: list[int]) -> None:
    whole = segments(planned(front_end, Mode.SENTENCE, [text]))
    for mode in Mode:
        made = segments(planned(front_end, mode, cut_up(text, cuts)))
        assert [ids for _, ids in made] == [ids for _, ids in whole]


@settings(max_examples=60, deadline=None)
@given(text=samples, mode=st.sampled_from(list(Mode)))
def test_one_character_at_a_time_gives_the_same_segments(front_end: FrontEnd, text: str, mode: Mode) -> None:
    assert segments(planned(front_end, mode, list(text))) == segments(planned(front_end, mode, [text]))


@pytest.mark.parametrize("mode", list(Mode))
def test_words_cut_anywhere_are_read_as_they_are_written(front_end: FrontEnd, mode: Mode) -> None:
    pieces = ["Turn", "ing on th", "e lig", "hts in roo", "m 12."]
    ((_, ids),) = segments(planned(front_end, mode, pieces))
    assert list(ids) == front_end.whole("Turning on the lights in room twelve.")


@pytest.mark.parametrize("mode", list(Mode))
def test_emoji_leave_nothing_behind(front_end: FrontEnd, mode: Mode) -> None:
    made = segments(planned(front_end, mode, cut_up("太好了👍🏽👨\u200d👩\u200d👧！", list(range(40)))))
    assert [list(ids) for _, ids in made] == [front_end.whole("太好了！")]


@pytest.mark.parametrize("mode", list(Mode))
def test_every_line_of_a_list_is_a_segment(front_end: FrontEnd, mode: Mode) -> None:
    made = segments(planned(front_end, mode, ["# Menu\n- soup\n", "- salad\n- tea\n\nEnjoy"]))
    assert [list(ids) for _, ids in made] == [front_end.whole(w) for w in ("Menu", "soup", "salad", "tea", "Enjoy")]


@pytest.mark.parametrize("mode", list(Mode))
def test_a_curly_apostrophe_is_read_as_a_straight_one(front_end: FrontEnd, mode: Mode) -> None:
    text = "Don't say it's o'clock yet. It isn't."
    assert segments(planned(front_end, mode, [text])) == segments(planned(front_end, mode, [text.replace("'", "’")]))


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("text", [" 好", "\u3000好", "好"])
def test_blanks_in_front_change_nothing(front_end: FrontEnd, mode: Mode, text: str) -> None:
    ((_, ids),) = segments(planned(front_end, mode, [text]))
    assert list(ids) == front_end.whole("好")


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(
    "text",
    [
        "It is 31415926535897932384626433832795, and so on, " * 4 + "and that was all of it.",
        "今天的天气比昨天好一些所以大家决定先去山上走走再到河边的小店里吃一碗热汤面然后坐下午三点的火车" * 2,
    ],
)
def test_a_long_sentence_goes_on_in_further_segments(front_end: FrontEnd, mode: Mode, text: str) -> None:
    made = segments(planned(front_end, mode, [text]))
    assert len(made) > 1
    assert {whole for whole, _ in made} <= {mode is Mode.SENTENCE, mode is not Mode.INTERLEAVED}
    assert list(made[-1][1])[-12:] == front_end.whole(text)[-12:]
    assert segments(planned(front_end, mode, list(text))) == made


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(
    ("text", "finished"),
    [("We left the U.S.", True), ("We left the", False), ("\ud83d", False), ("We left.\ud83d", False)],
)
def test_it_tells_whether_what_waits_looks_finished(front_end: FrontEnd, mode: Mode, text: str, finished: bool) -> None:
    planner = Planner(front_end, mode)
    assert not planner.finished
    planner.push(text)
    assert planner.finished is finished
    planner.flush()
    assert not planner.finished


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("text", ["", "  \n ", "…", "?!?!", "🙂", "\u200b\u3000", "，。", "ƒ", ":-) ;-)", "，"])
def test_text_without_anything_to_say_begins_nothing(front_end: FrontEnd, mode: Mode, text: str) -> None:
    assert planned(front_end, mode, [text, text]) == []


@pytest.mark.parametrize("mode", list(Mode))
def test_marks_before_the_first_word_do_not_hold_it_up(front_end: FrontEnd, mode: Mode) -> None:
    made = segments(planned(front_end, mode, [" ", "...", "so we go on from here."]))
    assert len(made) == 1


def test_a_flush_ends_the_sentence(front_end: FrontEnd) -> None:
    planner = Planner(front_end, Mode.SENTENCE)
    first = planner.push("First part, ") + planner.flush()
    second = planner.push("second part.") + planner.flush()
    assert len(segments(first)) == len(segments(second)) == 1


def test_many_messages_of_signs_take_bounded_time(front_end: FrontEnd) -> None:
    planner = Planner(front_end, Mode.INTERLEAVED)
    started = time.perf_counter()
    for _ in range(10_000):
        assert planner.push("🙂") == []
    assert time.perf_counter() - started < 5
    assert planner.push("So we go on from here, ") != []


RATES = 'One two. <prosody rate="slow">Three. Four five</prosody> six.'


@pytest.mark.parametrize("mode", list(Mode))
@given(cuts=cuts)
@settings(max_examples=20, deadline=None)
def test_a_segment_begins_at_the_rate_that_its_text_asks_for(front_end: FrontEnd, mode: Mode, cuts: list[int]) -> None:
    steps = planned(front_end, mode, cut_up(RATES, cuts))
    assert [step.rate for step in steps if isinstance(step, Begin)] == [1.0, 0.75, 0.75, 1.0]


@pytest.mark.parametrize("mode", list(Mode))
def test_a_language_and_readings_hold_for_every_sentence(front_end: FrontEnd, mode: Mode) -> None:
    def ids(text: str, **options: object) -> list[tuple[int, ...]]:
        planner = Planner(front_end, mode, **options)  # type: ignore[arg-type]
        return [ids for _, ids in segments([*planner.push(text), *planner.flush()])]

    assert ids("15%. 20%.", language="zh") == ids("百分之十五。百分之二十。") != ids("15%. 20%.")
    win = Pronunciations({"Nguyen": "win"})
    assert ids("Nguyen came. Nguyen left.", pronunciations=win) == ids("win came. win left.")
