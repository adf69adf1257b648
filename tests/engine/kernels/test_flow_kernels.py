"""The flow's fused kernels against their twins in plain torch."""

import pytest
import torch
from torch import Tensor

from oscine_engine.flow.slotted import Batch
from oscine_engine.runtime.kernels import flow as twin

triton = pytest.importorskip("triton")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("dim", "groups", "taps", "chunk"), [(32, 8, 31, 50), (48, 3, 5, 7)])
def test_position_convolutions(dim: int, groups: int, taps: int, chunk: int) -> None:
    from oscine_engine.runtime.kernels import flow_triton

    convs = [
        twin.position_weights(drawn(dim, dim // groups, taps, seed=n) / taps, drawn(dim, seed=9), groups)
        for n in (1, 2)
    ]
    x, table = drawn(4, chunk, dim, seed=3), drawn(5, 2, 3, 2, taps - 1, dim, seed=4)
    slots, steps = torch.tensor([4, 1]), torch.tensor([2, 0])
    middle = flow_triton.position(
        x.to(DEVICE), table.to(DEVICE), slots.to(DEVICE), steps.to(DEVICE), 0, on(convs[0]), residual=None
    )
    out = flow_triton.position(
        middle, table.to(DEVICE), slots.to(DEVICE), steps.to(DEVICE), 1, on(convs[1]), residual=x.to(DEVICE)
    )
    expected = twin.position(x, table, slots, steps, convs)
    torch.testing.assert_close(out.flatten(0, 1).cpu(), expected, atol=2e-5, rtol=2e-5)


def on(conv: twin.PositionConv) -> twin.PositionConv:
    return twin.PositionConv(conv.weight.to(DEVICE), conv.tiles.to(DEVICE), conv.bias.to(DEVICE), conv.groups)


def test_tails_move_on() -> None:
    conv = twin.position_weights(drawn(32, 4, 31, seed=1) / 31, drawn(32, seed=2), 8)
    x, table = drawn(2, 50, 32, seed=3), drawn(3, 2, 2, 2, 30, 32, seed=4)
    before = table.clone()
    twin.position(x, table, torch.tensor([1]), torch.tensor([1]), [conv, conv])
    torch.testing.assert_close(table[1, 0, 1], x[:, 20:])
    before[1, :, 1] = table[1, :, 1]
    assert torch.equal(table, before)


@pytest.mark.parametrize("dim", [32, 40])
def test_gate_norm_and_modulation(dim: int) -> None:
    from oscine_engine.runtime.kernels import flow_triton

    x, y = drawn(2 * 2 * 5, dim, seed=1) + 3, drawn(2 * 2 * 5, dim, seed=2)
    # As the network gives them: rows of a larger table, not next to each other.
    gate, shift, scale = drawn(2, 3, dim, seed=3).to(DEVICE).unbind(1)
    moved = x.to(DEVICE, copy=True)
    plain = flow_triton.gate_norm_modulate(x.to(DEVICE), None, None, shift, scale, 1e-6)
    fused = flow_triton.gate_norm_modulate(moved, y.to(DEVICE), gate, shift, scale, 1e-6)
    gate, shift, scale = (part.cpu() for part in (gate, shift, scale))
    torch.testing.assert_close(plain.cpu(), twin.norm_modulate(x, shift, scale, 1e-6), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        fused.cpu(), twin.gate_norm_modulate(x, y, gate, shift, scale, 1e-6), atol=1e-5, rtol=1e-5
    )
    torch.testing.assert_close(moved.cpu(), x)


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize(("heads", "width", "chunk"), [(3, 8, 50), (2, 64, 6)])
def test_attention_over_pages(heads: int, width: int, chunk: int, splits: int) -> None:
    """Streams with much, little and no past, a short last chunk, and a row that only fills up the batch."""
    from oscine_engine.runtime.kernels import flow_triton

    inner, layers, steps = heads * width, 2, 3
    pool = drawn(12, steps, layers, 2, 2, chunk, inner, seed=1)
    angles = drawn(chunk * 6, width // 2, seed=2)
    batch = Batch(
        slots=torch.tensor([3, 1, 0, 5]),
        steps=torch.tensor([2, 0, 1, 0]),
        starts=torch.tensor([4 * chunk, 0, chunk, 0], dtype=torch.int32),
        frames=torch.tensor([chunk, chunk, 2, 0], dtype=torch.int32),
        pages=torch.tensor([[7, 2, 9, 4, 1, 0], [5, 0, 0, 0, 0, 0], [7, 3, 0, 0, 0, 0], [0] * 6], dtype=torch.int32),
    )
    qkv = drawn(4 * 2 * chunk, 3 * inner, seed=3)
    there = Batch(*(part.to(DEVICE) for part in batch))
    fused_pool = pool.to(DEVICE, copy=True)
    fused = flow_triton.attend(
        qkv.to(DEVICE), angles.cos().to(DEVICE), angles.sin().to(DEVICE), fused_pool, 1, heads, there, splits
    )
    expected = twin.attend(qkv, angles.cos(), angles.sin(), pool, 1, heads, batch, splits)
    valid = torch.arange(chunk) < batch.frames[:, None, None]
    valid = valid.expand(-1, 2, -1).flatten()
    torch.testing.assert_close(fused.cpu()[valid], expected[valid], atol=2e-5, rtol=2e-5)
    assert fused.isfinite().all()
    held = torch.arange(chunk) < 2
    torch.testing.assert_close(fused_pool.cpu()[[7, 2, 9, 4, 1, 5]], pool[[7, 2, 9, 4, 1, 5]], atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(fused_pool.cpu()[3][..., held, :], pool[3][..., held, :], atol=1e-6, rtol=1e-6)
