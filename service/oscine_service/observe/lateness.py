"""How late the event loop comes to what is due: what a service that has too much to do adds to each packet."""

import asyncio

from prometheus_client import CollectorRegistry, Histogram

EVERY_S = 0.25
BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


class Lateness:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._late = Histogram(
            "oscine_event_loop_late_seconds",
            "How long after it was due the event loop of the service did something, tried four times a second",
            buckets=BOUNDS,
            registry=registry,
        )

    async def watching(self) -> None:
        """Look for as long as it runs."""
        now = asyncio.get_running_loop().time
        while True:
            due = now() + EVERY_S
            await asyncio.sleep(EVERY_S)
            self._late.observe(max(0.0, now() - due))
