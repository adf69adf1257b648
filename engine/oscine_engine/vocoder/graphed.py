"""The vocoder for a GPU: a batch is one copy, one launch and one wait, and every stream's past a row of tables.

Batches are filled up to 1, 2, 4 ... streams and to the next of a few lengths; longer waits go through in pieces. Rows
that only fill up decode a frame of a spare slot.
"""

import weakref
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from oscine_engine.runtime.graphs import Graphs, Inputs, Outputs, Step
from oscine_engine.runtime.pages import PoolExhausted
from oscine_engine.vocoder.advance import Memory, advance, prime
from oscine_engine.vocoder.f0 import LOOK_RIGHT
from oscine_engine.vocoder.network import HiFT
from oscine_engine.vocoder.runner import Row, Samples, VocoderRunner
from oscine_engine.vocoder.stream import VocoderStream

LENGTHS = (16, 26, 50, 104)
"""Frames of a batch: first chunks of 10 and 15 tokens less what is held back, a chunk, and the last two together."""


class _Tick:
    """One graph: `size` streams, up to `frames` frames each; with `starting`, some of them at their first."""

    def __init__(self, runner: "GraphedVocoder", size: int, frames: int, starting: bool) -> None:
        config = runner.network.config
        ahead = config.conv_pre_look_right
        self.frames, self.starting = frames, starting
        self.inputs = Inputs(
            {
                "mel": ((size, frames + ahead, config.in_channels), torch.float32),
                "slots": ((size,), torch.int64),
                "counts": ((size,), torch.int64),
                "decoded": ((size,), torch.int64),
                "starts": ((size, 1), torch.bool),
                "last": ((size, 1), torch.bool),
            },
            runner.device,
        )
        samples = frames * config.samples_per_frame + config.istft.n_fft // 2
        self.outputs = Outputs({"wave": ((size, samples), torch.float32)}, runner.device)
        self._runner = runner
        self.run: Step = self._step

    def capture(self, graphs: Graphs, spare: int) -> None:
        host = self.inputs.host
        host["mel"][:], host["slots"][:], host["counts"][:], host["decoded"][:] = 0, spare, 1, 1
        host["starts"][:], host["last"][:] = False, False
        self.inputs.send()
        self.run = graphs.capture(self._step)

    def _step(self) -> None:
        self.outputs.device["wave"].copy_(self._runner.compute(self.inputs.device, self.frames, self.starting))
        self.outputs.fetch()


class GraphedVocoder(VocoderRunner):
    """As VocoderRunner. max_streams: most streams of one launch, and half of the pasts that are kept.

    dtype: of what the convolutions read; F0 and phase are float64 whatever it is.
    """

    def __init__(
        self, network: HiFT, sine_waves: Tensor, *, max_streams: int = 8, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__(network, sine_waves)
        if dtype != torch.float32:
            raise NotImplementedError(f"the convolutions compute in float32, not {dtype}")
        self._sizes = [1 << power for power in range((max_streams - 1).bit_length() + 1)]
        self._spare = slots = 2 * max_streams
        network_layout, pitch_layout = self._layout
        harmonics = self.network.config.nb_harmonics + 1
        self._table = Memory(
            torch.zeros(slots + 1, network_layout.size, device=self.device),
            torch.zeros(slots + 1, pitch_layout.size, dtype=torch.float64, device=self.device),
            torch.zeros(slots + 1, harmonics, dtype=torch.float64, device=self.device),
        )
        self._free = deque(range(slots))
        self._graphs = Graphs(self.device)
        self._ticks = {
            (size, frames, starting): _Tick(self, size, frames, starting)
            for size in self._sizes
            for frames in LENGTHS
            for starting in (False, True)
        }

    def capture(self, progress: Callable[[str], object] | None = None) -> None:
        """Capture every size, so that no tick ever has to. Takes seconds."""
        for (size, frames, _), tick in sorted(self._ticks.items(), reverse=True):
            if progress is not None:
                progress(f"vocoder, {size} streams of {frames} frames")
            with torch.inference_mode():
                tick.capture(self._graphs, self._spare)

    def open(self) -> VocoderStream:
        return VocoderStream.empty(self.network.config.in_channels, torch.device("cpu"))

    def phase(self, stream: VocoderStream) -> Tensor:
        """The running phase of a stream's harmonics, in turns a sample: float64 [H]."""
        return self._table.phase[stream.slot]

    def replay(self, streams: int, frames: int) -> Step:
        """The launch alone of such a step, again and again: to time it. The streams it last ran for are spoilt."""
        return self._ticks[1 << (streams - 1).bit_length(), min(n for n in LENGTHS if n >= frames), False].run

    def _decode(self, rows: list[Row]) -> list[Samples]:
        most, longest = self._sizes[-1], LENGTHS[-1]
        pieces: list[list[Samples]] = [[] for _ in rows]
        waiting = list(enumerate(rows))
        while waiting:
            batch, waiting = waiting[:most], waiting[most:]
            parts = [row if row.count <= longest else row.head(longest) for _, row in batch]
            for (place, row), part, wave in zip(batch, parts, self._launch(parts), strict=True):
                pieces[place].append(self.finish(part, wave))
                self._advance(part)
                if part is not row:
                    waiting.append((place, row.tail(longest)))
        return [part[0] if len(part) == 1 else np.concatenate(part) for part in pieces]

    def _launch(self, rows: Sequence[Row]) -> list[Samples]:
        starting = any(row.stream.decoded == 0 for row in rows)
        longest = max(row.count for row in rows)
        frames = next(frames for frames in LENGTHS if longest <= frames)
        tick = self._ticks[1 << (len(rows) - 1).bit_length(), frames, starting]
        host, count = tick.inputs.host, len(rows)
        host["mel"][:] = 0
        for index, row in enumerate(rows):
            if row.stream.slot < 0:
                row.stream.slot = self._take(row.stream)
            held = min(len(row.mel), frames + self.network.config.conv_pre_look_right)
            host["mel"][index, :held] = row.mel[:held].numpy()
        host["slots"][:count], host["slots"][count:] = [row.stream.slot for row in rows], self._spare
        host["counts"][:count], host["counts"][count:] = [row.count for row in rows], 1
        host["decoded"][:count], host["decoded"][count:] = [row.stream.decoded for row in rows], 1
        host["starts"][:count, 0], host["starts"][count:] = [row.stream.decoded == 0 for row in rows], False
        host["last"][:count, 0], host["last"][count:] = [row.last for row in rows], False
        tick.inputs.send()
        tick.run()
        self._graphs.mark()
        self._graphs.wait()
        return list(tick.outputs.host["wave"][:count])

    def _advance(self, row: Row) -> None:
        row.stream.decoded += row.count
        if row.last:
            row.stream.freed()

    def _take(self, stream: VocoderStream) -> int:
        """A slot that comes back when the stream ends, or is dropped by all who knew it."""
        if not self._free:
            raise PoolExhausted("every slot of the vocoder is in use")
        slot = self._free.popleft()
        stream.freed = weakref.finalize(stream, self._free.append, slot)
        return slot

    def compute(self, given: dict[str, Tensor], frames: int, starting: bool) -> Tensor:
        """All that happens on the device: [B, frames * 480 + 8] overlap-added samples, not yet normalised."""
        slots, starts, counts = given["slots"], given["starts"], given["counts"]
        mel = given["mel"].transpose(1, 2)
        memory = Memory(*(part[slots] for part in (self._table.network, self._table.pitch, self._table.phase)))
        if starting:
            hop = self.network.config.samples_per_frame
            noise = self._noise[:hop].expand(len(slots), -1)
            primed = prime(self.network, self._layout, mel[:, :, : LOOK_RIGHT + 1], noise)
            memory = Memory(
                torch.where(starts, primed.network, memory.network),
                torch.where(starts, primed.pitch, memory.pitch),
                torch.where(starts, primed.phase, memory.phase),
            )
        noise = self._noise_from(given["decoded"] + 1, frames)
        samples, after = advance(
            self.network, self._layout, memory, mel, noise, counts, starts if starting else None, given["last"]
        )
        self._table.network[slots] = after.network
        self._table.pitch[slots] = after.pitch
        self._table.phase[slots] = after.phase
        return samples
