"""One sentence's guard: one more attempt, back to where ids and mel alone say, then a clear error."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from oscine_engine.errors import RunAway
from oscine_engine.guards.repetition import CERTAIN_RUN, SUSPECT_RUN
from oscine_engine.guards.segment import (
    HELD_IDS,
    LONGEST_SILENCE_S,
    LONGEST_START_S,
    SHORT_IDS,
    GuardRules,
    Retry,
    Said,
    SegmentGuard,
    Verdict,
)
from oscine_engine.guards.silent_ids import SilentRuns

LOUDNESS = -18.0
RULES = GuardRules(sample_rate=24000, loudness=LOUDNESS)
RELEASED = frozenset({1, 2, 28, 29, 55, 248, 494, 2241, 2242, 2322, 2323})
SPEECH = [100 + n for n in range(700)]


def mel(level_db: float, frames: int) -> NDArray[np.float32]:
    """Frames of about that level."""
    return np.full((frames, 80), (level_db + 18) * np.log(10) / 20 - 1.5, np.float32)


def tell(guard: SegmentGuard, ids: Sequence[int], *, start: int = 0) -> tuple[list[int], Verdict, int]:
    """Say ids one by one: what the flow was given, the first verdict, and after how many ids."""
    given: list[int] = []
    for count in range(start + 1, len(ids) + 1):
        said = guard.said(ids[:count], done=False, capped=False)
        given += said.ids
        if said.verdict is not None:
            return given, said.verdict, count
    return given, None, len(ids)


def test_speech_goes_on_id_by_id() -> None:
    guard = SegmentGuard(RULES, seed=1)
    for count in range(1, 100):
        assert guard.said(SPEECH[:count], done=False, capped=False) == Said([SPEECH[count - 1]], None)
    assert guard.said(SPEECH[:100], done=True, capped=False) == Said([SPEECH[99]], None)


def test_a_loop_is_taken_back_to_where_it_was_first_suspected() -> None:
    guard = SegmentGuard(RULES, seed=1)
    given, verdict, count = tell(guard, SPEECH[:60] + [5, 6, 7] * 20)
    assert isinstance(verdict, Retry)
    assert count == 60 + 3 + CERTAIN_RUN
    assert given == SPEECH[:60] + ([5, 6, 7] * 20)[: 3 + SUSPECT_RUN - 1]
    assert (verdict.keep, verdict.given, verdict.restart) == (len(given), len(given), False)
    assert verdict.seed != 1
    assert 0 <= verdict.seed < 2**63


def test_the_second_loop_of_a_sentence_ends_it() -> None:
    guard = SegmentGuard(RULES, seed=1)
    said = SPEECH[:60] + [5] * 40
    _, verdict, _ = tell(guard, said)
    assert isinstance(verdict, Retry)
    said = said[: verdict.keep] + SPEECH[60:90] + [6] * 40
    given, verdict, _ = tell(guard, said, start=verdict.keep)
    assert given[:30] == SPEECH[60:90]
    assert isinstance(verdict, RunAway)
    assert verdict.code == "run_away"
    assert "repeated itself" in verdict.message
    assert "another seed" in verdict.message


def test_what_only_looked_like_a_loop_goes_on_whole() -> None:
    guard = SegmentGuard(RULES, seed=1)
    said = SPEECH[:30] + [5] * (SUSPECT_RUN + 6) + SPEECH[30:80]
    given, verdict, _ = tell(guard, said)
    assert (given, verdict) == (said, None)


@pytest.mark.parametrize("repeats", [3, 10])
def test_text_that_repeats_itself_may_sound_like_it_for_so_long(repeats: int) -> None:
    """Two text ids said over and over; the first two are no repetition."""
    guard = SegmentGuard(GuardRules(24000, LOUDNESS, slow_pace=2.0), seed=1)
    text = [50, 51, 52] + [60, 61] * repeats + [53]
    said = SPEECH[:20] + [5, 6] * 60
    given: list[int] = []
    for count in range(1, len(said) + 1):
        step = guard.said(said[:count], text=text, done=False, capped=False)
        given += step.ids
        if step.verdict is not None:
            break
    assert count == 20 + 2 + SUSPECT_RUN + HELD_IDS + 2 * 2 * (repeats - 1) + 1
    assert isinstance(step.verdict, Retry)
    assert step.verdict.given == len(given)
    assert step.verdict.keep >= count - HELD_IDS - 1


def test_an_end_lets_out_what_was_held_back() -> None:
    guard = SegmentGuard(RULES, seed=1)
    said = SPEECH[:30] + [5] * (SUSPECT_RUN + 3)
    given, _verdict, _ = tell(guard, said)
    assert len(given) < len(said)
    last = guard.said(said, done=True, capped=False)
    assert (given + last.ids, last.verdict) == (said, None)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=90), st.lists(st.integers(1, 9), max_size=30))
def test_how_many_ids_come_at_once_makes_no_difference(ids: list[int], steps: list[int]) -> None:
    one, many = SegmentGuard(RULES, seed=1), SegmentGuard(RULES, seed=1)
    given, verdict, count = tell(one, ids)
    assert len(given) >= count - HELD_IDS - 1
    pieces: list[int] = []
    at, outcome = 0, None
    for step in [*steps, len(ids)]:
        at = min(len(ids), at + step)
        said = many.said(ids[:at], done=False, capped=False)
        pieces += said.ids
        outcome = said.verdict
        if outcome is not None:
            break
    assert given[: len(pieces)] == pieces
    assert (outcome is None) == (verdict is None)
    if isinstance(verdict, Retry) and isinstance(outcome, Retry):
        assert (outcome.keep, outcome.seed) == (verdict.keep, verdict.seed)
        assert outcome.given == len(pieces)
        after = ids[: outcome.keep] + SPEECH[:5]
        assert pieces + tell(many, after, start=outcome.keep)[0] == given + tell(one, after, start=verdict.keep)[0]


@given(
    st.lists(st.one_of(st.sampled_from([1, 2, 5, 6, 7, 8, 9]), st.integers(100, 400)), max_size=160),
    st.lists(st.integers(1, 8), min_size=1, max_size=20),
)
def test_passing_over_what_is_as_ever_gives_what_a_close_look_gives(ids: list[int], steps: list[int]) -> None:
    rules = GuardRules(sample_rate=24000, loudness=LOUDNESS, silent_ids=frozenset({1, 2}))
    close, quick = SegmentGuard(rules, seed=1), SegmentGuard(rules, seed=1)
    setattr(close, "_pass", lambda _: None)  # noqa: B010
    count = turn = 0
    while count < len(ids):
        count, turn = min(len(ids), count + steps[turn % len(steps)]), turn + 1
        expected = close.said(ids[:count], done=False, capped=False)
        assert quick.said(ids[:count], done=False, capped=False) == expected
        assert quick.heard == close.heard
        if isinstance(expected.verdict, Retry):
            ids, count = ids[: expected.verdict.keep] + ids[count:], expected.verdict.keep
        elif expected.verdict is not None:
            return


def test_a_sentence_that_does_not_end_is_an_error_unless_it_is_short() -> None:
    for count, fault in ((SHORT_IDS - 1, False), (SHORT_IDS, True), (400, True)):
        verdict = SegmentGuard(RULES, seed=1).said(SPEECH[:count], done=True, capped=True).verdict
        assert isinstance(verdict, RunAway) == fault
        assert SegmentGuard(RULES, seed=1).said(SPEECH[:count], done=True, capped=False).verdict is None


@pytest.mark.parametrize(("once", "repeats", "fault"), [(20, 3, True), (4, 9, False), (0, 30, False)])
def test_a_text_that_is_mostly_repetition_is_cut_at_its_cap(once: int, repeats: int, fault: bool) -> None:
    text = list(range(100, 100 + once)) + [60, 61] * repeats
    said = SegmentGuard(RULES, seed=1).said(SPEECH[:200], text=text, done=True, capped=True)
    assert isinstance(said.verdict, RunAway) == fault
    assert said.ids == ([] if fault else SPEECH[:200])


def test_silence_behind_sound_is_taken_back_to_what_the_flow_has_used() -> None:
    guard = SegmentGuard(RULES, seed=1)
    tell(guard, SPEECH[:200])
    assert guard.solved(mel(-20, 20), last=False) is None
    assert guard.solved(mel(-70, 50), last=False) is None
    assert guard.solved(mel(-70, 50), last=False) is None
    verdict = guard.solved(mel(-70, 50), last=False)
    assert isinstance(verdict, Retry)
    used = (20 + 150) // 2 + RULES.lookahead
    assert (verdict.keep, verdict.given, verdict.restart) == (used, used, False)
    after = SPEECH[:used] + SPEECH[300:310]
    assert tell(guard, after, start=used)[0] == SPEECH[300:310]
    assert guard.solved(mel(-70, 50), last=False) is None
    assert guard.solved(mel(-70, 50), last=False) is None
    assert isinstance(guard.solved(mel(-70, 50), last=False), RunAway)


def test_pauses_and_the_silence_at_the_end_are_no_fault() -> None:
    guard = SegmentGuard(RULES, seed=1)
    tell(guard, SPEECH[:400])
    pause = int(LONGEST_SILENCE_S * 50) - 1
    for _ in range(4):
        assert guard.solved(mel(-20, 1), last=False) is None
        assert guard.solved(mel(-70, pause), last=False) is None
    assert guard.solved(mel(-70, 50), last=True) is None


def test_a_start_without_sound_is_made_anew() -> None:
    guard = SegmentGuard(RULES, seed=1)
    tell(guard, SPEECH[:150])
    assert guard.solved(mel(-70, int(LONGEST_START_S * 50) - 1), last=False) is None
    assert len(guard.edge(np.zeros(20000, np.float32), last=False)) == 0
    verdict = guard.solved(mel(-70, 50), last=False)
    assert isinstance(verdict, Retry)
    assert (verdict.keep, verdict.given, verdict.restart) == (0, 0, True)
    assert tell(guard, SPEECH[:40])[0] == SPEECH[:40]
    assert guard.edges.lead_cut == 0
    assert isinstance(guard.solved(mel(-70, 30), last=True), RunAway)


def test_a_silent_sentence_is_made_anew_and_then_sounds() -> None:
    guard = SegmentGuard(RULES, seed=1)
    tell(guard, SPEECH[:30])
    verdict = guard.solved(mel(-70, 60), last=True)
    assert isinstance(verdict, Retry)
    assert verdict.restart
    tell(guard, SPEECH[:30])
    assert guard.solved(mel(-25, 60), last=True) is None


@pytest.mark.parametrize("loudness", [-12.0, -30.0, -45.0])
def test_quiet_voices_are_not_silent_ones(loudness: float) -> None:
    guard = SegmentGuard(GuardRules(sample_rate=24000, loudness=loudness), seed=1)
    assert guard.solved(mel(loudness - 10, 60), last=True) is None
    guard = SegmentGuard(GuardRules(sample_rate=24000, loudness=loudness), seed=1)
    assert isinstance(guard.solved(mel(loudness - 40, 60), last=True), Retry)


def test_of_a_run_of_released_silent_ids_the_first_five_reach_the_flow() -> None:
    guard = SegmentGuard(GuardRules(24000, LOUDNESS, silent_ids=RELEASED), seed=1)
    said = [9, 1, 2, 28, 29, 55, 248, 494, 9, 2241, 2242, 2322, 2323, 9, 1, 1, 1, 1, 1, 1, 3]
    given, verdict, _ = tell(guard, said)
    assert given == [9, 1, 2, 28, 29, 55, 9, 2241, 2242, 2322, 2323, 9, 1, 1, 1, 1, 1, 3]
    assert verdict is None
    assert tell(SegmentGuard(RULES, seed=1), said)[0] == said


def test_silence_said_for_too_long_is_taken_back_to_its_last_id_that_was_passed_on() -> None:
    guard = SegmentGuard(GuardRules(24000, LOUDNESS, silent_ids=frozenset(range(1000, 1100))), seed=1)
    said = SPEECH[:40] + list(range(1000, 1100))
    given, verdict, count = tell(guard, said)
    assert count == 40 + int(LONGEST_SILENCE_S * 25) + 1
    assert given == said[:45]
    assert isinstance(verdict, Retry)
    assert (verdict.keep, verdict.given) == (45, 45)
    after = [*said[:45], 1099, 7]
    assert tell(guard, after, start=45)[0] == [7]


def test_silence_in_the_mel_counts_ids_that_were_passed_on() -> None:
    guard = SegmentGuard(GuardRules(24000, LOUDNESS, silent_ids=RELEASED), seed=1)
    said = [*SPEECH[:10], 1, 2, 28, 29, 55, 248, 494, 1, 2, *SPEECH[10:200]]
    tell(guard, said)
    guard.solved(mel(-20, 2), last=False)
    verdict = guard.solved(mel(-70, 128), last=False)
    assert isinstance(verdict, Retry)
    assert verdict.given == 65 + RULES.lookahead
    assert verdict.keep == verdict.given + 4


@given(st.lists(st.sampled_from([0, 1, 2]), max_size=60))
def test_runs_are_shortened_and_nothing_else(ids: list[int]) -> None:
    runs = SilentRuns({1, 2})
    passed = [speech_id for speech_id in ids if runs.passes(speech_id)]
    assert [i for i in passed if i == 0] == [i for i in ids if i == 0]
    text = "".join("x" if i == 0 else "." for i in passed)
    wanted = "x".join("." * min(5, len(run)) for run in "".join("x" if i == 0 else "." for i in ids).split("x"))
    assert text == wanted
