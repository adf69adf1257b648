"""The times of the Euler solver."""

import torch
from torch import Tensor

from oscine_engine.config import CFMConfig
from oscine_engine.errors import CheckpointError


def time_span(config: CFMConfig, n_timesteps: int) -> Tensor:
    """`n_timesteps` + 1 times from 0 to 1, float32; denser near 0 under the cosine schedule.

    Raises CheckpointError for a schedule or solver other than CosyVoice3's.
    """
    if config.solver != "euler" or config.t_scheduler not in ("cosine", "linear"):
        raise CheckpointError(
            f"flow: solver {config.solver!r} with schedule {config.t_scheduler!r} is unknown; "
            "this engine has euler with cosine or linear"
        )
    span = torch.linspace(0, 1, n_timesteps + 1)
    return 1 - torch.cos(span * 0.5 * torch.pi) if config.t_scheduler == "cosine" else span


def euler_steps(span: Tensor) -> tuple[Tensor, Tensor]:
    """Times at which the velocity is taken and the step lengths, both float32 [len(span) - 1].

    Time is summed and each length measured from the sum, as upstream does, so rounding does not pile up at the end.
    """
    time, length = span[0], span[1] - span[0]
    times, lengths = [], []
    for target in span[2:]:
        times.append(time)
        lengths.append(length)
        time = time + length
        length = target - time
    return torch.stack([*times, time]), torch.stack([*lengths, length])
