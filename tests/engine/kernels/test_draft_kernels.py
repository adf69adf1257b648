"""The draft's fused kernels against their twins in plain torch."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from oscine_engine.config import SamplingConfig
from oscine_engine.lm import noise
from oscine_engine.lm.sampling import sample
from oscine_engine.runtime.kernels import draft as twin

pytest.importorskip("triton")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
EPS = 1e-5


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("width", [8, 24, 64])
def test_queries_are_normed_and_nothing_else(width: int) -> None:
    from oscine_engine.runtime.kernels import draft_triton

    qkv, weight = drawn(5, 7 * width, seed=1), drawn(width, seed=2)
    fused = qkv.to(DEVICE, copy=True)
    draft_triton.norm_queries(fused, weight.to(DEVICE), 4, EPS)
    before = qkv.clone()
    twin.norm_queries(qkv, weight, 4, EPS)
    torch.testing.assert_close(fused.cpu(), qkv, atol=1e-5, rtol=1e-5)
    assert torch.equal(qkv[:, 4 * width :], before[:, 4 * width :])
    assert not torch.equal(qkv[:, : 4 * width], before[:, : 4 * width])


@pytest.mark.parametrize("width", [8, 24, 64])
@pytest.mark.parametrize("strided", [False, True])
def test_keys_and_values_are_kept(width: int, strided: bool) -> None:
    """Of all layers at once, or of one whose rows and pages are parts of longer ones; some rows are nobody's."""
    from oscine_engine.runtime.kernels import draft_triton

    layers, kv_heads, page = (1, 2, 4) if strided else (3, 2, 4)
    size = layers * 2 * kv_heads * width
    rows = drawn(6, size + 5 * width, seed=1)
    kv = rows[:, 5 * width :] if strided else rows[:, :size].contiguous()
    weights = drawn(layers, width, seed=2)
    angles = drawn(50, width // 2, seed=3)
    positions = torch.tensor([3, 49, 0, 17, 18, 7])
    slots = torch.tensor([5, -1, 0, 23, 11, -1])
    cache = drawn(6, 3, 2, kv_heads, page, width, seed=4)
    fused = cache.to(DEVICE, copy=True)
    part = slice(1, 2) if strided else slice(0, 3)
    for kernels, pages in ((twin, cache), (draft_triton, fused)):
        device = pages.device
        given = rows.to(device)[:, 5 * width :] if strided else kv.to(device)
        kernels.keep(
            given.view(6, layers, 2, kv_heads, width),
            weights.to(device),
            positions.to(device),
            slots.to(device),
            angles.cos().to(device),
            angles.sin().to(device),
            pages[:, part],
            EPS,
        )
    torch.testing.assert_close(fused.cpu(), cache, atol=1e-5, rtol=1e-5)
    untouched = drawn(6, 3, 2, kv_heads, page, width, seed=4)
    changed = (cache != untouched).any(-1).any(2).any(2)
    places = {(int(a), int(b), int(c)) for a, b, c in changed.nonzero()}
    wanted = {(slot // page, layer, slot % page) for slot in (5, 0, 23, 11) for layer in range(*part.indices(3))}
    assert places == wanted


@pytest.mark.parametrize(("page", "rows"), [(4, 5), (4, 8), (3, 4), (16, 8), (16, 1)])
def test_blocks_are_laid_out(page: int, rows: int) -> None:
    """At the start, inside of a page, at its end, and where the tables end."""
    from oscine_engine.runtime.kernels import draft_triton

    lengths = torch.tensor([0, 1, page, 2 * page - 1, 3 * page], dtype=torch.int32)
    anchors, positions = torch.tensor([7, 8, 9, 3, 4]), lengths.long()
    tables = torch.randperm(30, generator=torch.Generator().manual_seed(1))[:15].view(5, 3).int()
    spare = twin.Spare(first=40, each=-(-rows // page), page_tokens=page)
    made = twin.lay_out(anchors, positions, tables, lengths, 99, rows, spare)
    given = (part.to(DEVICE) for part in (anchors, positions, tables, lengths))
    for fused, wanted in zip(draft_triton.lay_out(*given, 99, rows, spare), made, strict=True):
        assert torch.equal(fused.cpu(), wanted)
    assert made.ids.view(5, rows)[:, 0].tolist() == anchors.tolist()
    assert bool((made.ids.view(5, rows)[:, 1:] == 99).all())
    assert torch.equal(made.places.view(5, rows), positions[:, None] + torch.arange(rows))
    seen = set()
    for stream, length in enumerate(lengths.tolist()):
        for place, slot in enumerate(made.slots.view(5, rows)[stream].tolist(), length):
            seen.add(slot)
            assert slot % page == place % page and made.tables[stream, place // page] == slot // page
            held = place // page < -(-length // page)
            assert slot // page == tables[stream, place // page] if held else slot // page >= 40
    assert len(seen) == 5 * rows


@pytest.mark.parametrize("sampling", [None, SamplingConfig(top_p=0.8, top_k=25), SamplingConfig(top_p=0.9, top_k=4)])
@pytest.mark.parametrize("limit", [0.5, 2.0, 9.0])
def test_ids_are_drawn_alike(limit: float, sampling: SamplingConfig | None) -> None:
    from oscine_engine.runtime.kernels import draft_triton

    rows, ids, window, step = 40, 21, 5, 2
    base, more, barred = drawn(rows, 3, 24, seed=1)[:, 1] * 3, drawn(rows, 24, seed=4), torch.zeros(24)
    barred[3] = -torch.inf
    barred[ids:] = 50.0
    generator = torch.Generator().manual_seed(2)
    seeds = torch.randint(-(2**62), 2**62, (rows,), generator=generator)
    said = torch.randint(0, 500, (rows,), generator=generator)
    past = torch.randint(-1, ids, (rows, window + 4), generator=generator)
    rule = twin.Rule(ids, window, limit, 0.8, sampling)
    fused = past.to(DEVICE, copy=True)
    given = [part.to(DEVICE) for part in (base, more, barred, seeds, said)]
    chosen = draft_triton.choose(*given, fused, step, rule).cpu()
    before = past.clone()
    wanted = twin.choose(base, more, barred, seeds, said, past, step, rule)
    assert torch.equal(chosen, wanted) and torch.equal(fused.cpu(), past)
    assert torch.equal(past[:, window + step], wanted)
    past[:, window + step] = before[:, window + step]
    assert torch.equal(past, before)
    assert bool((wanted < ids).all()) and not bool((wanted == 3).any()) and len(set(wanted.tolist())) > 5
    given[1][7] = torch.nan
    broken = draft_triton.choose(*given, fused, step, rule).cpu()
    assert 0 <= int(broken[7]) < ids and torch.equal(broken[8:], wanted[8:])


def test_an_id_said_too_often_is_drawn_anew_from_the_others() -> None:
    base = torch.full((1, 6), -30.0)
    base[0, 2], base[0, 4] = 30.0, 0.0
    past = torch.tensor([[2, 9, 2, -1, -1]])
    nothing = torch.zeros(1, 6), torch.zeros(6), torch.tensor([5]), torch.tensor([3])
    for step, limit, wanted in ((0, 2.0, 4), (0, 3.0, 2), (1, 2.0, 2)):
        assert twin.choose(base, *nothing, past.clone(), step, twin.Rule(6, 3, limit, 1.0, None)).tolist() == [wanted]


@pytest.mark.parametrize("truncate", [False, True])
def test_a_guess_made_from_the_target_s_own_logits_is_what_it_says(truncate: bool) -> None:
    ids, window = 40, 4
    sampling = SamplingConfig(top_p=0.9, top_k=12, win_size=window, tau_r=0.3)
    rule = twin.Rule(ids, window, 1.2, 0.8, sampling if truncate else None)
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(64, ids, generator=generator) * 3
    seeds, said = torch.arange(64) * 10**12 - 5, torch.arange(64)
    past = torch.randint(-1, ids, (64, window + 1), generator=generator)
    recent = past[:, :window].clone()
    guessed = twin.choose(logits, torch.zeros_like(logits), torch.zeros(ids), seeds, said, past, 0, rule)
    keys = torch.tensor(
        [[noise.key(s, n, use) for use in (0, 1)] for s, n in zip(seeds.tolist(), range(64), strict=True)]
    )
    everything = replace(sampling, top_p=2.0, top_k=ids)
    assert torch.equal(guessed, sample(logits, recent, keys, sampling if truncate else everything, 0.8))
    assert len(set(guessed.tolist())) > 10
