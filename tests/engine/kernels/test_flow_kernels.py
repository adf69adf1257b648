"""The flow's fused kernels against their twins in plain torch."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from oscine_engine.flow.slotted import Batch
from oscine_engine.runtime.kernels import flow as twin

triton = pytest.importorskip("triton")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
TYPES = {torch.float32: 2e-5, torch.float16: 4e-3}
"""Types of weights and activations, and how far kernel and twin, which round at other places, may be apart."""
if DEVICE.type == "cuda":
    # Triton's interpreter multiplies the bits of a bfloat16 as if they were an integer.
    TYPES[torch.bfloat16] = 4e-2

types = pytest.mark.parametrize("dtype", TYPES)


def drawn(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def close(ours: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    torch.testing.assert_close(ours.float().cpu(), expected.float(), atol=2 * TYPES[dtype], rtol=TYPES[dtype])


@types
def test_input_rows(dtype: torch.dtype) -> None:
    from oscine_engine.runtime.kernels import flow_triton

    state, static = drawn(4, 50, 80, seed=1), drawn(4, 2, 50, 72, seed=2, dtype=dtype)
    weight, slots = drawn(72, 80, seed=3, dtype=dtype) / 9, torch.tensor([3, 0, 2])
    ours = flow_triton.embed(*(part.to(DEVICE) for part in (state, static, weight, slots)))
    close(ours, twin.embed(state, static.float(), weight.float(), slots), dtype)


@types
@pytest.mark.parametrize(
    ("dim", "groups", "taps", "chunk"),
    [(8, 2, 31, 50), (48, 3, 5, 7), pytest.param(32, 8, 31, 50, marks=pytest.mark.slow)],
)
def test_position_convolutions(dim: int, groups: int, taps: int, chunk: int, dtype: torch.dtype) -> None:
    from oscine_engine.runtime.kernels import flow_triton

    numbers = [
        (drawn(dim, dim // groups, taps, seed=n, dtype=dtype) / taps, drawn(dim, seed=9, dtype=dtype)) for n in (1, 2)
    ]
    convs = [twin.position_weights(weight.to(DEVICE), bias.to(DEVICE), groups) for weight, bias in numbers]
    x, table = drawn(4, chunk, dim, seed=3, dtype=dtype), drawn(5, 2, 3, 2, taps - 1, dim, seed=4, dtype=dtype)
    slots, steps = torch.tensor([4, 1]), torch.tensor([2, 0])
    moved, places = table.to(DEVICE, copy=True), (slots.to(DEVICE), steps.to(DEVICE))
    middle = flow_triton.position(x.to(DEVICE), moved, *places, 0, convs[0], residual=None)
    out = flow_triton.position(middle, moved, *places, 1, convs[1], residual=x.to(DEVICE))
    plain = [twin.position_weights(weight.float(), bias.float(), groups) for weight, bias in numbers]
    precise = table.to(torch.float32, copy=True)
    close(out.flatten(0, 1), twin.position(x.float(), precise, slots, steps, plain), dtype)
    close(moved, precise, dtype)
    assert out.dtype == torch.float32


def test_tails_move_on() -> None:
    conv = twin.position_weights(drawn(32, 4, 31, seed=1) / 31, drawn(32, seed=2), 8)
    x, table = drawn(2, 50, 32, seed=3), drawn(3, 2, 2, 2, 30, 32, seed=4)
    before = table.clone()
    twin.position(x, table, torch.tensor([1]), torch.tensor([1]), [conv, conv])
    torch.testing.assert_close(table[1, 0, 1], x[:, 20:])
    before[1, :, 1] = table[1, :, 1]
    assert torch.equal(table, before)


@types
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("dim", [32, 40])
def test_gate_norm_and_modulation(dim: int, parts: int, dtype: torch.dtype) -> None:
    from oscine_engine.runtime.kernels import flow_triton

    x, y, bias = drawn(2 * 2 * 5, dim, seed=1) + 3, drawn(parts, 20, dim, seed=2), drawn(dim, seed=4, dtype=dtype)
    # As the network gives them: rows of a larger table, not next to each other.
    table, steps = drawn(4, 3, dim, seed=3, dtype=dtype), torch.tensor([3, 1])
    moved, there = x.to(DEVICE, copy=True), steps.to(DEVICE)
    gate, shift, scale = table.to(DEVICE).unbind(1)
    plain = flow_triton.gate_norm_modulate(moved, None, None, None, shift, scale, there, 1e-6)
    torch.testing.assert_close(moved.cpu(), x, atol=0, rtol=0)
    fused = flow_triton.gate_norm_modulate(moved, y.to(DEVICE), bias.to(DEVICE), gate, shift, scale, there, 1e-6)
    assert plain.dtype == fused.dtype == dtype
    gate, shift, scale = table.float().unbind(1)
    close(plain, twin.norm_modulate(x, shift, scale, steps, 1e-6), dtype)
    close(fused, twin.gate_norm_modulate(x, y, bias, gate, shift, scale, steps, 1e-6), dtype)
    torch.testing.assert_close(moved.cpu(), x, atol=1e-5, rtol=1e-5)


@types
@pytest.mark.parametrize(("rows", "outputs", "inputs"), [(100, 96, 1024), (64, 32, 128), (3, 64, 512)])
def test_linear_layers_of_few_rows(rows: int, outputs: int, inputs: int, dtype: torch.dtype) -> None:
    from oscine_engine.runtime.kernels import flow_triton

    x, weight = drawn(rows, inputs, seed=1, dtype=dtype), drawn(outputs, inputs, seed=2, dtype=dtype) / inputs**0.5
    bias = drawn(outputs, seed=3, dtype=dtype)
    there, plain = [part.to(DEVICE) for part in (x, weight, bias)], [part.float() for part in (x, weight, bias)]
    assert flow_triton.divides(weight)
    close(flow_triton.linear(*there, gelu=False), F.linear(*plain), dtype)
    close(flow_triton.linear(*there, gelu=True), twin.linear_gelu(*plain), dtype)
    parts = flow_triton.product(*there[:2])
    assert parts.dtype == torch.float32 and len(parts) == max(1, inputs // 512)
    close(parts.sum(0), twin.product(*plain[:2]).sum(0), dtype)


def test_sizes_that_tiles_do_not_fill_are_left_to_torch() -> None:
    from oscine_engine.runtime.kernels import flow_triton

    half = {"dtype": torch.float16}
    assert flow_triton.suits(torch.zeros(100, 1024, **half), torch.zeros(3072, 1024, **half))
    assert not flow_triton.suits(torch.zeros(101, 1024, **half), torch.zeros(3072, 1024, **half))
    for outputs, inputs in ((3088, 1024), (32, 96), (32, 768)):
        assert not flow_triton.suits(torch.zeros(2, inputs, **half), torch.zeros(outputs, inputs, **half))


@types
@pytest.mark.parametrize("splits", [1, 3, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("heads", "width", "chunk"), [(3, 8, 20), (2, 64, 6), pytest.param(3, 8, 50, marks=pytest.mark.slow)]
)
def test_attention_over_pages(heads: int, width: int, chunk: int, splits: int, dtype: torch.dtype) -> None:
    """Streams with much, little and no past, a short last chunk, and a row that only fills up the batch."""
    from oscine_engine.runtime.kernels import flow_triton

    inner, layers, steps = heads * width, 2, 3
    pool = drawn(12, steps, layers, 2, 2, chunk, inner, seed=1, dtype=dtype)
    angles = drawn(chunk * 6, width // 2, seed=2)
    batch = Batch(
        slots=torch.tensor([3, 1, 0, 5]),
        steps=torch.tensor([2, 0, 1, 0]),
        starts=torch.tensor([4 * chunk, 0, chunk, 0], dtype=torch.int32),
        frames=torch.tensor([chunk, chunk, 2, 0], dtype=torch.int32),
        pages=torch.tensor([[7, 2, 9, 4, 1, 0], [5, 0, 0, 0, 0, 0], [7, 3, 0, 0, 0, 0], [0] * 6], dtype=torch.int32),
    )
    qkv = drawn(4 * 2 * chunk, 3 * inner, seed=3, dtype=dtype)
    there, fused_pool = Batch(*(part.to(DEVICE) for part in batch)), pool.to(DEVICE, copy=True)
    turn = angles.cos(), angles.sin()
    fused = flow_triton.attend(qkv.to(DEVICE), *(part.to(DEVICE) for part in turn), fused_pool, 1, heads, there, splits)
    expected_pool = pool.to(torch.float32, copy=True)
    expected = twin.attend(qkv.float(), *turn, expected_pool, 1, heads, batch, splits)
    valid = (torch.arange(chunk) < batch.frames[:, None, None]).expand(-1, 2, -1).flatten()
    close(fused.cpu()[valid], expected[valid], dtype)
    assert fused.isfinite().all()
    held = [7, 2, 9, 4, 1, 5]
    close(fused_pool[held], expected_pool[held], dtype)
    close(fused_pool[3][..., :2, :], expected_pool[3][..., :2, :], dtype)
    # Nothing else was written.
    assert torch.equal(fused_pool.cpu()[[0, 6, 8, 10, 11]], pool[[0, 6, 8, 10, 11]])


@pytest.mark.parametrize("splits", [1, 3])
def test_attention_over_pages_of_eight_bits(splits: int) -> None:
    """What is kept is converted where it is written and read; numbers that 8 bits hold, since Triton's interpreter
    rounds others wrongly."""
    from oscine_engine.runtime.kernels import flow_triton

    heads, width, chunk = 2, 16, 10
    pool = drawn(5, 1, 2, 2, 2, chunk, heads * width, seed=1).to(torch.float8_e4m3fn)
    turn = torch.ones(chunk * 4, width // 2), torch.zeros(chunk * 4, width // 2)
    batch = Batch(
        slots=torch.tensor([0]),
        steps=torch.tensor([0]),
        starts=torch.tensor([3 * chunk], dtype=torch.int32),
        frames=torch.tensor([chunk], dtype=torch.int32),
        pages=torch.tensor([[4, 0, 2, 3]], dtype=torch.int32),
    )
    qkv = drawn(2 * chunk, 3 * heads * width, seed=3).to(torch.float8_e4m3fn).to(torch.float16)
    there, fused_pool = Batch(*(part.to(DEVICE) for part in batch)), pool.to(DEVICE, copy=True)
    fused = flow_triton.attend(qkv.to(DEVICE), *(part.to(DEVICE) for part in turn), fused_pool, 1, heads, there, splits)
    kept, exact = pool.clone(), pool.float()
    expected = twin.attend(qkv.float(), *turn, exact, 1, heads, batch, splits)
    close(fused, expected, torch.float16)
    close(twin.attend(qkv, *turn, kept, 1, heads, batch, splits), expected, torch.float16)
    assert torch.equal(fused_pool.cpu().float(), exact) and torch.equal(kept.float(), exact)
    assert not torch.equal(exact[3], pool[3].float())


@pytest.mark.parametrize("splits", [1, 4])
def test_a_key_that_is_no_number_shows(splits: int) -> None:
    from oscine_engine.runtime.kernels import flow_triton

    pool = drawn(4, 1, 1, 2, 2, 6, 16, seed=1).to(DEVICE)
    pool[2] = torch.nan
    batch = Batch(
        slots=torch.tensor([0]),
        steps=torch.tensor([0]),
        starts=torch.tensor([18], dtype=torch.int32),
        frames=torch.tensor([6], dtype=torch.int32),
        pages=torch.tensor([[0, 1, 2, 3]], dtype=torch.int32),
    )
    there, angles = Batch(*(part.to(DEVICE) for part in batch)), drawn(24, 8, seed=2).to(DEVICE)
    qkv = drawn(12, 48, seed=3).to(DEVICE)
    assert flow_triton.attend(qkv, angles, angles, pool, 0, 1, there, splits).isnan().all()


@types
def test_the_euler_step(dtype: torch.dtype) -> None:
    from oscine_engine.runtime.kernels import flow_triton

    state, velocity = drawn(4, 50, 80, seed=1), drawn(3 * 2 * 50, 80, seed=2, dtype=dtype)
    slots, steps, lengths = torch.tensor([3, 0, 2]), torch.tensor([1, 0, 1]), torch.tensor([0.2, 0.8])
    moved, out, expected = state.to(DEVICE, copy=True), torch.zeros(3, 50, 80, device=DEVICE), torch.zeros(3, 50, 80)
    there = (part.to(DEVICE) for part in (velocity, slots, steps, lengths))
    flow_triton.advance(moved, *there, 0.7, out)
    before = state.clone()
    twin.advance(state, velocity, slots, steps, lengths, 0.7, expected)
    torch.testing.assert_close(out.cpu(), expected)
    torch.testing.assert_close(moved.cpu(), state)
    assert torch.equal(state[1], before[1]) and not torch.equal(state[3], before[3])
