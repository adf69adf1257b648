"""Trimming and fading: nothing of the sound is touched, what is dropped is counted, pieces do not matter."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from oscine_engine.guards.edges import FADE_S, LEAD_S, LONGEST_LEAD_S, LONGEST_TAIL_S, PAUSE_S, Edges

RATE = 24000
SILENCE_DB = -60.0
LEAD, PAUSE, FADE = (round(s * RATE) for s in (LEAD_S, PAUSE_S, FADE_S))
LONGEST_LEAD, LONGEST_TAIL = (round(s * RATE) for s in (LONGEST_LEAD_S, LONGEST_TAIL_S))
Samples = NDArray[np.float32]


def sound(seconds: float, level_db: float = -20.0) -> Samples:
    """Noise of that level; every sample is different, so a sample out of place shows."""
    rng = np.random.default_rng(round(seconds * 1000))
    return rng.normal(0, 10 ** (level_db / 20), round(seconds * RATE)).astype(np.float32)


def silence(seconds: float) -> Samples:
    return sound(seconds, -80.0)


def spoken(*parts: Samples) -> Samples:
    return np.concatenate(parts)


def run(edges: Edges, samples: Samples, cuts: Sequence[int] = (), after: int | None = None) -> list[Samples]:
    """What comes out of every piece, the last one long enough to be faded."""
    ends = [*sorted(cut for cut in cuts if cut <= len(samples) - FADE), len(samples)]
    starts = [0, *ends[:-1]]
    return [
        edges.push(samples[a:b], last=place == len(ends) - 1, after=after)
        for place, (a, b) in enumerate(zip(starts, ends, strict=True))
    ]


def trimmed(samples: Samples, cuts: Sequence[int] = (), after: int | None = None, trim: bool = True) -> Samples:
    return np.concatenate(run(Edges(RATE, SILENCE_DB, trim=trim), samples, cuts, after))


def test_silence_goes_but_for_a_lead_and_a_pause_and_the_sound_stays() -> None:
    voice = sound(1.0)
    edges = Edges(RATE, SILENCE_DB)
    out = edges.push(spoken(silence(0.5), voice, silence(0.9)), last=True)
    assert len(out) == LEAD + len(voice) + PAUSE
    assert (edges.lead_cut, edges.tail_cut, edges.pause) == (12000 - LEAD, 21600 - PAUSE, PAUSE)
    assert np.array_equal(out[LEAD:-PAUSE], voice)


def test_edges_that_were_cut_are_faded_over_5_ms() -> None:
    samples = spoken(silence(0.5), sound(1.0), silence(0.9))
    out = trimmed(samples)
    kept = samples[12000 - LEAD :][: len(out)]
    assert np.array_equal(out[FADE:-FADE], kept[FADE:-FADE])
    gains = out[:FADE] / kept[:FADE]
    assert np.all(np.diff(gains) > 0)
    assert gains[0] < 1e-3
    assert gains[-1] > 0.999
    np.testing.assert_allclose(out[-FADE:] / kept[-FADE:], gains[::-1], rtol=1e-3)


def test_sound_that_starts_and_stops_hard_is_faded_and_not_cut() -> None:
    voice = sound(1.0)
    out = trimmed(voice)
    assert len(out) == len(voice)
    assert np.array_equal(out[FADE:-FADE], voice[FADE:-FADE])
    assert np.abs(out[[0, -1]]).max() < 1e-3


def test_what_starts_and_stops_at_zero_is_left_alone() -> None:
    voice = spoken(np.zeros(240, np.float32), sound(0.5), np.zeros(240, np.float32))
    assert np.array_equal(trimmed(voice), voice)


def test_a_first_piece_that_begins_with_sound_is_out_at_once() -> None:
    edges = Edges(RATE, SILENCE_DB)
    assert len(edges.push(sound(0.3), last=False)) == 7200
    assert len(edges.push(sound(0.011), last=False)) == 264


def test_silence_alone_makes_no_packet_and_then_only_its_end_is_kept() -> None:
    edges = Edges(RATE, SILENCE_DB)
    assert [len(edges.push(silence(0.4), last=False)) for _ in range(3)] == [0, 0, 0]
    assert not edges.started
    assert len(edges.push(sound(0.2), last=False)) == LEAD + 4800
    assert edges.lead_cut == 3 * 9600 - LEAD


def test_pauses_inside_a_sentence_stay() -> None:
    samples = spoken(sound(0.5), silence(1.7), sound(0.5), silence(0.1))
    assert len(trimmed(samples, range(0, len(samples), 4800))) == len(samples)


def test_of_a_pause_in_the_making_at_most_a_second_waits() -> None:
    edges = Edges(RATE, SILENCE_DB)
    assert len(edges.push(sound(0.5), last=False)) == 12000
    waiting = 0
    for _ in range(30):
        waiting += 2400 - len(edges.push(silence(0.1), last=False))
        assert waiting <= LONGEST_TAIL
    assert waiting == LONGEST_TAIL
    assert len(edges.push(sound(0.1), last=False)) == waiting + 2400


def test_more_silence_than_may_be_cut_is_passed_on() -> None:
    samples = spoken(silence(3.0), sound(0.5), silence(2.0))
    edges = Edges(RATE, SILENCE_DB)
    out = np.concatenate(run(edges, samples, range(0, len(samples), 2400)))
    assert (edges.lead_cut, edges.tail_cut) == (LONGEST_LEAD, LONGEST_TAIL)
    assert len(out) == len(samples) - LONGEST_LEAD - LONGEST_TAIL


def test_nothing_but_silence_comes_to_nothing() -> None:
    assert len(trimmed(silence(1.0), range(0, 24000, 2400))) == 0


@pytest.mark.parametrize(("tail", "kept"), [(0.1, 0.2), (0.25, 0.05), (0.3, LEAD_S), (0.5, LEAD_S)])
def test_the_pause_between_two_sentences_is_a_natural_one(tail: float, kept: float) -> None:
    first = Edges(RATE, SILENCE_DB)
    first.push(spoken(sound(0.5), silence(tail)), last=True)
    out = trimmed(spoken(silence(0.6), sound(0.5)), after=first.pause)
    assert len(out) == round(kept * RATE) + 12000


@pytest.mark.parametrize("level_db", [-45.0, -52.0, -58.0])
def test_soft_onsets_are_sound(level_db: float) -> None:
    onset = sound(0.12, level_db)
    out = trimmed(spoken(silence(0.4), onset, sound(0.5)))
    assert len(out) == LEAD + len(onset) + 12000
    assert np.array_equal(out[LEAD : LEAD + len(onset)], onset)


def test_without_trimming_every_sample_comes_out_at_once() -> None:
    samples = spoken(silence(0.5), sound(0.5), silence(0.7))
    edges = Edges(RATE, SILENCE_DB, trim=False)
    out = run(edges, samples, range(0, len(samples), 2400))
    assert [len(piece) for piece in out] == [0] + [2400] * 16 + [40800 - 2400 * 16]
    assert edges.pause == round(0.7 * RATE)
    assert np.abs(np.concatenate(out) - samples).max() < 1e-3


parts = st.lists(
    st.tuples(st.sampled_from([-20.0, -40.0, -57.0, -80.0]), st.floats(0.001, 1.5)), min_size=1, max_size=6
)


@given(parts, st.lists(st.integers(0, 150_000), max_size=12), st.one_of(st.none(), st.integers(0, 9000)), st.booleans())
def test_pieces_do_not_matter_and_nothing_else_changes(
    levels: list[tuple[float, float]], cuts: list[int], after: int | None, trim: bool
) -> None:
    samples = spoken(*(sound(seconds, level) for level, seconds in levels), silence(0.01))
    whole, cut = Edges(RATE, SILENCE_DB, trim=trim), Edges(RATE, SILENCE_DB, trim=trim)
    at_once = np.concatenate(run(whole, samples, after=after))
    pieces = run(cut, samples, cuts, after)
    assert np.array_equal(np.concatenate(pieces), at_once)
    assert (cut.lead_cut, cut.tail_cut, cut.pause) == (whole.lead_cut, whole.tail_cut, whole.pause)
    assert whole.lead_cut + len(at_once) + whole.tail_cut == len(samples)
    assert whole.lead_cut <= LONGEST_LEAD
    assert whole.tail_cut <= LONGEST_TAIL
    source = samples[whole.lead_cut :][: len(at_once)]
    assert np.array_equal(at_once[FADE:-FADE], source[FADE:-FADE])
    assert np.all(np.abs(at_once) <= np.abs(source))
    if trim:
        for dropped in (samples[: whole.lead_cut], samples[len(samples) - whole.tail_cut :]):
            assert np.abs(dropped).max(initial=0) < 10 ** (-20 / 20)
            windows = dropped[: len(dropped) // 240 * 240].reshape(-1, 240)
            assert np.all(10 * np.log10(np.square(windows).mean(axis=1) + 1e-12) < SILENCE_DB + 3)
