"""Band-limited resampling by a windowed sinc (J. O. Smith, "Digital Audio Resampling")."""

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from oscine_engine.errors import InvalidInput

_ZERO_CROSSINGS = 6
_ROLLOFF = 0.99
_LARGEST_KERNEL = 20_000_000


def resample(audio: Tensor, source_rate: int, target_rate: int) -> Tensor:
    """[..., n] at `source_rate` Hz -> [..., ceil(n * target_rate / source_rate)] at `target_rate` Hz.

    Raises InvalidInput for rates that are not positive, or so nearly coprime that the filter would not fit in memory.
    """
    if source_rate <= 0 or target_rate <= 0:
        raise InvalidInput(f"sample rates must be positive, not {source_rate} and {target_rate}")
    if source_rate == target_rate:
        return audio
    common = math.gcd(source_rate, target_rate)
    source, target = source_rate // common, target_rate // common
    reach = math.ceil(_ZERO_CROSSINGS * source / (min(source, target) * _ROLLOFF))
    if target * (2 * reach + source) > _LARGEST_KERNEL:
        raise InvalidInput(
            f"cannot resample {source_rate} Hz to {target_rate} Hz: the rates have too small a common divisor; "
            "use a usual rate such as 16000, 22050, 24000, 44100 or 48000"
        )
    length = -(-audio.shape[-1] * target // source)
    signal = F.pad(audio.float().reshape(-1, 1, audio.shape[-1]), (reach, reach + source))
    with torch.autocast(audio.device.type, enabled=False):
        phases = F.conv1d(signal, _kernel(source, target, reach, audio.device), stride=source)
    return phases.transpose(1, 2).reshape(*audio.shape[:-1], -1)[..., :length]


# Kept for whoever comes next, who may want gradients: so never an inference tensor.
@lru_cache(maxsize=8)
@torch.inference_mode(False)
def _kernel(source: int, target: int, reach: int, device: torch.device) -> Tensor:
    """float32 [target, 1, 2 * reach + source]: one filter for each position of an output sample between inputs."""
    cutoff = min(source, target) * _ROLLOFF
    inputs = torch.arange(-reach, reach + source, dtype=torch.float64) / source
    outputs = torch.arange(target, dtype=torch.float64) / target
    crossings = ((inputs - outputs[:, None]) * cutoff).clamp(-_ZERO_CROSSINGS, _ZERO_CROSSINGS)
    window = torch.cos(crossings * (math.pi / 2 / _ZERO_CROSSINGS)).square()
    return (torch.sinc(crossings) * window * (cutoff / source)).float()[:, None].to(device)
