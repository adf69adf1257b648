"""Faster and slower speech: mel frames drawn closer together or further apart on their way to the vocoder.

As the released code changes speed, by linear interpolation of the whole mel, but for a stream: frame i of the sound is
taken at (i + 0.5) * speed - 0.5 of what the flow solved, which needs the frames on both sides of that place and no
others. Pitch stays, since the vocoder finds it in the frames. There are int(frames / speed) in all.

What the flow solved up to time t sounds at t / speed, whatever the chunks were.
"""

import torch
from torch import Tensor


class Tempo:
    """One sentence's frames on their way. speed: above 0; at 1.0 they pass as they are."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self._taken = 0
        self._made = 0
        self._before: Tensor | None = None
        """The last frame that came, which the next one out may lie behind."""

    def push(self, mel: Tensor, last: bool) -> Tensor:
        """The frames [m, 80] that are due with the next ones, mel [n, 80]; all that are left if they are the last."""
        if self.speed == 1.0:
            return mel
        here = mel if self._before is None else torch.cat((self._before, mel))
        first = self._taken - (len(here) - len(mel))
        self._taken += len(mel)
        if not len(here):
            return mel
        self._before = here[-1:]
        made, self._made = self._made, self._due(last)
        # Places are exact in float64 for hours of frames.
        places = (torch.arange(made, self._made, dtype=torch.float64) + 0.5) * self.speed - 0.5 - first
        places = places.clamp(0, len(here) - 1)
        below = places.long()
        above = (below + 1).clamp(max=len(here) - 1)
        return torch.lerp(here[below], here[above], (places - below)[:, None].to(here.dtype))

    def _due(self, last: bool) -> int:
        """How many frames can be made in all by now."""
        if last:
            return max(self._made, int(self._taken / self.speed), 1)
        # The next frame out needs the one above its place: (i + 0.5) * speed - 0.5 <= taken - 1.
        return max(self._made, int((self._taken - 0.5) / self.speed + 0.5))
