"""One streaming step of the vocoder as functions of tensors.

With m frames decoded before and L new ones, F0 and source run one frame ahead: over frames m + 1 .. m + L. The source
spectrum then reaches column 120 (m + L), which is what the downsampling convolutions of the last new frame read. The
first frame's F0 and source are made by `prime`.
"""

import math
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from oscine_engine.vocoder.carry import Carried, Layout
from oscine_engine.vocoder.f0 import LOOK_RIGHT
from oscine_engine.vocoder.layers import Past
from oscine_engine.vocoder.network import HiFT


@dataclass(frozen=True, slots=True)
class Memory:
    """Rows of B streams: past of the network [B, S], of the F0 predictor float64 [B, P], phase float64 [B, H]."""

    network: Tensor
    pitch: Tensor
    phase: Tensor


class Geometry:
    """The sizes of a step, in samples unless said otherwise."""

    def __init__(self, network: HiFT) -> None:
        config = network.config
        self.hop = config.istft.hop_len
        self.half = config.istft.n_fft // 2
        self.frame = config.samples_per_frame
        self.columns = math.prod(config.upsample_rates)
        self.early = self.half - self.hop
        # The source's past: the frame it runs ahead, and what the first new spectrum column reads before that.
        self.kept = self.early + self.frame
        self.spectrum_kept = network.strides[0]


def layouts(network: HiFT) -> tuple[Layout, Layout]:
    """What the network and its F0 predictor keep of a stream."""
    config, geometry = network.config, Geometry(network)
    weight = network.m_source.l_linear.weight
    mel = torch.zeros(1, config.in_channels, 1 + config.conv_pre_look_right, device=weight.device)
    source = torch.zeros(1, geometry.frame, device=weight.device)

    def decode(past: Past) -> None:
        synthesise(network, geometry, mel, source, past)

    def predict(past: Past) -> None:
        network.f0_predictor.predict(mel[:, :, : 1 + LOOK_RIGHT].double(), past)

    return Layout.of(decode), Layout.of(predict)


def excite(network: HiFT, f0: Tensor, noise: Tensor, phase: Tensor | None) -> tuple[Tensor, Tensor]:
    """Hz [B, L], merged noise [B, L * 480] and phase [B, H] -> (source [B, L * 480], running phase [B, L, H]).

    The merging layer is linear, so it is applied to one sine value a frame and, once for all, to the noise.
    """
    source = network.m_source
    sines, running = source.harmonics(f0, phase)
    batch, frames = f0.shape
    held = source.l_linear(sines) + source.loudness(f0) * noise.view(batch, frames, -1)
    return torch.tanh(held).view(batch, -1), running


def prime(network: HiFT, layout: tuple[Layout, Layout], mel: Tensor, noise: Tensor) -> Memory:
    """The rows of B streams before their first frame: mel [B, 80, 4] (zeros past an early end), noise [B, 480]."""
    geometry, batch = Geometry(network), mel.shape[0]
    past = Carried(layout[1], mel.new_zeros(batch, layout[1].size, dtype=torch.float64), 1)
    f0 = network.f0_predictor.predict(mel.double(), past).float()
    source, running = excite(network, f0, noise, None)
    edge = source[:, 1 : geometry.half + 1].flip(1)
    first = network.spectrum.frames(torch.cat((edge, source[:, : geometry.half]), dim=1))
    kept = torch.cat((source[:, 1 : geometry.early + 1].flip(1), source), dim=1)
    spectrum = F.pad(first, (geometry.spectrum_kept - 1, 0))
    memory = torch.cat((kept, spectrum.transpose(1, 2).flatten(1)), dim=1)
    # The first two entries of the network's layout, in the order `synthesise` asks for them; silence after that.
    return Memory(F.pad(memory, (0, layout[0].size - memory.shape[1])), past.after, running[:, -1])


def synthesise(
    network: HiFT,
    geometry: Geometry,
    mel: Tensor,
    source: Tensor,
    past: Past,
    lengths: Tensor | None = None,
    last: Tensor | None = None,
) -> Tensor:
    """mel [B, 80, L + 4] and source [B, L * 480], one frame ahead -> [B, n] overlap-added samples, not yet normalised.

    n is L * 480, or 8 more where some stream ends: `last` bool [B, 1] says which, at frame `lengths` int64 [B].
    """
    frames = mel.shape[2] - network.config.conv_pre_look_right
    heard = past.extend(source[:, None], geometry.kept)[:, 0]
    signal = heard[:, : frames * geometry.frame + geometry.half + geometry.early]
    if last is not None and lengths is not None:
        signal = _reflected(signal, lengths * geometry.frame + geometry.early - 1, last)
    spectrum = past.extend(network.spectrum.frames(signal), geometry.spectrum_kept)
    bins = network.bins(cast(Tensor, network.conv_pre(mel)), spectrum, past)
    pieces = network.spectrum.pieces(*network.polar(bins))
    if last is not None and lengths is not None:
        # Past its end a stream is silent, and one block more is due.
        valid = torch.arange(pieces.shape[2], device=mel.device) <= lengths[:, None] * geometry.columns
        pieces = F.pad(pieces * valid[:, None], (0, 1))
    return network.spectrum.add(past.extend(pieces, network.spectrum.overlap))


def _reflected(signal: Tensor, end: Tensor, last: Tensor) -> Tensor:
    """[B, n] with what follows position `end` [B] replaced by its mirror image, in rows where `last` [B, 1]."""
    index = torch.arange(signal.shape[1], device=signal.device).expand(signal.shape)
    mirror = (2 * end[:, None] - index).clamp_min(0)
    return signal.gather(1, torch.where(last & (index > end[:, None]), mirror, index))


def advance(
    network: HiFT,
    layout: tuple[Layout, Layout],
    memory: Memory,
    mel: Tensor,
    noise: Tensor,
    lengths: Tensor | None = None,
    starts: Tensor | None = None,
    last: Tensor | None = None,
) -> tuple[Tensor, Memory]:
    """Decode up to L frames of B streams.

    mel: [B, 80, L + 4], each row its own frames, then zeros. noise: merged, [B, L * 480], from the second new frame on.
    lengths: int64 [B], each at most L, or None if all are L. starts, last: bool [B, 1], or None if no
    row starts or ends here; `lengths` must be given with `last`.
    Returns samples [B, n] not yet normalised (see `synthesise`) and the rows for the next step.
    """
    frames = mel.shape[2] - network.config.conv_pre_look_right
    pitch = Carried(layout[1], memory.pitch, frames, lengths)
    f0 = network.f0_predictor.predict(mel[:, :, 1:].double(), pitch).float()
    source, running = excite(network, f0, noise, memory.phase)
    past = Carried(layout[0], memory.network, frames, lengths, starts, last is not None)
    samples = synthesise(network, Geometry(network), mel, source, past, lengths, last)
    if lengths is None:
        phase = running[:, -1]
    else:
        phase = running.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, running.shape[2]))[:, 0]
    return samples, Memory(past.after, pitch.after, phase)
