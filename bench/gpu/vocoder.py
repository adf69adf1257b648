"""The vocoder on a GPU: is it right, and how fast is it?

    python -m bench.gpu.vocoder [--dtype float32,float16] [--only parity,time] [--tiny]

Random weights of the released sizes. Sections, each of which may fail without hiding the others:

    parity     streams cut in every way against the whole mel at once, in float32 on the CPU
    phase      F0 and the running phase against float64 on the CPU
    time       ms of a step by streams and frames: all of it, on the device, and on the host alone
    profile    which kernels a step spends its time in
    beside     parity and time with the source's convolutions on a stream of their own
    tiles      time with other tiles of a convolution

`--tiny` uses small sizes, which also run on a CPU.
"""

import argparse
import statistics
import sys
import time
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench.gpu import sections
from bench.gpu.timing import launch_us
from oscine_engine.checkpoint import synthetic
from oscine_engine.config import F0Config, VocoderConfig
from oscine_engine.vocoder import stack
from oscine_engine.vocoder.graphed import GraphedVocoder
from oscine_engine.vocoder.network import HiFT

FULL = VocoderConfig()
TINY = VocoderConfig(base_channels=32, f0_predictor=F0Config(cond_channels=32))
TYPES = {"float32": torch.float32, "float16": torch.float16}
WAVE_ERROR = {torch.float32: 1e-3, torch.float16: 1e-2}
"""Largest root mean square of the error that passes, in shares of the wave's own."""
TARGETS = {(1, 50): 3.0, (1, 16): 2.2, (8, 50): 7.0, (32, 50): 20.0}
"""ms a step by streams and frames."""
CUTS = ((150,), (16, 50, 50, 34), (20, 7, 1, 0, 3, 69, 50))
SECONDS = 4


class Bench:
    def __init__(self, config: VocoderConfig, device: torch.device, tiny: bool) -> None:
        self.config, self.device, self.tiny = config, device, tiny
        self.failures: list[str] = []
        self.reference = HiFT(config).eval().requires_grad_(False)
        synthetic._draw(self.reference, torch.Generator().manual_seed(3))
        synthetic._settle(self.reference)
        self.network = HiFT(config).to(device).eval().requires_grad_(False)
        self.network.load_state_dict(self.reference.state_dict())
        generator = torch.Generator().manual_seed(1)
        self.noise = torch.rand(1, SECONDS * config.sampling_rate, config.nb_harmonics + 1, generator=generator)
        self.mel = 2 * torch.randn(sum(CUTS[0]), config.in_channels, generator=generator) - 5

    def check(self, name: str, good: bool) -> str:
        if not good:
            self.failures.append(name)
        return "" if good else "   <-- FAILED"

    def runner(self, streams: int, dtype: torch.dtype) -> GraphedVocoder:
        start = time.perf_counter()
        runner = GraphedVocoder(self.network, self.noise, max_streams=streams, dtype=dtype)
        runner.capture()
        print(
            f"  {str(dtype)[6:]}: up to {streams} streams captured in {time.perf_counter() - start:.1f} s", flush=True
        )
        return runner

    # --- parity

    def parity(self, dtype: torch.dtype) -> None:
        start = time.perf_counter()
        wanted = self.reference(self.mel.T[None], self.noise)[0][0].numpy()
        loud = float(np.sqrt(np.square(wanted).mean()))
        print(f"  reference on the CPU: {time.perf_counter() - start:.1f} s, level {20 * np.log10(loud):.1f} dBFS")
        plain = GraphedVocoder(self.network, self.noise, max_streams=4, dtype=dtype)
        graphs = self.runner(4, dtype)
        for cuts in CUTS:
            heard = {"launched": self._cut(plain, cuts), "graphs": self._cut(graphs, cuts)}
            heard["together"] = self._together(graphs, cuts)
            for how, wave in heard.items():
                self._compare(f"{len(cuts)} pieces, {how}", wave, wanted, dtype)

    def _compare(self, name: str, wave: NDArray[np.float32], wanted: NDArray[np.float32], dtype: torch.dtype) -> None:
        error = wave - wanted
        share = float(np.sqrt(np.square(error).mean() / np.square(wanted).mean()))
        bound = WAVE_ERROR[dtype]
        distance = _spectral_distance(wave, wanted)
        good = self.check(f"{name} {dtype}", len(wave) == len(wanted) and share < bound)
        worst = float(np.abs(error).max())
        print(f"  {name:24} {str(dtype)[6:]:9} error {share:.1e}, at most {worst:.1e}, {distance:.3f} dB apart{good}")

    def _cut(self, runner: GraphedVocoder, cuts: tuple[int, ...]) -> NDArray[np.float32]:
        stream, at, parts = runner.open(), 0, []
        for count in cuts:
            last = at + count == len(self.mel)
            parts += runner.step([(stream, self.mel[at : at + count], last)])
            at += count
        return np.concatenate(parts)

    def _together(self, runner: GraphedVocoder, cuts: tuple[int, ...]) -> NDArray[np.float32]:
        """As `_cut`, between two streams that are elsewhere in the same mel."""
        streams = [runner.open() for _ in range(3)]
        runner.step([(streams[0], self.mel[:30], False)])
        at, parts = 0, []
        for count in cuts:
            last = at + count == len(self.mel)
            aside = self.mel[:7]
            work = [(streams[0], aside, False), (streams[1], self.mel[at : at + count], last)]
            parts.append(runner.step([*work, (streams[2], aside, False)])[1])
            at += count
        return np.concatenate(parts)

    # --- phase

    def phase(self, dtype: torch.dtype) -> None:
        runner = self.runner(2, dtype)
        stream = runner.open()
        f0 = self.reference.f0(self.mel.T[None])
        running = self.reference.m_source.waves(f0)[1][0]
        print(f"  F0 {f0.min():.1f} to {f0.max():.1f} Hz")
        for count in (20, 50, 50):
            fed = stream.decoded + len(stream.pending)
            runner.step([(stream, self.mel[fed : fed + count], False)])
            error = (runner.phase(stream).cpu() - running[stream.decoded]).abs().max().item()
            good = self.check(f"phase {dtype}", error < 1e-8)
            print(f"  after {stream.decoded:3} frames the phase is within {error:.1e} turns a sample{good}")

    # --- time

    def time(self, dtype: torch.dtype) -> None:
        counts = (1, 2) if self.tiny else (1, 8, 32)
        runner = self.runner(max(counts), dtype)
        for count in counts:
            for frames in (16, 50):
                total, device, host = self._step_ms(runner, count, frames)
                target = None if self.tiny else TARGETS.get((count, frames))
                line = f"  {count:3} streams, {frames:3} frames: {total:7.2f} ms a step; device {device:7.2f}"
                line += f", host alone {host:.3f}"
                line += f"; target {target}" if target else ""
                print(line + self.check(f"time {count} x {frames} {dtype}", total < (target or 1e9)), flush=True)

    def _step_ms(self, runner: GraphedVocoder, count: int, frames: int) -> tuple[float, float, float]:
        """ms of a step, of its graph alone, and of all that is not the graph. Every stream is in its middle."""
        streams = [runner.open() for _ in range(count)]
        mel = self.mel[: frames + self.config.conv_pre_look_right]
        runner.step([(stream, mel, False) for stream in streams])
        took = []
        for _ in range(12):
            work = [(stream, mel[:frames], False) for stream in streams]
            start = time.perf_counter()
            runner.step(work)
            took.append(1e3 * (time.perf_counter() - start))
        device = self._replayed(runner, count, frames)
        total = statistics.median(took[2:])
        return total, device, total - device

    def _replayed(self, runner: GraphedVocoder, count: int, frames: int) -> float:
        return launch_us(runner.replay(count, frames), self.device, 10) / 1e3

    # --- profile

    def profile(self, dtype: torch.dtype) -> None:
        counts = (2,) if self.tiny else (1, 8, 32)
        runner = self.runner(max(counts), dtype)
        for count in counts:
            replay = runner.replay(count, 50)
            replay()
            activity = torch.profiler.ProfilerActivity
            wanted = activity.CUDA if self.device.type == "cuda" else activity.CPU
            with torch.profiler.profile(activities=[wanted]) as profile:
                replay()
                if self.device.type == "cuda":
                    torch.cuda.synchronize()
            rows = [(row.self_device_time_total, row.count, row.key) for row in profile.key_averages()]
            rows.sort(reverse=True)
            kernels, us = sum(row[1] for row in rows), sum(row[0] for row in rows)
            print(f"  {count} streams, 50 frames: {us / 1e3:.2f} ms in {kernels} kernels")
            for total, calls, name in rows[:14]:
                print(f"    {total / 1e3:7.3f} ms  {calls:5} times {total / max(1, calls):7.1f} us  {name[:90]}")

    # --- other ways

    def beside(self, dtype: torch.dtype) -> None:
        chosen = stack.BESIDE
        stack.BESIDE = not chosen
        print(f"  with BESIDE = {not chosen}")
        try:
            self.parity(dtype)
            self.time(dtype)
        finally:
            stack.BESIDE = chosen

    def tiles(self, dtype: torch.dtype) -> None:
        if self.device.type != "cuda":
            return
        from oscine_engine.runtime.kernels import vocoder_triton

        chosen = vocoder_triton._TILE
        try:
            for tile in ((64, 32, 4), (64, 64, 4), (128, 64, 4), (128, 128, 8)):
                vocoder_triton._TILE = tile
                for count in (1, 8, 32):
                    runner = GraphedVocoder(self.network, self.noise, max_streams=count, dtype=dtype)
                    runner.capture_one(count, 50)
                    device = self._replayed(runner, count, 50)
                    print(f"  {tile} {count:3} streams, 50 frames: device {device:7.3f} ms", flush=True)
        finally:
            vocoder_triton._TILE = chosen


def _spectral_distance(left: NDArray[np.float32], right: NDArray[np.float32]) -> float:
    """Mean over frames of the root mean square difference of log spectra, dB, floored 60 dB below the loudest bin."""

    def spectrum(wave: NDArray[np.float32]) -> Tensor:
        window = torch.hann_window(1024)
        return torch.stft(torch.from_numpy(wave), 1024, 256, window=window, return_complex=True).abs()

    first, second = spectrum(left), spectrum(right)
    floor = second.max() * 1e-3
    apart = 20 * (first.clamp_min(floor).log10() - second.clamp_min(floor).log10())
    return float(apart.square().mean(0).sqrt().mean())


def _section(bench: Bench, section: str, name: str) -> None:
    getattr(bench, section)(TYPES[name])


SECTIONS = ("parity", "phase", "time", "profile", "beside", "tiles")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.vocoder", description=__doc__.split("\n")[0])
    parser.add_argument("--dtype", default=",".join(TYPES), help="of the convolutions, by comma")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, by comma")
    parser.add_argument("--tiny", action="store_true", help="small sizes, which also run on a CPU")
    parsed = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not parsed.tiny:
        parser.error("no GPU here; --tiny runs on a CPU")
    torch.set_grad_enabled(False)
    bench = Bench(TINY if parsed.tiny else FULL, device, parsed.tiny)
    chosen = (
        (f"{section}, {name}", partial(_section, bench, section, name))
        for section in parsed.only.split(",")
        for name in parsed.dtype.split(",")
    )
    return sections.run(chosen, bench.failures)


if __name__ == "__main__":
    sys.exit(main())
