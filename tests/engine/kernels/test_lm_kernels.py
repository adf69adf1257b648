"""The language model's fused kernels against their twins in plain torch."""

import pytest
import torch
from torch import Tensor

from oscine_engine.runtime.kernels import lm as twin

triton = pytest.importorskip("triton")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_add_and_norm() -> None:
    from oscine_engine.runtime.kernels import lm_triton

    x, y, weight = drawn(3, 40, seed=1), drawn(3, 40, seed=2), drawn(40, seed=3)
    moved = x.to(DEVICE, copy=True)
    fused = lm_triton.add_norm(moved, y.to(DEVICE), weight.to(DEVICE), 1e-6)
    alone = lm_triton.add_norm(x.to(DEVICE), None, weight.to(DEVICE), 1e-6)
    torch.testing.assert_close(alone.cpu(), twin.add_norm(x, None, weight, 1e-6), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(fused.cpu(), twin.add_norm(x, y, weight, 1e-6), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(moved.cpu(), x)


def test_gated_silu() -> None:
    from oscine_engine.runtime.kernels import lm_triton

    x = drawn(3, 2600, seed=1)
    torch.testing.assert_close(lm_triton.silu_times(x.to(DEVICE)).cpu(), twin.silu_times(x), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize(("heads", "kv_heads", "width", "page"), [(4, 2, 8, 4), (14, 2, 64, 32)])
def test_attention(heads: int, kv_heads: int, width: int, page: int, splits: int, causal: bool) -> None:
    """A text of two tiles, a single row far along, a short text at the start, and tiles and rows of nobody."""
    from oscine_engine.runtime.kernels import lm_triton

    rows, most = 16, 6
    cache = drawn(40, 2, kv_heads, page, width, seed=1)
    angles = drawn(100, width // 2, seed=2)
    cos, sin = angles.cos(), angles.sin()
    qkv = drawn(rows, (heads + 2 * kv_heads) * width, seed=3)
    tables = torch.randperm(39, generator=torch.Generator().manual_seed(4))[:36].view(3, 12).int() + 1
    starts = {0: (5, 9), 1: (33, 1), 2: (0, 3)}
    positions, slots = torch.zeros(rows, dtype=torch.int64), torch.full((rows,), -1)
    row = 0
    for sequence, (start, count) in starts.items():
        for at in range(start, start + count):
            positions[row], slots[row] = at, int(tables[sequence, at // page]) * page + at % page
            row += 1
    number = torch.int32
    tiles = twin.Tiles(
        first=torch.tensor([0, 6, 9, 10, 0], dtype=number),
        rows=torch.tensor([6, 3, 1, 3, 0], dtype=number),
        start=torch.tensor([5, 11, 33, 0, 0], dtype=number),
        sequence=torch.tensor([0, 0, 1, 2, 0], dtype=number),
        tables=tables,
        most=most,
        splits=splits,
        causal=causal,
    )
    there = tiles._replace(**{name: getattr(tiles, name).to(DEVICE) for name in tiles._fields[:5]})
    fused_cache = cache.to(DEVICE, copy=True)
    given = (qkv.to(DEVICE), positions.to(DEVICE))
    turns = (cos.to(DEVICE), sin.to(DEVICE), fused_cache, heads)
    lm_triton.write(*given, slots.to(DEVICE), *turns)
    twin.write(qkv, positions, slots, cos, sin, cache, heads)
    torch.testing.assert_close(fused_cache.cpu(), cache, atol=1e-6, rtol=1e-6)
    fused = lm_triton.attend(*given, *turns, there)
    expected = twin.attend(qkv, positions, cos, sin, cache, heads, tiles)
    torch.testing.assert_close(fused.cpu()[:13], expected[:13], atol=2e-5, rtol=2e-5)


def test_embedding_and_the_norm_of_some_rows() -> None:
    from oscine_engine.runtime.kernels import lm_triton

    text, speech = drawn(9, 40, seed=1), drawn(5, 40, seed=2)
    kinds, ids = torch.tensor([0, 1, 1, 0, 1]), torch.tensor([8, 4, 0, 5, 3])
    there = [part.to(DEVICE) for part in (kinds, ids, text, speech)]
    wanted = twin.embed(kinds, ids, text, speech)
    assert wanted.tolist() == [
        text[8].tolist(),
        speech[4].tolist(),
        speech[0].tolist(),
        text[5].tolist(),
        speech[3].tolist(),
    ]
    assert lm_triton.embed(*there).tolist() == wanted.tolist()
    x, y, weight = drawn(6, 40, seed=3), drawn(6, 40, seed=4), drawn(40, seed=5)
    rows = torch.tensor([5, 0, 5])
    some = lm_triton.norm_some(*(part.to(DEVICE) for part in (x, y, rows, weight)), 1e-6)
    torch.testing.assert_close(some.cpu(), twin.norm_some(x, y, rows, weight, 1e-6), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(some.cpu(), twin.add_norm(x.clone(), y, weight, 1e-6)[rows], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 16, 19])
def test_a_gated_linear_layer_of_few_rows(rows: int) -> None:
    from oscine_engine.runtime.kernels import lm_triton

    x, weight = drawn(rows, 96, seed=1).half(), drawn(2 * 64, 96, seed=2).half()
    assert lm_triton.few(x, weight[:64])
    assert not lm_triton.few(x, drawn(40, 96, seed=2).half())
    got = lm_triton.gated(x.to(DEVICE), weight.to(DEVICE)).cpu()
    torch.testing.assert_close(got.float(), twin.gated(x.float(), weight.float()), atol=2e-2, rtol=2e-3)


@pytest.mark.parametrize("rows", [1, 7, 33])
def test_queries_keys_and_values_of_few_rows(rows: int) -> None:
    """Queries come back; keys, turned, and values lie in their pages; rows of no slot are nowhere."""
    from oscine_engine.runtime.kernels import lm_triton

    heads, kv_heads, width, page, inputs = 4, 2, 64, 8, 96
    x, bias = drawn(rows, inputs, seed=1).half(), drawn((heads + 2 * kv_heads) * width, seed=2).half()
    weight = drawn((heads + 2 * kv_heads) * width, inputs, seed=3).half()
    cache = drawn(9, 2, kv_heads, page, width, seed=4).half()
    angles = drawn(100, width // 2, seed=5)
    positions = torch.arange(rows) * 2 + 1
    slots = torch.randperm(72, generator=torch.Generator().manual_seed(6))[:rows]
    slots[1::3] = -1
    assert lm_triton.few(x, weight, width)
    assert not lm_triton.few(x, weight, 48)
    there = cache.to(DEVICE, copy=True)
    given = [part.to(DEVICE) for part in (x, weight, bias, positions, slots, angles.cos(), angles.sin())]
    got = lm_triton.project(*given, there, heads).cpu()
    wide = cache.float()
    turns = (positions, slots, angles.cos(), angles.sin(), wide, heads)
    wanted = twin.project(x.float(), weight.float(), bias.float(), *turns)
    queries = heads * width
    torch.testing.assert_close(got[:, :queries].float(), wanted[:, :queries], atol=5e-2, rtol=2e-3)
    torch.testing.assert_close(there.cpu().float(), wide, atol=5e-2, rtol=2e-3)
    untouched = torch.ones(72, dtype=torch.bool).scatter(0, slots[slots >= 0], False)
    flat = there.cpu().permute(0, 3, 1, 2, 4).flatten(0, 1)
    assert flat[untouched].equal(cache.permute(0, 3, 1, 2, 4).flatten(0, 1)[untouched])
