"""Parity of the vocoder: every recorded stage, upstream's growing chunks, and the incremental runner.

Lengths come from config["cases"]["hift"]; a recorded tensor that no row has used is itself a failing row.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from bench.parity.rows import Row, compare, equal, missing, tensors
from oscine_engine.config import VocoderConfig
from oscine_engine.vocoder.f0 import LOOK_RIGHT, double
from oscine_engine.vocoder.network import HiFT
from oscine_engine.vocoder.runner import VocoderRunner
from oscine_engine.vocoder.stream import VocoderStream

WAVE = 1e-4
STAGE = 1e-4
SOURCE = 2e-5
HZ = 1e-8


@dataclass(slots=True)
class Case:
    """The recorded tensors; `used` are those some row has compared or fed."""

    network: HiFT
    recorded: dict[str, Tensor]
    used: set[str] = field(default_factory=set)

    def __getitem__(self, name: str) -> Tensor:
        self.used.add(name)
        return self.recorded[name]

    def row(self, name: str, got: Tensor, tolerance: float) -> Row:
        """Compare with the recorded tensor `name`; a failing row if it was not recorded."""
        if name not in self.recorded:
            return missing(f"hift {name}", f"tensor {name}")
        return compare(f"hift {name}", got, self[name], tolerance)

    @property
    def mel(self) -> Tensor:
        return self["in.mel"]

    @property
    def noise(self) -> Tensor:
        return self["noise.sine_waves"]

    def oneshot(self, frames: int) -> Tensor:
        """This implementation's wave [1, frames * 480] for the first `frames` mel frames."""
        return self.network(self.mel[:, :, :frames], self.noise)[0]


def load_hift(folder: Path, config: dict[str, Any]) -> HiFT:
    """The folder's vocoder, strictly loaded."""
    network = HiFT(VocoderConfig.from_reference(config["hift"]))
    network.load_state_dict(tensors(folder, config["files"]["hift"][0]))
    return network.eval().requires_grad_(False)


@torch.inference_mode()
def checks(folder: Path, config: dict[str, Any]) -> Iterator[Row]:
    """Rows of config["files"]["hift"]."""
    network, lengths = load_hift(folder, config), config["cases"]["hift"]
    case = Case(network, tensors(folder, config["files"]["hift"][1]))
    # No effect on the output: it reaches the first sample's phase only, which is never read.
    case.used.add("noise.rand_ini")
    yield equal("hift in.mel frames", case.mel.shape[2], lengths["mel_frames"])
    yield from _excitation(case)
    yield from _stages(case, lengths["short_frames"], finalize=True)
    yield from _stages(case, lengths["short_frames"], finalize=False)
    yield from _growing(case, lengths["chunk_mel_frames"])
    yield from _streamed(case, lengths["chunk_mel_frames"])
    for name in sorted(case.recorded.keys() - case.used):
        yield Row(f"hift {name}", float("inf"), 0.0, False, "no check knows this tensor")


def _excitation(case: Case) -> Iterator[Row]:
    """F0, sines, source, its spectrum, and the wave, of the whole mel."""
    network, maker = case.network, case.network.m_source
    pitch = double(network.f0_predictor, case.mel)
    yield case.row("oneshot.f0_f64", pitch, HZ)
    f0 = pitch.float()
    sines, _ = maker.waves(f0)
    yield case.row("oneshot.sines_per_frame", sines, STAGE)
    yield case.row("oneshot.uv_per_frame", maker.voiced(f0)[..., 0].to(torch.uint8), 0.0)
    yield from _noisy_sines(case, f0)
    source = network.source(f0, case.noise)
    yield case.row("oneshot.source", source, SOURCE)
    yield from _spectra(case, source)
    yield case.row("oneshot.wav", network.decode(case.mel, source), WAVE)


def _noisy_sines(case: Case, f0: Tensor) -> Iterator[Row]:
    maker, hop = case.network.m_source, case.network.config.samples_per_frame
    names = [name for name in case.recorded if re.fullmatch(r"oneshot\.sine_first\d+frames", name)]
    if not names:
        yield missing("hift oneshot.sine_firstNframes", "any such tensor")
    for name in names:
        frames = int(re.findall(r"\d+", name)[-1])
        sines, _ = maker.harmonics(f0[:, :frames])
        noise = case.noise[:, : frames * hop].view(1, frames, hop, -1)
        mixed = sines[:, :, None] + maker.loudness(f0[:, :frames])[:, :, None] * noise
        yield case.row(name, mixed.flatten(1, 2), SOURCE)


def _spectra(case: Case, source: Tensor) -> Iterator[Row]:
    spectrum = case.network.spectrum(source[:, 0])
    for part, name in enumerate(("real", "imag")):
        names = [key for key in case.recorded if re.fullmatch(rf"oneshot\.source_stft_{name}_first\d+frames", key)]
        if not names:
            yield missing(f"hift oneshot.source_stft_{name}_firstNframes", "any such tensor")
        for key in names:
            columns = int(re.findall(r"\d+", key)[-1]) * math.prod(case.network.config.upsample_rates) + 1
            yield case.row(key, spectrum.chunk(2, dim=1)[part][:, :, :columns], STAGE)


def _stages(case: Case, frames: int, finalize: bool) -> Iterator[Row]:
    """Every recorded stage of the first `frames` frames."""
    network, prefix = case.network, f"short{frames}." + ("" if finalize else "nonfinal.")
    mel = case.mel[:, :, :frames]
    yield case.row(f"{prefix}f0_f64", double(network.f0_predictor, mel, finalize), HZ)
    seen: dict[str, Tensor] = {}
    watched = {"conv_pre": network.conv_pre, "conv_post": network.conv_post}
    for index in range(len(network.ups)):
        watched[f"ups{index}"] = network.ups[index]
        watched[f"source_down{index}"] = network.source_downs[index]
        watched[f"source_res{index}"] = network.source_resblocks[index]
    handles = [module.register_forward_hook(_keep(seen, name)) for name, module in watched.items()]
    source = network.source(network.f0(mel, finalize), case.noise)
    wave = network.decode(mel if finalize else mel[:, :, :-LOOK_RIGHT], source, finalize)
    for handle in handles:
        handle.remove()
    yield case.row(f"{prefix}source", source, SOURCE)
    required = {"conv_pre", "source_down0"} | ({"source_res0", "ups0", "conv_post"} if finalize else set())
    for name, value in seen.items():
        if name in required or f"{prefix}{name}" in case.recorded:
            yield case.row(f"{prefix}{name}", value, STAGE)
    yield case.row(f"{prefix}wav", wave, WAVE)


def _keep(seen: dict[str, Tensor], name: str) -> Callable[[object, object, Tensor], None]:
    def hook(_module: object, _inputs: object, output: Tensor) -> None:
        seen[name] = output

    return hook


def _growing(case: Case, ends: list[int]) -> Iterator[Row]:
    """Upstream's way to stream: the growing mel again and again, with what was sent before cut off."""
    sent = 0
    for index, end in enumerate(ends):
        wave, source = case.network(case.mel[:, :, :end], case.noise, finalize=end == ends[-1])
        yield case.row(f"chunk{index}.wav_new", wave[:, sent:], WAVE)
        yield case.row(f"chunk{index}.source_len", torch.tensor([source.shape[2]]), 0.0)
        sent = wave.shape[1]


def _streamed(case: Case, ends: list[int]) -> Iterator[Row]:
    """The incremental runner against the recorded one-shot wave, alone and in company."""
    runner, total = VocoderRunner(case.network, case.noise), case.mel.shape[2]
    want = case["oneshot.wav"]
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    for title, cut in (
        ("whole", [total]),
        ("recorded chunks", sizes),
        ("first packet then chunks of 50", _cut(total, 16, 50)),
        ("chunks of 5", _cut(total, 5, 5)),
        ("chunks of 1", _cut(total, 1, 1)),
        ("an empty end", [*_cut(total, 30, 30), 0]),
    ):
        parts, exact = _alone(runner, case.mel, cut)
        yield compare(f"hift runner {title}", torch.cat(parts)[None], want, WAVE)
        yield equal(f"hift runner {title}: samples after each step", exact, True)
    lengths = [total, total // 2, 1, total - 7, 6, total // 3]
    for length, wave in zip(lengths, _company(runner, case.mel, lengths), strict=True):
        against = want if length == total else case.oneshot(length)
        yield compare(f"hift runner ragged batch, {length} frames", wave[None], against, WAVE)


def _cut(total: int, first: int, then: int) -> list[int]:
    """`total` as `first`, then parts of `then`, then the rest."""
    parts = [min(first, total)]
    while sum(parts) < total:
        parts.append(min(then, total - sum(parts)))
    return parts


def _alone(runner: VocoderRunner, mel: Tensor, sizes: list[int]) -> tuple[list[Tensor], bool]:
    """One stream's samples by step, and whether every step brought the count it must."""
    stream, parts, fed, exact = runner.open(), [], 0, True
    config = runner.network.config
    hop, edge = config.samples_per_frame, config.istft.n_fft // 2
    for index, size in enumerate(sizes):
        last = index == len(sizes) - 1
        parts.append(torch.from_numpy(runner.step([(stream, mel[0, :, fed : fed + size].T, last)])[0]))
        fed += size
        due = fed * hop if last else max(0, (fed - config.conv_pre_look_right) * hop - edge)
        exact = exact and sum(len(part) for part in parts) == due
    return parts, exact


def _company(runner: VocoderRunner, mel: Tensor, lengths: list[int]) -> list[Tensor]:
    """Streams of prefixes of one mel, started one step after another and fed parts of random size, batched."""
    draw = Random(0)
    waves: list[list[Tensor]] = [[] for _ in lengths]
    streams: dict[int, VocoderStream] = {}
    fed = [0] * len(lengths)
    ended: set[int] = set()
    while len(ended) < len(lengths):
        if len(streams) + len(ended) < len(lengths):
            streams[len(streams) + len(ended)] = runner.open()
        work, order = [], list(streams)
        for index in order:
            size = min(draw.choice((0, 1, 2, 7, 16, 25)), lengths[index] - fed[index])
            part = mel[0, :, fed[index] : fed[index] + size].T
            fed[index] += size
            work.append((streams[index], part, fed[index] == lengths[index]))
        for index, samples, (_, _, last) in zip(order, runner.step(work), work, strict=True):
            waves[index].append(torch.from_numpy(samples))
            if last:
                ended.add(index)
                del streams[index]
    return [torch.cat(parts) for parts in waves]
