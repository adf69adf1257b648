"""F0, source and overlap-add of streams in slots, before and behind the convolution stack."""

from typing import NamedTuple

import torch
from torch import Tensor

from oscine_engine.errors import CheckpointError
from oscine_engine.runtime.kernels import vocoder as kernels
from oscine_engine.runtime.kernels.vocoder import Analysis, Batch, Gain, Voice
from oscine_engine.vocoder.network import LOUDEST, HiFT


class Pitch:
    """F0 and the excitation's harmonics. A stream's row of `size` float64: every layer's past, then the phase."""

    def __init__(self, network: HiFT) -> None:
        """`network` must be folded."""
        config, predictor = network.config, network.f0_predictor
        layers = [conv.exact() for conv in predictor.convs]
        self._taps = [weight.shape[2] for weight, _ in layers]
        self._weights = [weight.permute(2, 1, 0).flatten(0, 1).contiguous() for weight, _ in layers]
        self._biases = [bias for _, bias in layers]
        if any(conv.dilation[0] != 1 for conv in predictor.convs):
            raise CheckpointError("vocoder: the convolutions of the F0 predictor must not be dilated")
        self._last = predictor.classifier.weight[0].double(), predictor.classifier.bias.double()
        merge = network.m_source.l_linear
        self._merge = merge.weight.detach()[0].contiguous(), merge.bias.detach()
        self._voice = Voice(
            rate=config.sampling_rate,
            frame=config.samples_per_frame,
            alpha=config.nsf_alpha,
            sigma=config.nsf_sigma,
            threshold=config.nsf_voiced_threshold,
        )
        width, order = self._biases[0].shape[0], config.nb_harmonics + 1
        self._parts = [((taps - 1) * width, (taps - 1, width)) for taps in self._taps[1:]] + [(order, (order,))]
        self.size = sum(size for size, _ in self._parts)

    def phase(self, row: Tensor) -> Tensor:
        """The running phase in a row, in turns a sample: [H]."""
        return row[-self._parts[-1][0] :]

    def __call__(self, mel: Tensor, before: Tensor, after: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """mel [B, L + 4, 80], rows [B, size] -> held and loud [B, L + 1], see `kernels.excite`; fills `after`."""
        known, kept = self._split(before), self._split(after)
        x = kernels.mel_windows(mel, self._taps[0])
        y = self._layer(x, 0)
        for index, (past, to) in enumerate(zip(known[:-1], kept[:-1], strict=True), 1):
            y = self._layer(kernels.pitch_windows(y, past, to, batch, self._taps[index]), index)
        f0 = kernels.pitch(y, *self._last)
        return kernels.excite(f0, known[-1], kept[-1], *self._merge, batch, self._voice)

    def _layer(self, x: Tensor, index: int) -> Tensor:
        y = torch.addmm(self._biases[index], x.flatten(0, 1), self._weights[index])
        return y.view(x.shape[0], x.shape[1], -1)

    def _split(self, rows: Tensor) -> list[Tensor]:
        parts = torch.split(rows, [size for size, _ in self._parts], dim=1)
        return [part.view(-1, *shape) for part, (_, shape) in zip(parts, self._parts, strict=True)]


class Parts(NamedTuple):
    """What the source's row holds: source [B, n], spectrum [B, kept, bins], pieces [B, overlap, n_fft], the last
    stage's column [B, C]."""

    source: Tensor
    spectrum: Tensor
    pieces: Tensor
    column: Tensor


class Edges:
    """From harmonics to the source's spectrum, and from raw bins to samples. A stream's row is `size` float32."""

    def __init__(self, network: HiFT, noise: Tensor, width: int, gain: Gain) -> None:
        """noise: merged, float32 [n]. width: channels of the last stage. gain: what samples are multiplied by."""
        config, spectrum = network.config, network.spectrum
        self._analysis = Analysis(spectrum.analysis.contiguous(), spectrum.hop, network.strides[0])
        self._synthesis = spectrum.synthesis.contiguous()
        self._gain = gain
        self._noise, self._frame = noise.contiguous(), config.samples_per_frame
        self._rate = config.samples_per_frame // spectrum.hop
        self._shapes = (
            (self._analysis.early + self._frame,),
            (self._analysis.kept, spectrum.n_fft + 2),
            (spectrum.overlap, spectrum.n_fft),
            (width,),
        )
        self._sizes = [torch.Size(shape).numel() for shape in self._shapes]
        self.size = sum(self._sizes)

    def parts(self, rows: Tensor) -> Parts:
        parts = torch.split(rows, self._sizes, dim=1)
        return Parts(*(part.view(-1, *shape) for part, shape in zip(parts, self._shapes, strict=True)))

    def spectrum(
        self,
        held: Tensor,
        loud: Tensor,
        decoded: Tensor,
        before: Parts,
        after: Parts,
        batch: Batch,
        dtype: torch.dtype,
    ) -> Tensor:
        """As `kernels.analyse`."""
        past, behind = before[:2], after[:2]
        return kernels.analyse(
            held, loud, self._noise, decoded, past, behind, batch, self._analysis, self._frame, dtype
        )

    def wave(self, bins: Tensor, before: Parts, after: Parts, out: Tensor, batch: Batch) -> None:
        """As `kernels.synthesise`."""
        matrix = self._synthesis
        kernels.synthesise(bins, matrix, before.pieces, after.pieces, out, batch, self._rate, LOUDEST, self._gain)
