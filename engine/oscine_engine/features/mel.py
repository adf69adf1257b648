"""The two Slaney mel spectrograms: the model's own acoustic one at 24 kHz and Whisper's at 16 kHz."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from oscine_engine.errors import InvalidInput
from oscine_engine.features.filterbanks import slaney

MEL_RATE = 24000
MEL_HOP = 480
WHISPER_RATE = 16000
WHISPER_HOP = 160


def mel24k(audio: Tensor) -> Tensor:
    """Log mel magnitudes of 24 kHz audio: [n] -> [80, n // 480], [B, n] -> [B, 80, n // 480]; natural log, >= ln(1e-5).

    Frame t covers the 480 samples from 480 t on (window 1920, reflected edges). Raises InvalidInput below 721 samples.
    """
    return _batched(audio, _mel24k, 721)


def whisper128(audio: Tensor) -> Tensor:
    """Whisper's 128-bin spectrogram of 16 kHz audio: [n] -> [128, n // 160], [B, n] -> [B, 128, n // 160].

    The ceiling of its 80 dB range is each signal's own loudest bin; nothing is padded to 30 s.
    Raises InvalidInput below 201 samples.
    """
    return _batched(audio, _whisper128, 201)


def _batched(audio: Tensor, feature: Callable[[Tensor], Tensor], least: int) -> Tensor:
    if audio.dim() not in (1, 2) or audio.shape[-1] < least:
        raise InvalidInput(f"audio must be [n] or [B, n] with at least {least} samples, not {list(audio.shape)}")
    with torch.autocast(audio.device.type, enabled=False):
        result = feature(audio.float().reshape(-1, audio.shape[-1]))
    return result if audio.dim() == 2 else result[0]


def _bins(padded: Tensor, n_fft: int, hop: int) -> Tensor:
    """Complex spectrum under a periodic Hann window, without further padding: [B, n] -> [B, n_fft // 2 + 1, T]."""
    window = torch.hann_window(n_fft, device=padded.device)
    return torch.stft(padded, n_fft, hop, window=window, center=False, return_complex=True)


def _reflected(audio: Tensor, edge: int) -> Tensor:
    return F.pad(audio[:, None], (edge, edge), mode="reflect")[:, 0]


def _mel24k(audio: Tensor) -> Tensor:
    spectrum = torch.view_as_real(_bins(_reflected(audio, (1920 - MEL_HOP) // 2), 1920, MEL_HOP))
    magnitude = (spectrum.square().sum(-1) + 1e-9).sqrt()
    return torch.matmul(slaney(MEL_RATE, 1920, 80, audio.device), magnitude).clamp_min(1e-5).log()


def _whisper128(audio: Tensor) -> Tensor:
    spectrum = torch.view_as_real(_bins(_reflected(audio, 200), 400, WHISPER_HOP)[:, :, :-1])
    power = spectrum.square().sum(-1)
    level = torch.matmul(slaney(WHISPER_RATE, 400, 128, audio.device), power).clamp_min(1e-10).log10()
    return (torch.maximum(level, level.amax((1, 2), keepdim=True) - 8) + 4) / 4
