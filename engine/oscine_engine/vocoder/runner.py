"""Batches streams of different ages and lengths through one vocoder step."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oscine_engine.errors import CheckpointError, InternalError, InvalidInput
from oscine_engine.vocoder.advance import Memory, advance, layouts, prime
from oscine_engine.vocoder.f0 import LOOK_RIGHT
from oscine_engine.vocoder.fold import folded
from oscine_engine.vocoder.network import HiFT
from oscine_engine.vocoder.stream import VocoderStream

Samples = NDArray[np.float32]


class Row(NamedTuple):
    """One stream in this step: `mel` [n, 80] is all that waits, and so many `frames` of it can be decoded, if above
    0."""

    place: int
    stream: VocoderStream
    mel: NDArray[np.float32]
    frames: int
    last: bool

    def head(self, frames: int) -> "Row":
        """The first `frames`, as if more were to come."""
        return self._replace(frames=frames, last=False)

    def tail(self, frames: int) -> "Row":
        """What is left behind them."""
        return self._replace(mel=self.mel[frames:], frames=self.frames - frames)


class VocoderRunner:
    """Steps any number of streams over one network.

    After T frames of a stream, (T - 4) * 480 - 8 samples of it are out, and T * 480 once its last frame has been said
    to be the last. They equal those of the whole mel at once, up to rounding, however it is cut.
    """

    def __init__(self, network: HiFT, sine_waves: Tensor) -> None:
        """`sine_waves`: uniform noise in [0, 1), [1, n, 9] or [n, 9]; repeated if a stream is longer than n samples."""
        config = network.config
        self._ahead = config.conv_pre_look_right
        """Frames that wait for what comes, but for a stream's last ones."""
        if self._ahead != LOOK_RIGHT + 1:
            raise CheckpointError(f"vocoder: conv_pre_look_right must be {LOOK_RIGHT + 1}, not {self._ahead}")
        if sine_waves.shape[-1] != config.nb_harmonics + 1 or sine_waves.numel() == 0:
            raise CheckpointError(
                f"vocoder: the sine noise must be [1, n, {config.nb_harmonics + 1}], not {tuple(sine_waves.shape)}"
            )
        self.network = folded(network)
        weight = self.network.m_source.l_linear.weight
        self.device = weight.device
        self._layout = layouts(self.network)
        self._noise = sine_waves.reshape(-1, sine_waves.shape[-1]).to(weight) @ weight.detach()[0]
        spectrum, half = self.network.spectrum, config.istft.n_fft // 2
        gain = spectrum.gain(4 * spectrum.overlap).cpu().numpy()
        edge = spectrum.overlap * config.istft.hop_len - half
        self._head, self._tail = gain[half : half + edge], gain[len(gain) - half - edge : len(gain) - half]
        self._steady = gain[len(gain) // 2]

    def open(self) -> VocoderStream:
        """A stream that has heard nothing yet."""
        return VocoderStream.empty(self.network.config.in_channels)

    @torch.inference_mode()
    def step(self, work: Sequence[tuple[VocoderStream, Tensor, bool]]) -> list[Samples]:
        """Feed each stream its new mel frames [n, 80] (n may be 0), and whether they are its last.

        Returns each stream's new samples, float32 in [-0.99, 0.99] at 24 kHz, possibly none. If it raises no stream
        has changed, so that the one at fault can be found by stepping them one by one.
        Raises InvalidInput for a mel of another shape, InternalError for a stream that has ended or is listed twice.
        """
        self._check(work)
        outputs: list[Samples] = [np.zeros(0, np.float32)] * len(work)
        received = [self._receive(place, *item) for place, item in enumerate(work)]
        if rows := [row for row in received if row.frames > 0]:
            for row, samples in zip(rows, self._decode(rows), strict=True):
                outputs[row.place] = samples
        for row in received:
            row.stream.pending = row.mel[max(0, row.frames) :]
            row.stream.ended = row.last
        return outputs

    def _check(self, work: Sequence[tuple[VocoderStream, Tensor, bool]]) -> None:
        channels = self.network.config.in_channels
        for stream, mel, _ in work:
            if mel.dim() != 2 or mel.shape[1] != channels:
                raise InvalidInput(f"mel must be [frames, {channels}], not {list(mel.shape)}")
            if stream.ended:
                raise InternalError("this vocoder stream has had its last frame; open another")
        if len({id(stream) for stream, _, _ in work}) != len(work):
            raise InternalError("a vocoder stream may occur only once in a step")

    def _receive(self, place: int, stream: VocoderStream, mel: Tensor, last: bool) -> Row:
        # NumPy joins arrays of this size in a fraction of torch's time.
        waiting = np.concatenate((stream.pending, mel.float().cpu().numpy()))
        return Row(place, stream, waiting, len(waiting) - (0 if last else self._ahead), last)

    def _decode(self, rows: list[Row]) -> list[Samples]:
        frames = max(row.frames for row in rows)
        held = np.zeros((len(rows), frames + self._ahead, self.network.config.in_channels), np.float32)
        for index, row in enumerate(rows):
            held[index, : len(row.mel)] = row.mel
        mel = torch.from_numpy(held).to(self.device).transpose(1, 2)
        starting = [index for index, row in enumerate(rows) if row.stream.memory is None]
        before = self._gather([row.stream for row in rows], starting, mel[starting])
        starts, last = self._flags([row.stream.decoded == 0 for row in rows]), self._flags([row.last for row in rows])
        ragged = last is not None or any(row.frames != frames for row in rows)
        samples, after = advance(
            self.network,
            self._layout,
            before,
            mel,
            self._noise_at([row.stream.decoded + 1 for row in rows], frames),
            torch.tensor([row.frames for row in rows], device=self.device) if ragged else None,
            starts,
            last,
        )
        finished = [self.finish(row, wave) for row, wave in zip(rows, samples.cpu().numpy(), strict=True)]
        self._scatter(rows, after)
        return finished

    def _flags(self, values: list[bool]) -> Tensor | None:
        """bool [B, 1], or None if all are false."""
        return torch.tensor(values, device=self.device)[:, None] if any(values) else None

    def _noise_at(self, frames: list[int], count: int) -> Tensor:
        """Merged noise [B, count * 480] from each of the given frames on."""
        return self._noise_from(torch.tensor(frames, device=self.device), count)

    def _noise_from(self, frames: Tensor, count: int) -> Tensor:
        hop = self.network.config.samples_per_frame
        start = frames * hop
        return self._noise[(start[:, None] + torch.arange(count * hop, device=self.device)) % self._noise.shape[0]]

    def _gather(self, streams: list[VocoderStream], starting: list[int], mel: Tensor) -> Memory:
        """The streams' pasts as one; those at the places `starting`, whose first mel is `mel`, have none yet."""
        pasts = [(stream.memory, stream.pitch, stream.phase) for stream in streams]
        if starting:
            rows = prime(
                self.network, self._layout, mel[:, :, : LOOK_RIGHT + 1], self._noise_at([0] * len(starting), 1)
            )
            for place, *past in zip(starting, rows.network, rows.pitch, rows.phase, strict=True):
                pasts[place] = (past[0], past[1], past[2])
        memory, pitch, phase = zip(*pasts, strict=True)
        return Memory(torch.stack(memory), torch.stack(pitch), torch.stack(phase))

    @staticmethod
    def _scatter(rows: list[Row], after: Memory) -> None:
        for index, row in enumerate(rows):
            stream = row.stream
            stream.decoded += row.frames
            if row.last:
                stream.memory = stream.pitch = stream.phase = None
            else:
                # Copies, so that a row does not keep its whole batch alive.
                stream.memory = after.network[index].clone()
                stream.pitch, stream.phase = after.pitch[index].clone(), after.phase[index].clone()

    def finish(self, row: Row, wave: Samples) -> Samples:
        """Normalise, trim and clamp one row of overlap-added samples."""
        config = self.network.config
        half = config.istft.n_fft // 2
        out: Samples = wave[: row.frames * config.samples_per_frame + (half if row.last else 0)] * self._steady
        if row.last:
            out[len(out) - len(self._tail) :] *= self._tail / self._steady
        if row.stream.decoded == 0:
            out = out[half:]
            out[: len(self._head)] *= self._head / self._steady
        return out.clip(-config.audio_limit, config.audio_limit)
