"""The kernels of `vocoder`, for a GPU. See there for what each does."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from oscine_engine.runtime.kernels.vocoder import Analysis, Batch, Bend, Conv, Gain, Voice

_PIECE = 512
"""Numbers that a program copies at once between a table and a signal."""
_TILE = (64, 64, 4)
"""Columns and outputs of a convolution's tile, and warps: one for all, since every kernel takes a second to compile."""
_DEPTH = {torch.float32: (32, 3), torch.float16: (64, 4), torch.bfloat16: (64, 4)}
"""Inputs of a tile, and how many tiles are on their way at once."""
_STRETCH = 64
"""Columns of a program of the other kernels."""


def _side(size: int) -> int:
    return max(16, int(triton.next_power_of_2(size)))


@triton.jit
def _bent(y, scale, wave, turn, slope, at, inside, SNAKE: tl.constexpr):
    if SNAKE:
        s = tl.sin(tl.load(turn + at, inside, 0.0) * y)
        return tl.load(scale + at, inside, 0.0) * y + tl.load(wave + at, inside, 0.0) * s * s
    else:
        return tl.where(y >= 0, y, slope * y)


@triton.jit
def _restore(signal, table, amount, silent, share, shares, PIECE: tl.constexpr):
    """Put `amount` numbers of a table's row before a signal, or silence; each program its share."""
    for at in range(share * PIECE, amount, shares * PIECE):
        places = at + tl.arange(0, PIECE)
        inside = places < amount
        tl.store(signal + places, tl.load(table + places, inside & (silent == 0), 0.0), inside)


# What differs from step to step must not make for kernels of its own, each of which takes a second to compile.
_MOVING = ("branches", "streams", "columns", "x_columns", "shared", "table_row", "rate", "dilation", "room", "after")


@triton.jit(do_not_specialize=_MOVING)
def _conv_kernel(
    x, weight, bias, residual, raw, bent, table, slots, counts, starts, facts, scale, wave, turn, slope,
    branches, streams, columns, x_columns, shared, table_row, rate, dilation, room, after,
    INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, UNIT: tl.constexpr, STEP: tl.constexpr, RESIDUAL: tl.constexpr,
    RAW: tl.constexpr, BEND: tl.constexpr, SNAKE: tl.constexpr, KEEP: tl.constexpr, TILE: tl.constexpr,
    WIDE: tl.constexpr, DEPTH: tl.constexpr, PIECE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    # The last branch has the most taps, so its programs go first.
    branch, stream = branches - 1 - tl.program_id(2) // streams, tl.program_id(2) % streams
    pair = (branch * streams + stream).to(tl.int64)
    fact = facts + branch * 6
    taps, begin = tl.load(fact), tl.load(fact + 1)
    lines = tl.program_id(0) * TILE + tl.arange(0, TILE)
    wanted = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    depth = tl.arange(0, DEPTH)
    present, real = lines < columns, wanted < OUTPUTS
    signal = x + pair * x_columns * UNIT
    left = signal + (lines + room - (taps - 1) * dilation)[:, None] * STEP + depth[None, :]
    # Counted in rows of inputs, so that the compiler sees how far they are aligned.
    right = weight + (begin + wanted)[None, :] * INPUTS + depth[:, None]
    total = tl.zeros((TILE, WIDE), tl.float32)
    CHUNKS: tl.constexpr = (INPUTS + DEPTH - 1) // DEPTH
    for turn_of in range(0, taps * CHUNKS):
        tap, start = turn_of // CHUNKS, (turn_of % CHUNKS) * DEPTH
        if INPUTS % DEPTH == 0:
            a = tl.load(left + tap * dilation * INPUTS + start, present[:, None], 0.0)
            b = tl.load(right + tap * OUTPUTS * INPUTS + start, real[None, :], 0.0)
        else:
            known = depth < INPUTS - start
            a = tl.load(left + tap * dilation * INPUTS + start, present[:, None] & known[None, :], 0.0)
            b = tl.load(right + tap * OUTPUTS * INPUTS + start, real[None, :] & known[:, None], 0.0)
        total = tl.dot(a.to(b.dtype), b, total, input_precision=PRECISION)
    held = present[:, None] & real[None, :]
    at = branch * OUTPUTS + wanted
    total += tl.load(bias + at, real, 0.0)[None, :]
    where = lines[:, None] * OUTPUTS + wanted[None, :]
    if RESIDUAL:
        before = residual + ((1 - shared) * branch * streams + stream).to(tl.int64) * columns * OUTPUTS
        total += tl.load(before + where, held, 0.0)
    if RAW:
        tl.store(raw + pair * columns * OUTPUTS + where, total, held)
    share = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    shares = tl.num_programs(0) * tl.num_programs(1)
    row = table + tl.load(slots + stream).to(tl.int64) * table_row
    if BEND:
        y = _bent(total, scale, wave, turn, slope, at[None, :], real[None, :], SNAKE)
        to = bent + pair * (after + columns) * OUTPUTS
        tl.store(to + after * OUTPUTS + where, y.to(bent.dtype.element_ty), held)
        known, back = tl.load(fact + 4), tl.load(fact + 5)
        silent = tl.load(starts + stream).to(tl.int32)
        _restore(to + (after - back) * OUTPUTS, row + known, back * OUTPUTS, silent, share, shares, PIECE)
    if KEEP:
        keep, back = tl.load(fact + 2), tl.load(fact + 3)
        source = signal + (room - back + tl.load(counts + stream).to(tl.int32) * rate) * INPUTS
        for at_ in range(share * PIECE, back * INPUTS, shares * PIECE):
            places = at_ + tl.arange(0, PIECE)
            inside = places < back * INPUTS
            tl.store(row + keep + places, tl.load(source + places, inside, 0.0).to(table.dtype.element_ty), inside)


def convolve(
    x: Tensor, conv: Conv, table: Tensor, batch: Batch, columns: int, rate: int, residual: Tensor | None, *, raw: bool
) -> tuple[Tensor, Tensor]:
    """As `vocoder.convolve`."""
    branches, streams, outputs, bend = len(conv.taps), len(batch.slots), conv.outputs, conv.bend
    plain = torch.empty((branches, streams, columns, outputs) if raw else (0,), dtype=torch.float32, device=x.device)
    room = 0 if bend is None else bend.room
    shape = (0,) if bend is None else (branches, streams, room + columns, outputs)
    bent = torch.empty(shape, dtype=table.dtype, device=x.device)
    snake = bend is not None and bend.scale is not None
    shapes = (bend.scale, bend.wave, bend.turn) if bend is not None and snake else (conv.bias,) * 3
    lines, wide, warps = _TILE[0], min(_TILE[1], _side(outputs)), _TILE[2]
    # Float32 as a sum of three products: TF32 alone rounds towards zero, which adds up over forty layers.
    depth, stages = _DEPTH[conv.weight.dtype]
    grid = (triton.cdiv(columns, lines), triton.cdiv(outputs, wide), branches * streams)
    _conv_kernel[grid](
        x, conv.weight, conv.bias, plain if residual is None else residual, plain, bent, table,
        batch.slots, batch.counts, batch.starts, conv.facts,
        *shapes, 0.0 if bend is None else bend.slope,
        branches, streams, columns, x.stride(1) // x.shape[3], int(residual is not None and len(residual) == 1),
        table.stride(0), rate, conv.dilation, conv.room, room,
        INPUTS=conv.inputs, OUTPUTS=outputs, UNIT=x.shape[3], STEP=conv.step, RESIDUAL=residual is not None, RAW=raw,
        BEND=bend is not None, SNAKE=snake, KEEP=bool(conv.entries), TILE=lines, WIDE=wide,
        DEPTH=min(depth, _side(conv.inputs)), PIECE=_PIECE, PRECISION="tf32x3",
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return plain, bent


@triton.jit(do_not_specialize=("before_row", "after_row", "streams", "columns", "table_row", "rate"))
def _enter_kernel(
    x, aside, total, bent, table, slots, counts, starts, entries, scale, wave, turn, before, after, before_row,
    after_row, streams, columns, table_row, rate,
    CHANNELS: tl.constexpr, NEXT: tl.constexpr, SHIFT: tl.constexpr, TILE: tl.constexpr,
    WIDE: tl.constexpr, PIECE: tl.constexpr,
):  # fmt: skip
    stream, branch = tl.program_id(1), tl.program_id(2)
    lines, channels = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, WIDE)
    real = channels < CHANNELS
    held = (lines < columns)[:, None] & real[None, :]
    silent = tl.load(starts + stream).to(tl.int32)
    wide_stream = stream.to(tl.int64)
    signal = x + wide_stream * (columns - SHIFT) * CHANNELS
    where = lines[:, None] * CHANNELS + channels[None, :]
    value = tl.load(signal + where - SHIFT * CHANNELS, held & (lines >= SHIFT)[:, None], 0.0)
    if SHIFT:
        known = tl.load(before + stream * before_row + channels, real & (silent == 0), 0.0)
        mirror = tl.load(signal + CHANNELS + channels, real & (silent != 0), 0.0)
        value = tl.where((lines == 0)[:, None], (known + mirror)[None, :], value)
        if (branch == 0) & (tl.program_id(0) == 0):
            end = tl.load(counts + stream).to(tl.int32) * rate - 1
            tl.store(
                after + stream * after_row + channels, tl.load(signal + end * CHANNELS + channels, real, 0.0), real
            )
    value += tl.load(aside + wide_stream * columns * CHANNELS + where, held, 0.0)
    if branch == 0:
        tl.store(total + wide_stream * columns * CHANNELS + where, value, held)
    y = _bent(value, scale, wave, turn, 0.0, branch * CHANNELS + channels[None, :], real[None, :], True)
    to = bent + (branch * streams + stream).to(tl.int64) * (NEXT + columns) * CHANNELS
    tl.store(to + NEXT * CHANNELS + where, y.to(bent.dtype.element_ty), held)
    offset, back = tl.load(entries + branch * 2), tl.load(entries + branch * 2 + 1)
    row = table + tl.load(slots + stream).to(tl.int64) * table_row + offset
    start = to + (NEXT - back) * CHANNELS
    _restore(start, row, back * CHANNELS, silent, tl.program_id(0), tl.num_programs(0), PIECE)


def enter(
    x: Tensor, aside: Tensor, bend: Bend, table: Tensor, batch: Batch, shift: tuple[Tensor, Tensor, int] | None
) -> tuple[Tensor, Tensor]:
    """As `vocoder.enter`."""
    streams, columns, channels = aside.shape
    branches, room = len(bend.entries), bend.room
    total = torch.empty(1, streams, columns, channels, dtype=torch.float32, device=x.device)
    bent = torch.empty(branches, streams, room + columns, channels, dtype=table.dtype, device=x.device)
    before, after, rate = (x, x, 0) if shift is None else shift
    _enter_kernel[(triton.cdiv(columns, _STRETCH), streams, branches)](
        x, aside, total, bent, table, batch.slots, batch.counts, batch.starts, bend.facts, bend.scale, bend.wave,
        bend.turn, before, after, before.stride(0), after.stride(0), streams, columns, table.stride(0), rate,
        CHANNELS=channels, NEXT=room, SHIFT=int(shift is not None), TILE=_STRETCH,
        WIDE=_side(channels), PIECE=_PIECE, num_warps=8,
    )  # fmt: skip
    return total, bent


@triton.jit(do_not_specialize=("streams", "columns", "table_row", "offset"))
def _leave_kernel(
    x, bent, table, slots, starts, slope, streams, columns, table_row, offset,
    CHANNELS: tl.constexpr, NEXT: tl.constexpr, BRANCHES: tl.constexpr, TILE: tl.constexpr, WIDE: tl.constexpr,
    PIECE: tl.constexpr,
):  # fmt: skip
    stream = tl.program_id(1)
    lines, channels = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, WIDE)
    held = (lines < columns)[:, None] & (channels < CHANNELS)[None, :]
    where = lines[:, None] * CHANNELS + channels[None, :]
    value = tl.zeros((TILE, WIDE), tl.float32)
    for branch in tl.static_range(BRANCHES):
        signal = x + (branch * streams + stream).to(tl.int64) * columns * CHANNELS
        value += tl.load(signal + where, held, 0.0)
    value = value / BRANCHES
    value = tl.where(value >= 0, value, slope * value)
    to = bent + stream.to(tl.int64) * (NEXT + columns) * CHANNELS
    tl.store(to + NEXT * CHANNELS + where, value.to(bent.dtype.element_ty), held)
    row = table + tl.load(slots + stream).to(tl.int64) * table_row + offset
    silent = tl.load(starts + stream).to(tl.int32)
    _restore(to, row, NEXT * CHANNELS, silent, tl.program_id(0), tl.num_programs(0), PIECE)


def leave(x: Tensor, bend: Bend, table: Tensor, batch: Batch) -> Tensor:
    """As `vocoder.leave`."""
    branches, streams, columns, channels = x.shape
    bent = torch.empty(1, streams, bend.room + columns, channels, dtype=table.dtype, device=x.device)
    _leave_kernel[(triton.cdiv(columns, _STRETCH), streams)](
        x, bent, table, batch.slots, batch.starts, bend.slope, streams, columns, table.stride(0),
        bend.entries[0].offset, CHANNELS=channels, NEXT=bend.room, BRANCHES=branches, TILE=_STRETCH,
        WIDE=_side(channels), PIECE=_PIECE, num_warps=8,
    )  # fmt: skip
    return bent


@triton.jit(do_not_specialize=("columns", "frames"))
def _mel_kernel(mel, out, columns, frames, CHANNELS: tl.constexpr, TAPS: tl.constexpr, WIDE: tl.constexpr):
    frame, stream = tl.program_id(0), tl.program_id(1)
    places = tl.arange(0, WIDE)
    inside = places < TAPS * CHANNELS
    value = tl.load(mel + (stream * columns + frame) * CHANNELS + places, inside, 0.0)
    tl.store(out + (stream * frames + frame) * TAPS * CHANNELS + places, value.to(tl.float64), inside)


def mel_windows(mel: Tensor, taps: int) -> Tensor:
    """As `vocoder.mel_windows`."""
    streams, columns, channels = mel.shape
    frames = columns - taps + 1
    out = torch.empty(streams, frames, taps * channels, dtype=torch.float64, device=mel.device)
    _mel_kernel[(frames, streams)](
        mel, out, columns, frames, CHANNELS=channels, TAPS=taps, WIDE=_side(taps * channels), num_warps=4
    )
    return out


@triton.jit
def _elu(y):
    return tl.where(y > 0, y, tl.exp(tl.where(y > 0, 0.0, y)) - 1)


@triton.jit
def _pitch_column(y, before, column, silent, channels, inside, CHANNELS: tl.constexpr, TAPS: tl.constexpr):
    """ELU of column `column` of y, counted from frame m on; of the past where it lies before."""
    fresh = (column >= 1 - silent) & (column >= 0)
    old = (silent == 0) & (column <= 0) & (column > 1 - TAPS)
    now = tl.load(y + column * CHANNELS + channels, inside & fresh, 0.0)
    past = tl.load(before + (column + TAPS - 2) * CHANNELS + channels, inside & old, 0.0)
    return tl.where(fresh, _elu(now), past)


@triton.jit(do_not_specialize=("frames", "before_row", "after_row"))
def _pitch_windows_kernel(
    y, before, after, counts, starts, out, frames, before_row, after_row,
    CHANNELS: tl.constexpr, TAPS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    frame, stream = tl.program_id(0), tl.program_id(1)
    channels = tl.arange(0, WIDE)
    inside = channels < CHANNELS
    silent = tl.load(starts + stream).to(tl.int32)
    signal, past = y + stream * frames * CHANNELS, before + stream * before_row
    to = out + (stream * frames + frame) * TAPS * CHANNELS
    for tap in tl.static_range(TAPS):
        column = frame + tap - (TAPS - 1)
        value = _pitch_column(signal, past, column, silent, channels, inside, CHANNELS, TAPS)
        tl.store(to + tap * CHANNELS + channels, value, inside)
    if frame == 0:
        end = tl.load(counts + stream).to(tl.int32)
        for tap in tl.static_range(TAPS - 1):
            column = end + tap - (TAPS - 2)
            value = _pitch_column(signal, past, column, silent, channels, inside, CHANNELS, TAPS)
            tl.store(after + stream * after_row + tap * CHANNELS + channels, value, inside)


def pitch_windows(y: Tensor, before: Tensor, after: Tensor, batch: Batch, taps: int) -> Tensor:
    """As `vocoder.pitch_windows`."""
    streams, frames, channels = y.shape
    out = torch.empty(streams, frames, taps * channels, dtype=torch.float64, device=y.device)
    _pitch_windows_kernel[(frames, streams)](
        y, before, after, batch.counts, batch.starts, out, frames, before.stride(0), after.stride(0),
        CHANNELS=channels, TAPS=taps, WIDE=_side(channels), num_warps=4,
    )  # fmt: skip
    return out


@triton.jit
def _pitch_kernel(y, weight, bias, out, CHANNELS: tl.constexpr, WIDE: tl.constexpr):
    row, channels = tl.program_id(0), tl.arange(0, WIDE)
    inside = channels < CHANNELS
    value = _elu(tl.load(y + row * CHANNELS + channels, inside, 0.0)) * tl.load(weight + channels, inside, 0.0)
    tl.store(out + row, tl.abs(tl.sum(value, 0) + tl.load(bias)).to(tl.float32))


def pitch(y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """As `vocoder.pitch`."""
    out = torch.empty(y.shape[:2], dtype=torch.float32, device=y.device)
    _pitch_kernel[(out.numel(),)](y, weight, bias, out, CHANNELS=y.shape[2], WIDE=_side(y.shape[2]), num_warps=4)
    return out


@triton.jit(do_not_specialize=("frames", "phase_row", "after_row"))
def _excite_kernel(
    f0, phase, after, weight, bias, counts, starts, held, loud, frames, phase_row, after_row, rate, turn, frame, alpha,
    sigma, hiss, threshold, ORDER: tl.constexpr, FRAMES: tl.constexpr, HARMONICS: tl.constexpr,
):  # fmt: skip
    stream = tl.program_id(0)
    lines, order = tl.arange(0, FRAMES), tl.arange(0, HARMONICS)
    inside, real = lines < frames, order < ORDER
    silent = tl.load(starts + stream).to(tl.int32)
    hertz = tl.load(f0 + stream * frames + lines, inside, 0.0)
    # Rounded where the CPU rounds: the phase adds these up.
    multiples = hertz[:, None] * (order + 1).to(tl.float32)[None, :]
    cycles = tl.div_rn(multiples, tl.zeros_like(multiples) + rate)
    cycles = cycles - tl.floor(cycles)
    counted = (lines >= 1 - silent)[:, None]
    running = tl.cumsum(tl.where(counted, cycles, 0.0).to(tl.float64), 0)
    running += tl.load(phase + stream * phase_row + order, real & (silent == 0), 0.0)[None, :]
    end = tl.load(counts + stream).to(tl.int32)
    final = tl.sum(tl.where((lines == end)[:, None], running, 0.0), 0)
    tl.store(after + stream * after_row + order, final, real)
    voiced = hertz > threshold
    sines = tl.sin(running.to(tl.float32) * turn * frame) * tl.load(weight + order, real, 0.0)[None, :]
    merged = tl.where(voiced, alpha * tl.sum(sines, 1), 0.0) + tl.load(bias)
    tl.store(held + stream * frames + lines, merged, inside)
    tl.store(loud + stream * frames + lines, tl.where(voiced, sigma, hiss), inside)


def excite(
    f0: Tensor, phase: Tensor, after: Tensor, weight: Tensor, bias: Tensor, batch: Batch, voice: Voice
) -> tuple[Tensor, Tensor]:
    """As `vocoder.excite`."""
    held, loud = torch.empty_like(f0), torch.empty_like(f0)
    _excite_kernel[(len(f0),)](
        f0, phase, after, weight, bias, batch.counts, batch.starts, held, loud, f0.shape[1], phase.stride(0),
        after.stride(0), float(voice.rate), 2 * torch.pi, float(voice.frame), voice.alpha, voice.sigma,
        voice.alpha / 3, voice.threshold, ORDER=len(weight), FRAMES=_side(f0.shape[1]), HARMONICS=_side(len(weight)),
        num_warps=4,
    )  # fmt: skip
    return held, loud


@triton.jit
def _sample(
    held, loud, noise, first, known, place, silent, inside, length,
    FRAME: tl.constexpr, EARLY: tl.constexpr, KNOWN: tl.constexpr,
):  # fmt: skip
    """Samples of the source at `place`, which counts from the first known one on, EARLY before frame m."""
    old = (place < KNOWN) & (silent == 0)
    past = tl.load(known + place, inside & old, 0.0)
    # A signal that starts here is mirrored at its first sample.
    since = tl.abs(place - EARLY)
    new = inside & (old == 0)
    level = tl.load(loud + since // FRAME, new, 0.0) * tl.load(noise + (first + since) % length, new, 0.0)
    level += tl.load(held + since // FRAME, new, 0.0)
    return tl.where(old, past, 1 - 2 / (tl.exp(2 * level) + 1))


@triton.jit(do_not_specialize=("frames", "columns", "length", "source_row", "spectrum_row", "source_to", "spectrum_to"))
def _analyse_kernel(
    held, loud, noise, decoded, source_past, spectrum_past, source_after, spectrum_after, counts, starts, last, matrix,
    out, frames, columns, length, source_row, spectrum_row, source_to, spectrum_to,
    FRAME: tl.constexpr, EARLY: tl.constexpr, KNOWN: tl.constexpr, KEPT: tl.constexpr, SIZE: tl.constexpr,
    HOP: tl.constexpr, BINS: tl.constexpr, TILE: tl.constexpr, WIDE: tl.constexpr, KNOWN_PAD: tl.constexpr,
):  # fmt: skip
    stream = tl.program_id(1)
    silent, ends = tl.load(starts + stream).to(tl.int32), tl.load(last + stream).to(tl.int32)
    count = tl.load(counts + stream).to(tl.int32)
    held += stream * frames
    loud += stream * frames
    first = tl.load(decoded + stream).to(tl.int32) * FRAME
    known = source_past + stream * source_row
    if tl.program_id(0) == tl.num_programs(0) - 1:
        samples = tl.arange(0, KNOWN_PAD)
        wanted = samples < KNOWN
        value = _sample(
            held, loud, noise, first, known, count * FRAME + samples, silent, wanted, length, FRAME, EARLY, KNOWN
        )
        tl.store(source_after + stream * source_to + samples, value, wanted)
    else:
        lines, taps, bins = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, SIZE), tl.arange(0, WIDE)
        real = (bins < BINS)[None, :]
        # Columns kept from before: the last of them is made anew where a stream starts, the others are silent then.
        made = (lines < columns) & (lines >= KEPT - silent)
        place = ((lines - KEPT) * HOP)[:, None] + taps[None, :]
        end = count * FRAME + EARLY - 1
        place = tl.where((ends != 0) & (place > end), tl.maximum(2 * end - place, 0), place)
        signal = _sample(held, loud, noise, first, known, place, silent, made[:, None], length, FRAME, EARLY, KNOWN)
        signal = tl.where(made[:, None], signal, 0.0)
        waves = tl.load(matrix + bins[None, :] * SIZE + taps[:, None], real, 0.0)
        total = tl.dot(signal, waves, input_precision="ieee")
        kept = (lines < KEPT)[:, None] & real & (silent == 0)
        past = tl.load(spectrum_past + stream * spectrum_row + lines[:, None] * BINS + bins[None, :], kept, 0.0)
        total = tl.where((lines < KEPT)[:, None] & (silent == 0), past, total)
        there = (lines < columns)[:, None] & real
        to = out + stream.to(tl.int64) * columns * BINS + lines[:, None] * BINS + bins[None, :]
        tl.store(to, total.to(out.dtype.element_ty), there)
        ahead = lines - count * (FRAME // HOP)
        keep = there & ((ahead >= 0) & (ahead < KEPT))[:, None]
        tl.store(spectrum_after + stream * spectrum_to + ahead[:, None] * BINS + bins[None, :], total, keep)


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
    """As `vocoder.analyse`."""
    streams, frames = held.shape
    bins, size = analysis.matrix.shape
    columns, known = analysis.kept + (frames - 1) * frame // analysis.hop, past[0].shape[1]
    out = torch.empty(1, streams, columns, bins, dtype=dtype, device=held.device)
    _analyse_kernel[(triton.cdiv(columns, _STRETCH) + 1, streams)](
        held, loud, noise, decoded, *past, *after, batch.counts, batch.starts, batch.last, analysis.matrix, out,
        frames, columns, len(noise), past[0].stride(0), past[1].stride(0), after[0].stride(0), after[1].stride(0),
        FRAME=frame, EARLY=analysis.early, KNOWN=known, KEPT=analysis.kept, SIZE=size, HOP=analysis.hop, BINS=bins,
        TILE=_STRETCH, WIDE=_side(bins), KNOWN_PAD=_side(known), num_warps=4,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=("columns", "rate", "before_row", "after_row"))
def _synthesise_kernel(
    bins, matrix, before, after, out, counts, starts, last, head, tail, columns, rate, before_row, after_row, loudest,
    steady, limit, EDGE: tl.constexpr, SKIP: tl.constexpr, HALF: tl.constexpr, SIZE: tl.constexpr, HOP: tl.constexpr,
    OVERLAP: tl.constexpr, TILE: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    stream = tl.program_id(1)
    blocks, half, taps = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, WIDE), tl.arange(0, HOP)
    count, silent = tl.load(counts + stream).to(tl.int32) * rate, tl.load(starts + stream).to(tl.int32)
    signal = bins + stream.to(tl.int64) * columns * 2 * HALF
    total = tl.zeros((TILE, HOP), tl.float32)
    real = half < HALF
    for age in tl.static_range(OVERLAP + 1):
        column = blocks - age
        present = (column >= 0) & (column < columns) & (column <= count)
        read = column[:, None] * (2 * HALF) + half[None, :]
        inside = present[:, None] & real[None, :]
        magnitude = tl.exp(tl.load(signal + read, inside, 0.0))
        # Not a minimum, which would hide what is not a number.
        magnitude = tl.where(magnitude > loudest, loudest, magnitude)
        angle = tl.sin(tl.load(signal + read + HALF, inside, 0.0))
        entry = matrix + half[:, None] * SIZE + age * HOP + taps[None, :]
        cosines, sines = tl.load(entry, real[:, None], 0.0), tl.load(entry + HALF * SIZE, real[:, None], 0.0)
        wave = (magnitude * tl.cos(angle))[:, :, None] * cosines[None, :, :]
        wave += (magnitude * tl.sin(angle))[:, :, None] * sines[None, :, :]
        piece = tl.where(present[:, None], tl.sum(wave, 1), 0.0)
        old = (column < 0) & (column >= -OVERLAP) & (silent == 0)
        place = before + stream * before_row + (column + OVERLAP)[:, None] * SIZE + age * HOP + taps[None, :]
        piece += tl.load(place, old[:, None], 0.0)
        total += piece
        ahead = column - count + OVERLAP
        keep = (present & (ahead >= 0) & (ahead < OVERLAP))[:, None]
        to = after + stream * after_row + ahead[:, None] * SIZE + age * HOP + taps[None, :]
        tl.store(to, piece, keep & (taps >= 0)[None, :])
    place = blocks[:, None] * HOP + taps[None, :]
    since, left = place - SKIP, place - (count * HOP + SKIP - EDGE)
    first = (since >= 0) & (since < EDGE) & (silent != 0)
    final = (left >= 0) & (left < EDGE) & (tl.load(last + stream).to(tl.int32) != 0)
    factor = tl.where(first, tl.load(head + since, first, 0.0), steady)
    total *= tl.where(final, tl.load(tail + left, final, 0.0), factor)
    total = tl.where(total > limit, limit, tl.where(total < -limit, -limit, total))
    to = out + stream.to(tl.int64) * (columns + 1) * HOP + place
    tl.store(to, total, (blocks <= columns)[:, None] & (taps >= 0)[None, :])


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
    """As `vocoder.synthesise`."""
    streams, columns, width = bins.shape
    overlap, size = before.shape[1:]
    # As many blocks more as the last column kept has still to give.
    _synthesise_kernel[(triton.cdiv(columns + overlap, _STRETCH), streams)](
        bins, matrix, before, after, out, batch.counts, batch.starts, batch.last, gain.head, gain.tail, columns, rate,
        before.stride(0), after.stride(0), loudest, gain.steady, gain.limit, EDGE=len(gain.head), SKIP=gain.skip,
        HALF=width // 2, SIZE=size, HOP=size // (overlap + 1), OVERLAP=overlap, TILE=_STRETCH, WIDE=_side(width // 2),
        num_warps=4,
    )  # fmt: skip
