"""A replica with a replay for its engine, whose recording is that of its process: whoever hears it knows who spoke."""

from __future__ import annotations

import os

from ray import serve

from bench.fleet.unit import RECORDING, replay
from oscine_service import assembled
from oscine_service.ray_serve.scaling import PLACES, STREAMS
from oscine_service.ray_serve.unit import Replica

PLACES_OF_ONE = 4
"""That a replay says it has, for what scales by them; it takes any number."""


class Replayed(Replica):
    async def __init__(self) -> None:
        os.environ[RECORDING] = str(os.getpid())
        assembled.engine = replay  # type: ignore[assignment]
        await super().__init__()

    async def record_autoscaling_stats(self) -> dict[str, float]:
        return {STREAMS: self._calls.running, PLACES: PLACES_OF_ONE}


Unit = serve.deployment(name="unit")(serve.ingress()(Replayed))
