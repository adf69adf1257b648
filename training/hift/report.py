"""What a run of the vocoder leaves behind for people."""

from __future__ import annotations

import csv
import wave
from pathlib import Path

from torch import Tensor

from training.hift.losses import RATE


class Log:
    """A CSV file that grows over several runs. Columns are fixed by the first line."""

    COLUMNS = (
        *("steps", "seconds", "mel", "heard", "loud", "f0", "voicing_error", "pitch_error", "norm", "f0_norm"),
        *("fooled", "feature", "judge", "judge_norm", "valid_mel", "valid_voicing", "valid_pitch"),
    )

    def __init__(self, path: Path) -> None:
        new = not path.exists()
        self.file = path.open("a", newline="")
        self.writer = csv.DictWriter(self.file, self.COLUMNS, restval="")
        if new:
            self.writer.writeheader()

    def write(self, row: dict[str, float]) -> None:
        rounded = {name: f"{value:.5g}" if isinstance(value, float) else value for name, value in row.items()}
        self.writer.writerow(rounded)
        self.file.flush()
        print(" ".join(f"{name} {value}" for name, value in rounded.items()), flush=True)


def write_wav(path: Path, samples: Tensor) -> None:
    """Write mono samples in [-1, 1] as 16 bit at 24 kHz."""
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes((samples * 32767).short().cpu().numpy().tobytes())
