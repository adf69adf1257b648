"""The draft's fused kernels against their twins in plain torch."""

import pytest
import torch
from torch import Tensor

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


@pytest.mark.parametrize("limit", [0.5, 2.0, 9.0])
def test_ids_are_drawn_alike(limit: float) -> None:
    from oscine_engine.runtime.kernels import draft_triton

    rows, ids, window = 40, 21, 5
    logits = drawn(rows, 24, seed=1) * 3
    logits[:, 3] = -torch.inf
    logits[:, ids:] = 50.0
    generator = torch.Generator().manual_seed(2)
    seeds = torch.randint(-(2**62), 2**62, (rows,), generator=generator)
    said = torch.randint(0, 500, (rows,), generator=generator)
    history = torch.randint(-1, ids, (rows, window), generator=generator)
    wanted = twin.choose(logits, seeds, said, history, limit, 0.8, ids)
    given = (part.to(DEVICE) for part in (logits, seeds, said, history))
    assert torch.equal(draft_triton.choose(*given, limit, 0.8, ids).cpu(), wanted)
    assert bool((wanted < ids).all()) and not bool((wanted == 3).any()) and len(set(wanted.tolist())) > 5
    logits[7] = torch.nan
    given = (part.to(DEVICE) for part in (logits, seeds, said, history))
    broken = draft_triton.choose(*given, limit, 0.8, ids).cpu()
    assert 0 <= int(broken[7]) < ids and torch.equal(broken[8:], wanted[8:])
