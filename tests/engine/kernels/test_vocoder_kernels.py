"""The vocoder's fused kernels against their twins in plain torch, one by one and all together."""

import numpy as np
import pytest
import torch
from torch import Tensor

from oscine_engine.checkpoint import synthetic
from oscine_engine.config import F0Config, VocoderConfig
from oscine_engine.runtime.kernels import vocoder as twin
from oscine_engine.runtime.kernels.vocoder import Analysis, Batch, Bend, Conv, Entry, Gain, Voice
from oscine_engine.vocoder import graphed
from oscine_engine.vocoder.graphed import GraphedVocoder
from oscine_engine.vocoder.network import HiFT
from oscine_engine.vocoder.spectrum import Spectrum

triton = pytest.importorskip("triton")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
TYPES = {torch.float32: 2e-5, torch.float16: 4e-3}
"""Types of what convolutions read, and how far kernel and twin may be apart."""
NAMES = (
    "convolve", "enter", "leave", "mel_windows", "pitch_windows", "pitch", "excite", "analyse", "synthesise"
)  # fmt: skip

types = pytest.mark.parametrize("dtype", TYPES)


def drawn(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def there(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(tensor.to(DEVICE, copy=True) for tensor in tensors)


def close(ours: Tensor, expected: Tensor, bound: float) -> None:
    torch.testing.assert_close(ours.double().cpu(), expected.double(), atol=2 * bound, rtol=bound)


def close_bent(ours: Tensor, expected: Tensor, bend: Bend | None, bound: float) -> None:
    """Whatever lies before the past that a branch reads is nobody's."""
    assert bend is not None
    for entry, one, other in zip(bend.entries, ours, expected, strict=True):
        close(one[:, bend.room - entry.left :], other[:, bend.room - entry.left :], bound)


def batch() -> tuple[Batch, Batch]:
    """Three streams, one of which starts and another ends: on the device and here."""
    here = (
        torch.tensor([3, 0, 2]),
        torch.tensor([3, 1, 2]),
        torch.tensor([False, True, False]),
        torch.tensor([False, False, True]),
    )
    return Batch(*there(*here)), Batch(*here)


def convolutions(dtype: torch.dtype, device: torch.device, snake: bool, inputs: int = 20, outputs: int = 24) -> Conv:
    """Three branches of 3, 7 and 5 taps, or one behind a rectifier; tables of 4000 numbers hold their pasts."""
    taps = (3, 7, 5) if snake else (5,)
    branches, dilation = len(taps), 2
    lefts = [(count - 1) * dilation for count in taps]
    before = tuple(Entry(400 * branch, left) for branch, left in enumerate(lefts))
    after = tuple(Entry(2000 + 400 * branch, 3 + branch) for branch in range(branches))
    numbers = [drawn(branches, outputs, seed=7 + part).to(device) for part in range(3)] if snake else [None] * 3
    return Conv(
        weight=(drawn(sum(taps) * outputs * inputs, seed=1) / inputs).to(device, dtype),
        bias=drawn(branches, outputs, seed=2).to(device),
        taps=taps,
        dilation=dilation,
        inputs=inputs,
        step=inputs,
        room=max(lefts),
        entries=before,
        bend=Bend(after, *numbers, slope=0.1),
    )


@types
@pytest.mark.parametrize("snake", [True, False])
@pytest.mark.parametrize("added", [0, 1, 3])
def test_convolutions_side_by_side(dtype: torch.dtype, snake: bool, added: int) -> None:
    from oscine_engine.runtime.kernels import vocoder_triton

    rate, columns = 40, 121
    conv, plain = (convolutions(dtype, device, snake) for device in (DEVICE, torch.device("cpu")))
    branches = len(conv.taps)
    x = drawn(branches, 3, conv.room + columns, conv.inputs, seed=3, dtype=dtype)
    residual = drawn(min(added, branches), 3, columns, conv.outputs, seed=4) if added else None
    table = drawn(4, 4000, seed=5, dtype=dtype)
    on, here = batch()
    (moved,) = there(table)
    beside = None if residual is None else residual.to(DEVICE)
    ours = vocoder_triton.convolve(x.to(DEVICE), conv, moved, on, columns, rate, beside, raw=bool(added))
    expected = twin.convolve(x, plain, table, here, columns, rate, residual, raw=bool(added))
    for one, other in zip(ours, expected, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
    close(ours[0], expected[0], TYPES[dtype])
    close_bent(ours[1], expected[1], plain.bend, TYPES[dtype])
    close(moved, table, 0)


@types
def test_convolution_with_a_stride(dtype: torch.dtype) -> None:
    from oscine_engine.runtime.kernels import vocoder_triton

    bend, on, here = convolutions(dtype, DEVICE, snake=False).bend, *batch()
    weight, bias = drawn(24 * 108, seed=1, dtype=dtype) / 10, drawn(1, 24, seed=2)
    table = drawn(4, 4000, seed=5, dtype=dtype)
    x = drawn(1, 3, 75, 18, seed=3, dtype=dtype)
    (moved,) = there(table)
    conv, plain = (
        Conv(weight.to(device), bias.to(device), (1,), 1, 108, 54, room=0, bend=bend)
        for device in (DEVICE, torch.device("cpu"))
    )
    ours = vocoder_triton.convolve(x.to(DEVICE)[:, :, 12:], conv, moved, on, 20, 5, None, raw=True)
    expected = twin.convolve(x[:, :, 12:], plain, table, here, 20, 5, None, raw=True)
    for one, other in zip(ours, expected, strict=True):
        close(one, other, TYPES[dtype])


@types
@pytest.mark.parametrize("shifted", [True, False])
def test_entering_and_leaving_a_stage(dtype: torch.dtype, shifted: bool) -> None:
    from oscine_engine.runtime.kernels import vocoder_triton

    bends = [convolutions(dtype, device, snake=True).bend for device in (DEVICE, torch.device("cpu"))]
    on, here = batch()
    columns = 120 + shifted
    x, aside, table = drawn(3, 120, 24, seed=1), drawn(3, columns, 24, seed=2), drawn(4, 4000, seed=3, dtype=dtype)
    first, kept = drawn(3, 24, seed=4), torch.zeros(3, 24)
    moved = there(kept)[0]
    ours = vocoder_triton.enter(
        *there(x, aside), bends[0], table.to(DEVICE), on, (first.to(DEVICE), moved, 40) if shifted else None
    )
    expected = twin.enter(x, aside, bends[1], table, here, (first, kept, 40) if shifted else None)
    close(ours[0], expected[0], 2e-6)
    close_bent(ours[1], expected[1], bends[1], TYPES[dtype])
    close(moved, kept, 0)
    branches = drawn(3, 3, columns, 24, seed=6)
    bend = Bend((Entry(500, 6),), slope=0.1)
    gone = vocoder_triton.leave(branches.to(DEVICE), bend, table.to(DEVICE), on)
    close(gone, twin.leave(branches, bend, table, here), TYPES[dtype])


def test_windows_of_the_pitch() -> None:
    from oscine_engine.runtime.kernels import vocoder_triton

    on, here = batch()
    mel = drawn(3, 8, 10, seed=1)
    assert torch.equal(vocoder_triton.mel_windows(mel.to(DEVICE), 4).cpu(), twin.mel_windows(mel, 4))
    y, before, after = (
        drawn(3, 5, 20, seed=2).double(),
        drawn(3, 2, 20, seed=3).double(),
        torch.zeros(3, 2, 20).double(),
    )
    (kept,) = there(after)
    ours = vocoder_triton.pitch_windows(*there(y, before), kept, on, 3)
    expected = twin.pitch_windows(y, before, after, here, 3)
    # Where no stream starts, windows that reach before the past are not used.
    close(ours[:, 1:], expected[:, 1:], 1e-14)
    close(ours[1], expected[1], 1e-14)
    close(kept, after, 1e-14)
    weight, bias = drawn(20, seed=4).double(), drawn(1, seed=5).double()
    close(vocoder_triton.pitch(*there(y, weight, bias)), twin.pitch(y, weight, bias), 1e-7)


def test_the_excitation_and_its_spectrum() -> None:
    from oscine_engine.runtime.kernels import vocoder_triton

    on, here = batch()
    frames, frame, spectrum = 3, 96, Spectrum(16, 4)
    f0 = torch.tensor([[100.0, 300.0, 5.0, 220.0], [181.0, 182.0, 0.0, 4.0], [7.0, 8.0, 9000.0, 1.0]])
    phase, kept = drawn(3, 9, seed=1).double().abs(), torch.zeros(3, 9).double()
    (moved,) = there(kept)
    weight, bias, voice = drawn(9, seed=2), drawn(1, seed=3), Voice(24000, frame, 0.1, 0.003, 10.0)
    ours = vocoder_triton.excite(*there(f0, phase), moved, *there(weight, bias), on, voice)
    held, loud = twin.excite(f0, phase, kept, weight, bias, here, voice)
    # What no one hears of frame m: it has sounded already, unless the stream starts.
    close(ours[0][:, 1:], held[:, 1:], 1e-6)
    close(ours[0][1], held[1], 1e-6)
    close(ours[1], loud, 1e-7)
    close(moved, kept, 1e-15)
    analysis = Analysis(spectrum.analysis, 4, 15)
    past = drawn(3, 4 + frame, seed=4), drawn(3, 15, 18, seed=5)
    noise, decoded = drawn(250, seed=6), torch.tensor([7, 0, 2])
    after = torch.zeros(3, 4 + frame), torch.zeros(3, 15, 18)
    behind = there(*after)
    there_analysis = analysis._replace(matrix=analysis.matrix.to(DEVICE))
    columns = vocoder_triton.analyse(
        *there(held, 100 * loud, noise, decoded), there(*past), behind, on, there_analysis, frame, torch.float32
    )
    expected = twin.analyse(held, 100 * loud, noise, decoded, past, after, here, analysis, frame, torch.float32)
    assert expected.shape == (1, 3, 15 + frames * frame // 4, 18)
    for one, other in zip((columns, *behind), (expected, *after), strict=True):
        close(one, other, 3e-6)


def test_from_bins_to_samples() -> None:
    from oscine_engine.runtime.kernels import vocoder_triton

    on, here = batch()
    bins, before, after = 3 * drawn(3, 73, 18, seed=1), drawn(3, 3, 16, seed=2), torch.zeros(3, 3, 16)
    matrix, out = Spectrum(16, 4).synthesis, torch.zeros(3, 74 * 4)
    bins[2, 5, 3] = torch.nan
    head, tail = drawn(4, seed=3), drawn(4, seed=4)
    kept, wave = there(after, out)
    gains = [Gain(0.7, head.to(device), tail.to(device), skip=8, limit=3.0) for device in (DEVICE, torch.device("cpu"))]
    vocoder_triton.synthesise(*there(bins, matrix, before), kept, wave, on, 24, 100.0, gains[0])
    twin.synthesise(bins, matrix, before, after, out, here, 24, 100.0, gains[1])
    assert out.abs().nan_to_num(0).max() == 3.0
    # What is not a number must come through, and no further than its window reaches.
    assert out[2].isnan().nonzero().flatten().tolist() == list(range(20, 36))
    torch.testing.assert_close(wave.cpu(), out, atol=6e-6, rtol=3e-6, equal_nan=True)
    close(kept, after, 3e-6)


@pytest.mark.slow
def test_a_whole_step_is_that_of_the_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    from oscine_engine.runtime.kernels import vocoder_triton

    config = VocoderConfig(
        base_channels=32,
        upsample_rates=(2, 3, 2),
        upsample_kernel_sizes=(4, 7, 4),
        f0_predictor=F0Config(cond_channels=24),
    )
    network = HiFT(config).eval().requires_grad_(False)
    synthetic._draw(network, torch.Generator().manual_seed(1))
    synthetic._settle(network)
    noise, mel = torch.rand(1, 4800, 9), drawn(7, 80, seed=2) - 5
    monkeypatch.setattr(graphed, "LENGTHS", (1, 2))

    def heard(device: torch.device) -> list[np.ndarray]:
        runner = GraphedVocoder(network.to(device), noise, max_streams=2)
        first, second = runner.open(), runner.open()
        parts = [runner.step([(first, mel[:5], False)])]
        parts.append(runner.step([(first, mel[5:], True), (second, mel[:4], True)]))
        return [samples for part in parts for samples in part]

    expected = heard(torch.device("cpu"))
    if DEVICE.type == "cpu":
        for name in NAMES:
            monkeypatch.setattr(twin, name, getattr(vocoder_triton, name))
    for ours, plain in zip(heard(DEVICE), expected, strict=True):
        assert len(plain) > 0
        np.testing.assert_allclose(ours, plain, atol=10 * TYPES[torch.float32], rtol=0)
