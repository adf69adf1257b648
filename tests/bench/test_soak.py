"""Who comes to a soak, and how survivors are judged."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.soak import Held, passed, told
from bench.soak_check import Keeper, Spoken, Verdict, judged, largest, parting, restore, store, summary
from bench.soak_plan import LATEST_S, LONGEST_PAUSE_S, WARM_UP, Kind, kinds, plans, warm_ups
from bench.ties import ROUNDING, Dictated, closeness, margin
from oscine_engine.checkpoint import synthetic
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.lm.interleave import Prompt
from oscine_engine.lm.packed import page_shape
from oscine_engine.lm.runner import Draw, LMRunner
from oscine_engine.runtime.pages import PagePool
from oscine_engine.runtime.trace import Said, Solved

LINES = ("One two three.", "Four five.", "Six seven eight nine.")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return load(synthetic.write(tmp_path_factory.mktemp("model")))


def test_the_shares_of_a_soak_are_exact() -> None:
    assert Counter(kinds(500)) == {
        Kind.SPEAKS: 345,
        Kind.CANCELS: 100,
        Kind.DROPS: 25,
        Kind.GOES_DEAF: 25,
        Kind.POISONED: 5,
    }
    assert Counter(kinds(10)) == {Kind.SPEAKS: 6, Kind.CANCELS: 2, Kind.DROPS: 1, Kind.POISONED: 1}


def test_a_soak_is_drawn_from_its_seed() -> None:
    made = plans(50, LINES, seed=3)
    assert made == plans(50, LINES, seed=3) != plans(50, LINES, seed=4)
    assert len({plan.seed for plan in made}) == 50
    assert len({plan.mode for plan in made}) == 3
    assert {len(plan.parts) > 1 for plan in made} == {True, False}
    for plan in made:
        assert 0 <= plan.pause_s <= LONGEST_PAUSE_S and 0 <= plan.after_s <= LATEST_S
        assert any("".join(plan.parts).startswith(line) for line in LINES)


def test_a_warm_up_has_a_long_sentence_for_everyone_and_seeds_of_its_own() -> None:
    warm, counted = warm_ups(4, LINES), plans(50, LINES)
    assert [plan.parts for plan in warm[:4]] == [(WARM_UP,)] * 4 and len(warm) > 8
    assert {plan.kind for plan in warm} == {Kind.SPEAKS}
    seeds = {plan.seed for plan in warm}
    assert len(seeds) == len(warm) and not seeds & {plan.seed for plan in counted}


def test_errors_come_out_of_their_groups() -> None:
    first, second = ValueError("a"), KeyError("b")
    assert list(told(BaseExceptionGroup("all", [first, ExceptionGroup("some", [second])]))) == [first, second]
    assert list(told(first)) == [first]


def said(ids: tuple[int, ...], segment: int = 0, text: tuple[int, ...] = (1, 2)) -> Said:
    return Said(7, segment, ids, Prompt(), text, False, ((0, 5),))


def test_what_chosen_sessions_say_is_kept_until_it_is_taken(tmp_path: Path) -> None:
    keep = Keeper(frozenset({7}))
    keep(Solved(8, 0, torch.ones(3, 80)))
    keep(Solved(7, 0, torch.ones(3, 80)))
    keep(Solved(7, 1, torch.full((2, 80), 2.0)))
    keep(Solved(7, 0, torch.zeros(1, 80)))
    keep(said((1, 2)))
    keep(said((3,), segment=1))
    spoken = keep.take(7, np.arange(4, dtype=np.float32))
    assert [mel.shape for mel in spoken.mel] == [(4, 80), (2, 80)]
    assert spoken.mel[0][:, 0].tolist() == [1, 1, 1, 0]
    store(spoken, tmp_path / "7.npz")
    back = restore(spoken.said, tmp_path / "7.npz")
    assert back.said == spoken.said and largest(back.wave, spoken.wave) == 0
    assert all(largest(a, b) == 0 for a, b in zip(back.mel, spoken.mel, strict=True))
    assert keep.take(7, spoken.wave).said == []


def test_places_and_distances() -> None:
    assert [parting((1, 2, 3), other) for other in ((1, 9, 3), (1, 2), (1, 2, 3, 4))] == [1, 2, 3]
    assert largest(np.zeros(2, np.float32), np.array([0, -0.5], np.float32)) == 0.5
    assert largest(np.zeros(2, np.float32), np.zeros(3, np.float32)) == np.inf


def spoken(*segments: tuple[int, ...], off: float = 0.0) -> Spoken:
    mel = [np.full((2 * len(ids), 80), off, np.float32) for ids in segments]
    return Spoken([said(ids, at) for at, ids in enumerate(segments)], mel, np.full(10, off, np.float32))


def test_the_same_ids_are_judged_by_mel_and_wave(checkpoint: Checkpoint) -> None:
    verdict = judged(spoken((1, 2), (3,)), spoken((1, 2), (3,), off=0.25), checkpoint)
    assert verdict == Verdict((), 0.25, 0.25)
    assert judged(spoken((1,)), spoken((1,), (2,)), checkpoint).margins == (np.inf,)
    other_text = Spoken([said((1,), text=(9,))], [np.zeros((2, 80), np.float32)], np.zeros(0, np.float32))
    assert judged(other_text, spoken((2,)), checkpoint).margins == (np.inf,)


def test_survivors_pass_with_the_same_ids_or_a_tie() -> None:
    good, tied = Verdict((), 1e-4, 1e-2), Verdict((ROUNDING / 2,), 1e-4, None)
    result = summary([good, tied])
    assert (result["count"], result["same_ids"], result["ties"], result["different"], result["ok"]) == (
        2,
        1,
        1,
        0,
        True,
    )
    for bad in (Verdict((0.1,), None, None), Verdict((), 2e-3, 0.0), Verdict((), 0.0, 3e-2)):
        assert not summary([good, bad])["ok"]


def runner(checkpoint: Checkpoint) -> LMRunner:
    config = checkpoint.config
    return LMRunner(checkpoint.lm, PagePool(4, page_shape(config.lm, 256)), config.sampling, config.text)


def test_a_segment_that_is_dictated_goes_on_as_it_did(checkpoint: Checkpoint) -> None:
    plain = runner(checkpoint)
    stream = plain.open(Prompt((1, 2, 3)), mode="whole", seed=11)
    stream.add_text((10, 20, 30, 40, 50, 60))
    stream.end_text()
    while stream.wants_step:
        plain.step([stream])
    ids = tuple(stream.tokens)
    assert len(ids) > 4
    dictated = Dictated(checkpoint, ids[:4])
    again = dictated.open(Prompt((1, 2, 3)), mode="whole", seed=11)
    again.add_text((10, 20, 30, 40, 50, 60))
    again.end_text()
    for _ in range(5):
        dictated.step([again])
    assert tuple(again.tokens) == ids[:5]
    record = Said(1, 0, ids, Prompt((1, 2, 3)), (10, 20, 30, 40, 50, 60), False, ((0, 11),))
    assert closeness(checkpoint, record, 4) == dictated.margin
    assert 0 < dictated.margin < np.inf


def test_a_draw_only_turns_where_it_was_close(checkpoint: Checkpoint) -> None:
    """Shifting the second best score up to the best makes a toss-up; what is not one survives rounding."""
    lm = runner(checkpoint)
    generator = torch.Generator().manual_seed(0)
    rows = checkpoint.config.lm.decoder_rows
    gaps = []
    for seed in range(60):
        logits = 2 * torch.randn(1, rows, generator=generator)
        draw = Draw(seed, [], True)
        (chosen,) = lm.choose(logits, [draw])
        gap = margin(logits, draw, lm)
        (nudged,) = lm.choose(logits + 1e-6 * torch.randn(1, rows, generator=generator), [draw])
        assert nudged == chosen or gap <= ROUNDING
        gaps.append(gap)
        low, high = 0.0, 20.0
        other = next(id for id in range(rows) if id != chosen)
        shifted = logits.clone()
        for _ in range(60):
            shifted[0, other] = logits[0, other] + (low + high) / 2
            low, high = ((low + high) / 2, high) if lm.choose(shifted, [draw]) == [chosen] else (low, (low + high) / 2)
        assert margin(shifted, draw, lm) <= ROUNDING
    assert sum(gap > ROUNDING for gap in gaps) > 50


def test_what_is_left_over() -> None:
    before = Held(0, 0, 3, 10, 4)
    assert Held(1, 2, 3, 11, 4).beyond(before) == {
        "streams": 1,
        "pages": 2,
        "tasks": 0,
        "file_descriptors": 1,
        "threads": 0,
    }


def test_a_soak_passes_only_if_all_is_well() -> None:
    good = {
        "unexpected": [],
        "leftovers": {"streams": 0, "pages": 0},
        "memory_growth": 0.01,
        "survivors": {"ok": True},
    }
    assert passed(good)
    for bad in (
        {"unexpected": ["one"]},
        {"leftovers": {"streams": 0, "pages": 1}},
        {"memory_growth": 0.03},
        {"survivors": {"ok": False}},
    ):
        assert not passed({**good, **bad})
