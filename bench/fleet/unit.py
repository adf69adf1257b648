"""`oscine serve` with a replay in the place of its engine, as bench.fleet starts it.

BENCH_RECORDING=NUMBER BENCH_SECONDS=S python -m bench.fleet.unit serve ...

Each stream says so many seconds of the recording of that number, from a place that its seed tells: whoever hears it
knows which unit spoke, and whether every sample came. Doors, health, drain and signals are those of the command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
from numpy.typing import NDArray

from bench.transport.replay import RATE, ReplayPort
from oscine_engine.front import Front, VoiceInfo, read_front_end
from oscine_service import assembled
from oscine_service.cli import main
from oscine_service.config.model import Settings
from oscine_service.limits import Limits

RECORDING, SECONDS = "BENCH_RECORDING", "BENCH_SECONDS"
LENGTH = RATE * 3 // 2


def recording(number: int) -> NDArray[np.float32]:
    """No two are alike anywhere."""
    return np.random.default_rng(number).uniform(-0.5, 0.5, LENGTH).astype(np.float32)


@asynccontextmanager
async def replay(settings: Settings, limits: Limits) -> AsyncIterator[tuple[Front, None]]:
    port = ReplayPort(recording(int(os.environ[RECORDING])), float(os.environ[SECONDS]))
    front = Front(port, read_front_end(None), {"replay": VoiceInfo("en", "")}, RATE)
    front.warm()
    yield front, None


if __name__ == "__main__":
    assembled.engine = replay
    sys.exit(main())
