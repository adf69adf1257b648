"""The vocoder for a GPU: a batch is one launch and one wait, and every stream's past a row of tables.

Batches are filled up to 1, 2, 4 ... streams and to the next of a few lengths; longer waits go through in pieces. Rows
that only fill up decode a frame of a spare slot.
"""

import weakref
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from oscine_engine.runtime.graphs import Graphs, Outputs, Pulled, Step
from oscine_engine.runtime.kernels.vocoder import Batch, Gain
from oscine_engine.runtime.pages import PoolExhausted
from oscine_engine.vocoder.network import HiFT
from oscine_engine.vocoder.runner import Row, Samples, VocoderRunner
from oscine_engine.vocoder.slotted import Edges, Pitch
from oscine_engine.vocoder.stack import Stack
from oscine_engine.vocoder.stream import VocoderStream

LENGTHS = (16, 26, 50, 104)
"""Frames of a batch: first chunks of 10 and 15 tokens less what is held back, a chunk, and the last two together."""


class _Tick:
    """One graph: `size` streams, up to `frames` frames each."""

    def __init__(self, runner: "GraphedVocoder", size: int, frames: int) -> None:
        config = runner.network.config
        ahead = config.conv_pre_look_right
        self.frames = frames
        self.inputs = Pulled(
            {
                "mel": ((size, frames + ahead, config.in_channels), torch.float32),
                "slots": ((size,), torch.int64),
                "counts": ((size,), torch.int64),
                "decoded": ((size,), torch.int64),
                "starts": ((size,), torch.bool),
                "last": ((size,), torch.bool),
            },
            runner.device,
        )
        given = self.inputs.host
        self.mel, self.slots, self.counts = given["mel"], given["slots"], given["counts"]
        self.decoded, self.starts, self.last = given["decoded"], given["starts"], given["last"]
        samples = frames * config.samples_per_frame + config.istft.n_fft // 2
        self.outputs = Outputs({"wave": ((size, samples), torch.float32)}, runner.device)
        self.wave = self.outputs.host["wave"]
        self._runner = runner
        self.run: Step = self._step

    def capture(self, graphs: Graphs, spare: int) -> None:
        self.mel[:], self.slots[:], self.counts[:], self.decoded[:] = 0, spare, 1, 1
        self.starts[:], self.last[:] = False, False
        self.run = graphs.capture(self._step)

    def _step(self) -> None:
        self.inputs.pull()
        self._runner.compute(self.inputs.device, self.frames, self.outputs.device["wave"])
        self.outputs.fetch()


class GraphedVocoder(VocoderRunner):
    """As VocoderRunner. max_streams: most streams of one launch, and half of the pasts that are kept.

    dtype: of what the convolutions read; F0 and phase are float64 whatever it is.
    """

    def __init__(
        self, network: HiFT, sine_waves: Tensor, *, max_streams: int = 8, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__(network, sine_waves)
        self._sizes = [1 << power for power in range((max_streams - 1).bit_length() + 1)]
        self._spare = slots = 2 * max_streams
        self._stack = Stack(self.network, dtype, slots + 1)
        self._pitch = Pitch(self.network)
        config = self.network.config
        gain = Gain(
            steady=float(self._steady),
            head=torch.from_numpy(self._head.copy()).to(self.device),
            tail=torch.from_numpy(self._tail.copy()).to(self.device),
            skip=config.istft.n_fft // 2,
            limit=config.audio_limit,
        )
        self._edges = Edges(self.network, self._noise, self._stack.width, gain)
        self._exact = torch.zeros(slots + 1, self._pitch.size, dtype=torch.float64, device=self.device)
        self._wide = torch.zeros(slots + 1, self._edges.size, device=self.device)
        self._hop, self._half = config.samples_per_frame, config.istft.n_fft // 2
        self._dtype = dtype
        self._free = deque(range(slots))
        self._graphs = Graphs(self.device)
        self._ticks = {(size, frames): _Tick(self, size, frames) for size in self._sizes for frames in LENGTHS}

    def capture(self, progress: Callable[[str], object] | None = None) -> None:
        """Capture every size, so that no tick ever has to. Takes seconds."""
        for (size, frames), tick in sorted(self._ticks.items(), reverse=True):
            if progress is not None:
                progress(f"vocoder, {size} streams of {frames} frames")
            self._capture(tick)

    def capture_one(self, streams: int, frames: int) -> None:
        """Capture that step alone: to time it."""
        self._capture(self._tick(streams, frames))

    @torch.inference_mode()
    def _capture(self, tick: _Tick) -> None:
        tick.capture(self._graphs, self._spare)

    def _tick(self, streams: int, frames: int) -> _Tick:
        return self._ticks[1 << (streams - 1).bit_length(), next(length for length in LENGTHS if frames <= length)]

    def phase(self, stream: VocoderStream) -> Tensor:
        """The running phase of a stream's harmonics, in turns a sample: float64 [H]."""
        return self._pitch.phase(self._exact[stream.slot])

    def replay(self, streams: int, frames: int) -> Step:
        """The launch alone of such a step, again and again: to time it. The streams it last ran for are spoilt."""
        return self._tick(streams, frames).run

    def finish(self, row: Row, wave: Samples) -> Samples:
        """Cut out what is new; a copy, since the next step writes to where it lies."""
        end = row.frames * self._hop + (self._half if row.last else 0)
        return wave[self._half if row.stream.decoded == 0 else 0 : end].copy()

    def _decode(self, rows: list[Row]) -> list[Samples]:
        most, longest = self._sizes[-1], LENGTHS[-1]
        pieces: list[list[Samples]] = [[] for _ in rows]
        waiting = list(enumerate(rows))
        while waiting:
            batch, waiting = waiting[:most], waiting[most:]
            parts = [row if row.frames <= longest else row.head(longest) for _, row in batch]
            for (place, row), part, wave in zip(batch, parts, self._launch(parts), strict=True):
                pieces[place].append(self.finish(part, wave))
                self._advance(part)
                if part is not row:
                    waiting.append((place, row.tail(longest)))
        return [part[0] if len(part) == 1 else np.concatenate(part) for part in pieces]

    def _launch(self, rows: Sequence[Row]) -> list[Samples]:
        frames = [row.frames for row in rows]
        tick, count = self._tick(len(rows), max(frames)), len(rows)
        for mel, row in zip(tick.mel, rows, strict=False):
            if row.stream.slot < 0:
                row.stream.slot = self._take(row.stream)
            held = min(len(row.mel), len(mel))
            mel[:held], mel[held:] = row.mel[:held], 0
        tick.slots[:count], tick.slots[count:] = [row.stream.slot for row in rows], self._spare
        tick.counts[:count], tick.counts[count:] = frames, 1
        tick.decoded[:count], tick.decoded[count:] = [row.stream.decoded for row in rows], 1
        tick.starts[:], tick.last[:count], tick.last[count:] = tick.decoded == 0, [row.last for row in rows], False
        tick.run()
        self._graphs.mark()
        self._graphs.wait()
        return list(tick.wave[:count])

    def _advance(self, row: Row) -> None:
        row.stream.decoded += row.frames
        if row.last:
            row.stream.freed()

    def _take(self, stream: VocoderStream) -> int:
        """A slot that comes back when the stream ends, or is dropped by all who knew it."""
        if not self._free:
            raise PoolExhausted("every slot of the vocoder is in use")
        slot = self._free.popleft()
        stream.freed = weakref.finalize(stream, self._free.append, slot)
        return slot

    def compute(self, given: dict[str, Tensor], frames: int, wave: Tensor) -> None:
        """All that happens on the device. wave: [B, frames * 480 + 8] samples, see `kernels.synthesise`."""
        batch = Batch(given["slots"], given["counts"], given["starts"], given["last"])
        exact, wide = self._exact[batch.slots], self._wide[batch.slots]
        exact_after, wide_after = torch.empty_like(exact), torch.empty_like(wide)
        held, loud = self._pitch(given["mel"], exact, exact_after, batch)
        before, after = self._edges.parts(wide), self._edges.parts(wide_after)
        spectrum = self._edges.spectrum(held, loud, given["decoded"], before, after, batch, self._dtype)
        bins = self._stack(given["mel"], spectrum, frames, (before.column, after.column), batch)
        self._edges.wave(bins, before, after, wave, batch)
        self._exact[batch.slots] = exact_after
        self._wide[batch.slots] = wide_after
