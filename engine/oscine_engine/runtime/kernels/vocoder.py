"""What the vocoder does in slots. On a GPU `vocoder_triton` does it, fused; here is its twin in plain torch.

Channels are innermost: a signal is [branches, streams, columns, channels]. A convolution reads a signal with room on
its left for the columns before it. Who makes such a signal puts those there, from the streams' rows in a table; who
reads it leaves the columns before its stream's end in the table, for the next step.

A step runs over frames m to m + L of a stream with m frames decoded. Frame m matters to streams that start here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """B streams: rows of the tables int64 [B], frames to decode int64 [B], whether they start, and end: bool [B]."""

    slots: Tensor
    counts: Tensor
    starts: Tensor
    last: Tensor


class Entry(NamedTuple):
    """Where a table keeps `left` columns."""

    offset: int
    left: int


@dataclass(frozen=True, slots=True, eq=False)
class Bend:
    """What happens to a signal y before the next convolution, and what lies to its left, for each branch.

    scale y + wave sin(turn y)^2, each [branches, channels]; without them y where positive and slope y elsewhere.
    """

    entries: tuple[Entry, ...]
    scale: Tensor | None = None
    wave: Tensor | None = None
    turn: Tensor | None = None
    slope: float = 0.0
    facts: Tensor = field(init=False)
    """The entries, int32 [branches, 2]."""

    def __post_init__(self) -> None:
        device = None if self.scale is None else self.scale.device
        object.__setattr__(self, "facts", torch.tensor(self.entries, dtype=torch.int32, device=device))

    @property
    def room(self) -> int:
        return max(entry.left for entry in self.entries)

    def __call__(self, y: Tensor) -> Tensor:
        """y [branches, B, T, C]."""
        if self.scale is None or self.wave is None or self.turn is None:
            return torch.where(y >= 0, y, self.slope * y)
        scale, wave, turn = (part[:, None, None] for part in (self.scale, self.wave, self.turn))
        return scale * y + wave * torch.sin(turn * y).square()


@dataclass(frozen=True, slots=True, eq=False)
class Conv:
    """Convolutions side by side, one a branch, as many taps as each has.

    weight: flat, for one branch after the other [taps, outputs, inputs]. bias: float32 [branches, outputs].
    step: numbers between the windows of two output columns, `inputs` unless strided; then there is a single tap.
    entries: where the last columns of its input are kept. bend: what follows. `table` below is where both lie.
    """

    weight: Tensor
    bias: Tensor
    taps: tuple[int, ...]
    dilation: int
    inputs: int
    step: int
    room: int
    entries: tuple[Entry, ...] = ()
    bend: Bend | None = None
    facts: Tensor = field(init=False)
    """int32 [branches, 6]: taps, rows of weights before them, the entry of the input and that of the output."""

    def __post_init__(self) -> None:
        nothing = (Entry(0, 0),) * len(self.taps)
        after = nothing if self.bend is None else self.bend.entries
        begins = [sum(self.taps[:branch]) * self.outputs for branch in range(len(self.taps))]
        rows = zip(self.taps, begins, self.entries or nothing, after, strict=True)
        facts = [(taps, begin, *before, *behind) for taps, begin, before, behind in rows]
        object.__setattr__(self, "facts", torch.tensor(facts, dtype=torch.int32, device=self.weight.device))

    @property
    def outputs(self) -> int:
        return self.bias.shape[1]

    def kernel(self, branch: int) -> Tensor:
        """[taps, outputs, inputs]."""
        size, before = self.outputs * self.inputs, sum(self.taps[:branch])
        taps = self.taps[branch]
        return self.weight[before * size : (before + taps) * size].view(taps, self.outputs, self.inputs)


def convolve(
    x: Tensor, conv: Conv, table: Tensor, batch: Batch, columns: int, rate: int, residual: Tensor | None, *, raw: bool
) -> tuple[Tensor, Tensor]:
    """x [branches, B, room + columns, inputs] -> the sum with `residual` as it is, and bent with room on its left.

    The first is float32 [branches, B, columns, outputs], empty unless `raw` is asked for; the second [branches, B,
    room + columns, outputs] in the table's type, empty without a bend. residual [branches or 1, B, columns, outputs].
    rate: columns of x in a frame. If strided, x is [1, B, n, channels] and windows overlap.
    """
    if x.is_cuda:
        return _fused().convolve(x, conv, table, batch, columns, rate, residual, raw=raw)  # type: ignore[no-any-return]
    parts = []
    for branch, (taps, signal) in enumerate(zip(conv.taps, x, strict=True)):
        weight, left = conv.kernel(branch).float(), (taps - 1) * conv.dilation
        if conv.step != conv.inputs:
            windows = signal.flatten(1).unfold(1, conv.inputs, conv.step)[:, :columns]
            parts.append(F.linear(windows.to(conv.weight.dtype).float(), weight[0]))
        else:
            seen = signal[:, conv.room - left : conv.room + columns].to(conv.weight.dtype).float()
            parts.append(
                F.conv1d(seen.transpose(1, 2), weight.permute(1, 2, 0), dilation=conv.dilation).transpose(1, 2)
            )
    y = torch.stack(parts) + conv.bias[:, None, None]
    if residual is not None:
        y = y + residual
    for entry, signal in zip(conv.entries, x, strict=False):
        begin = conv.room - entry.left + batch.counts * rate
        index = begin[:, None] + torch.arange(entry.left, device=x.device)
        kept = signal.gather(1, index[:, :, None].expand(-1, -1, conv.inputs))
        table[batch.slots, entry.offset : entry.offset + entry.left * conv.inputs] = kept.flatten(1).to(table.dtype)
    bent = y.new_empty(0) if conv.bend is None else _behind(conv.bend(y), conv.bend, table, batch)
    return (y if raw else y.new_empty(0)), bent


def _behind(y: Tensor, bend: Bend, table: Tensor, batch: Batch) -> Tensor:
    """y [branches, B, T, C] behind what the table knows of the columns before, or silence where a stream starts."""
    branches, streams, columns, channels = y.shape
    out = torch.zeros(branches, streams, bend.room + columns, channels, dtype=table.dtype, device=y.device)
    out[:, :, bend.room :] = y
    for entry, signal in zip(bend.entries, out, strict=True):
        past = table[batch.slots, entry.offset : entry.offset + entry.left * channels]
        past = torch.where(batch.starts[:, None], 0, past)
        signal[:, bend.room - entry.left : bend.room] = past.view(streams, entry.left, channels)
    return out


def enter(
    x: Tensor,
    aside: Tensor,
    bend: Bend,
    table: Tensor,
    batch: Batch,
    shift: tuple[Tensor, Tensor, int] | None,
) -> tuple[Tensor, Tensor]:
    """x and `aside` [B, T, C] float32 -> their sum [1, B, T, C], and bent for every branch, with room on its left.

    shift: put one column before x, that of the first [B, C], or the second of x where a stream starts; leave the last
    one before the stream's end in the second [B, C]. The third is the columns of a frame. Then `aside` is one longer.
    """
    if x.is_cuda:
        return _fused().enter(x, aside, bend, table, batch, shift)  # type: ignore[no-any-return]
    if shift is not None:
        before, after, rate = shift
        first = torch.where(batch.starts[:, None], x[:, 1], before)
        after.copy_(x.gather(1, (batch.counts * rate - 1)[:, None, None].expand(-1, 1, x.shape[2]))[:, 0])
        x = torch.cat((first[:, None], x), dim=1)
    total = (x + aside)[None]
    return total, _behind(bend(total.expand(len(bend.entries), -1, -1, -1)), bend, table, batch)


def leave(x: Tensor, bend: Bend, table: Tensor, batch: Batch) -> Tensor:
    """The mean of the branches of x [branches, B, T, C], bent, with room on its left: [1, B, room + T, C]."""
    if x.is_cuda:
        return _fused().leave(x, bend, table, batch)  # type: ignore[no-any-return]
    return _behind(bend((x.sum(0) / len(x))[None]), bend, table, batch)


def mel_windows(mel: Tensor, taps: int) -> Tensor:
    """mel [B, T + taps - 1, C] -> float64 [B, T, taps * C]."""
    if mel.is_cuda:
        return _fused().mel_windows(mel, taps)  # type: ignore[no-any-return]
    return mel.double().unfold(1, taps, 1).transpose(2, 3).flatten(2)


def pitch_windows(y: Tensor, before: Tensor, after: Tensor, batch: Batch, taps: int) -> Tensor:
    """ELU of y [B, L + 1, C], float64, cut into windows [B, L + 1, taps * C] that end at each frame.

    before, after: [B, taps - 1, C], the columns before frame m + 1, now and at the next step. Where a stream starts
    silence lies before frame m; elsewhere frame m is not used.
    """
    if y.is_cuda:
        return _fused().pitch_windows(y, before, after, batch, taps)  # type: ignore[no-any-return]
    frames, starts = y.shape[1], batch.starts[:, None, None]
    bent = F.elu(y)
    # From frame m - taps + 1 on; where no stream starts its past ends at frame m.
    fresh = F.pad(bent, (0, 0, taps - 1, 0))
    known = torch.cat((torch.zeros_like(before[:, :1]), before, bent[:, 1:]), dim=1)
    signal = torch.where(starts, fresh, known)
    index = batch.counts[:, None] + 1 + torch.arange(taps - 1, device=y.device)
    after.copy_(signal.gather(1, index[:, :, None].expand(-1, -1, y.shape[2])))
    return signal.unfold(1, taps, 1)[:, :frames].transpose(2, 3).flatten(2)


def pitch(y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Absolute value of the linear layer of ELU of y [B, L + 1, C], all float64 -> Hz float32 [B, L + 1]."""
    if y.is_cuda:
        return _fused().pitch(y, weight, bias)  # type: ignore[no-any-return]
    return (F.elu(y) @ weight + bias).abs().float()


class Voice(NamedTuple):
    """Numbers of the excitation: sampling rate, samples a frame, amplitude, noise, the threshold of voicing in Hz."""

    rate: int
    frame: int
    alpha: float
    sigma: float
    threshold: float


def excite(
    f0: Tensor, phase: Tensor, after: Tensor, weight: Tensor, bias: Tensor, batch: Batch, voice: Voice
) -> tuple[Tensor, Tensor]:
    """Hz [B, L + 1] -> what the merged harmonics are in each frame, and how loud noise is: float32 [B, L + 1].

    phase, after: float64 [B, H], turns a sample, up to frame m and up to the last one decoded. weight [H], bias [1].
    """
    if f0.is_cuda:
        return _fused().excite(f0, phase, after, weight, bias, batch, voice)  # type: ignore[no-any-return]
    order = torch.arange(1, len(weight) + 1, device=f0.device, dtype=torch.float32)
    turns = (f0[..., None] * order / voice.rate) % 1
    turns[:, 0] = torch.where(batch.starts[:, None], turns[:, 0], 0)
    running = turns.double().cumsum(1) + torch.where(batch.starts[:, None], 0, phase)[:, None]
    after.copy_(running.gather(1, batch.counts[:, None, None].expand(-1, 1, len(weight)))[:, 0])
    voiced = (f0 > voice.threshold).float()
    sines = voice.alpha * torch.sin(running.float() * (2 * torch.pi) * float(voice.frame)) * voiced[..., None]
    return sines @ weight + bias, voiced * voice.sigma + (1 - voiced) * (voice.alpha / 3)


class Analysis(NamedTuple):
    """A centred transform: [bins, n_fft], hop, and the columns of its past that are kept."""

    matrix: Tensor
    hop: int
    kept: int

    @property
    def early(self) -> int:
        """Samples before frame m that the first new column reads."""
        return self.matrix.shape[1] // 2 - self.hop


def analyse(
    held: Tensor,
    loud: Tensor,
    noise: Tensor,
    decoded: Tensor,
    past: tuple[Tensor, Tensor],
    after: tuple[Tensor, Tensor],
    batch: Batch,
    analysis: Analysis,
    frame: int,
    dtype: torch.dtype,
) -> Tensor:
    """Spectrum of the source of frames m + 1 to m + L, behind what is kept: [1, B, kept + columns, bins] in `dtype`.

    held, loud: see `excite`. noise: float32 [n], repeated; a stream's frame m begins at decoded * frame. past, after:
    of the source [B, early + frame] and of the spectrum [B, kept, bins], float32. Signals end in their mirror image.
    """
    if held.is_cuda:
        return _fused().analyse(held, loud, noise, decoded, past, after, batch, analysis, frame, dtype)  # type: ignore[no-any-return]
    streams, frames = held.shape[0], held.shape[1] - 1
    (source_past, spectrum_past), (source_after, spectrum_after) = past, after
    size, early, hop, kept = analysis.matrix.shape[1], analysis.early, analysis.hop, analysis.kept
    index = torch.arange((frames + 1) * frame, device=held.device)
    sound = noise[(decoded[:, None] * frame + index) % len(noise)].view(streams, frames + 1, frame)
    source = torch.tanh(held[..., None] + loud[..., None] * sound).flatten(1)
    first = torch.where(
        batch.starts[:, None], torch.cat((source[:, 1 : early + 1].flip(1), source[:, :frame]), dim=1), source_past
    )
    heard = torch.cat((first, source[:, frame:]), dim=1)
    end = batch.counts * frame + early - 1
    place = torch.arange(frames * frame + size - hop, device=held.device).expand(streams, -1)
    mirror = (2 * end[:, None] - place).clamp_min(0)
    signal = heard.gather(1, torch.where(batch.last[:, None] & (place > end[:, None]), mirror, place))
    columns = signal.unfold(1, size, hop) @ analysis.matrix.t()
    half = size // 2
    edge = torch.cat((source[:, 1 : half + 1].flip(1), source[:, :half]), dim=1) @ analysis.matrix.t()
    fresh = F.pad(edge[:, None], (0, 0, kept - 1, 0))
    spectrum = torch.cat((torch.where(batch.starts[:, None, None], fresh, spectrum_past), columns), dim=1)
    width = source_past.shape[1]
    source_after.copy_(heard.gather(1, batch.counts[:, None] * frame + torch.arange(width, device=held.device)))
    index = batch.counts[:, None] * (frame // hop) + torch.arange(kept, device=held.device)
    spectrum_after.copy_(spectrum.gather(1, index[:, :, None].expand(-1, -1, spectrum.shape[2])))
    return spectrum[None].to(dtype)


class Gain(NamedTuple):
    """What samples are multiplied by: one number, and others [n] after a signal's first `skip` samples and at its end.

    Louder ones than `limit` are clipped to it.
    """

    steady: float
    head: Tensor
    tail: Tensor
    skip: int
    limit: float


def synthesise(
    bins: Tensor,
    matrix: Tensor,
    before: Tensor,
    after: Tensor,
    out: Tensor,
    batch: Batch,
    rate: int,
    loudest: float,
    gain: Gain,
) -> None:
    """Raw bins [B, N, 2 K] -> `out` [B, (N + 1) * hop]: samples, of which a stream that starts skips the first ones.

    The first half are logarithms of magnitudes, at most `loudest` after exp; the sines of the others are phases.
    matrix [2 K, n_fft]: from real and imaginary parts to windowed samples. before, after: pieces
    [B, n_fft // hop - 1, n_fft]. rate: columns a frame. Columns after that behind a stream's last frame are silent.
    """
    if bins.is_cuda:
        _fused().synthesise(bins, matrix, before, after, out, batch, rate, loudest, gain)
        return
    log, phase = bins.chunk(2, dim=2)
    magnitude, angle = log.exp().clamp_max(loudest), torch.sin(phase)
    pieces = torch.cat((magnitude * torch.cos(angle), magnitude * torch.sin(angle)), dim=2) @ matrix
    present = torch.arange(bins.shape[1], device=bins.device) <= batch.counts[:, None] * rate
    pieces = torch.where(present[:, :, None], pieces, 0)
    overlap, size = before.shape[1:]
    hop = size // (overlap + 1)
    known = torch.where(batch.starts[:, None, None], 0, before)
    joined = F.pad(torch.cat((known, pieces), dim=1), (0, 0, 0, 1))
    index = batch.counts[:, None] * rate + torch.arange(overlap, device=bins.device)
    after.copy_(joined.gather(1, index[:, :, None].expand(-1, -1, size)))
    new = bins.shape[1] + 1
    ages = range(overlap + 1)
    parts = (joined[:, overlap - age : overlap - age + new, age * hop : (age + 1) * hop] for age in ages)
    wave = torch.stack(tuple(parts)).sum(0).flatten(1)
    edge, place = len(gain.head), torch.arange(wave.shape[1], device=bins.device)
    since = place - gain.skip
    left = place - (batch.counts[:, None] * rate * hop + gain.skip - edge)
    first = batch.starts[:, None] & (since >= 0) & (since < edge)
    final = batch.last[:, None] & (left >= 0) & (left < edge)
    factor = torch.where(first, gain.head[since.clamp(0, edge - 1)], gain.steady)
    factor = torch.where(final, gain.tail[left.clamp(0, edge - 1)], factor)
    out.copy_((wave * factor).clamp(-gain.limit, gain.limit))


def _fused() -> ModuleType:
    from oscine_engine.runtime.kernels import vocoder_triton

    return vocoder_triton
