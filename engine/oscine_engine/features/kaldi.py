"""Kaldi's log mel filterbank, which the speaker encoder takes in."""

import torch
import torch.nn.functional as F
from torch import Tensor

from oscine_engine.errors import InvalidInput
from oscine_engine.features.filterbanks import kaldi

_RATE = 16000
_WINDOW = 400
_HOP = 160
_FFT = 512
_PRE_EMPHASIS = 0.97
_FLOOR = torch.finfo(torch.float32).eps


def kaldi_fbank80(audio: Tensor) -> Tensor:
    """Log mel powers of 16 kHz audio: [n] -> [T, 80], [B, n] -> [B, T, 80], T = (n - 400) // 160 + 1; natural log.

    No dither, no scaling to 16 bit, edges not padded; the mean over time is left in.
    Raises InvalidInput below 400 samples.
    """
    if audio.dim() not in (1, 2) or audio.shape[-1] < _WINDOW:
        raise InvalidInput(f"audio must be [n] or [B, n] with at least {_WINDOW} samples, not {list(audio.shape)}")
    with torch.autocast(audio.device.type, enabled=False):
        frames = audio.float().unfold(-1, _WINDOW, _HOP)
        frames = frames - frames.mean(-1, keepdim=True)
        before = torch.cat((frames[..., :1], frames[..., :-1]), dim=-1)
        # Povey's window: a symmetric Hann window to the power of 0.85.
        window = torch.hann_window(_WINDOW, periodic=False, device=audio.device).pow(0.85)
        frames = (frames - _PRE_EMPHASIS * before) * window
        spectrum = torch.view_as_real(torch.fft.rfft(F.pad(frames, (0, _FFT - _WINDOW))))
        power = spectrum.square().sum(-1)
        return torch.matmul(power, kaldi(_RATE, _FFT, 80, 20.0, audio.device).t()).clamp_min(_FLOOR).log()
