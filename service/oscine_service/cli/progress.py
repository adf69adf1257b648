"""What is happening, as one line on standard error."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from oscine_engine.events import Audio, Stats


class Progress:
    """On a terminal the line is rewritten as speech comes; elsewhere the first packet gets a line, and the end one."""

    def __init__(self, sample_rate: int) -> None:
        self._rate = sample_rate
        self._live = sys.stderr.isatty()
        self._first_packet_s: float | None = None

    def heard(self, event: Audio, first_packet_s: float | None, busy_s: float | None) -> None:
        """Audio came; `first_packet_s` and `busy_s` as `Stats` has them, up to now."""
        self._first_packet_s = first_packet_s
        if self._live:
            audio_s = (event.start_sample + event.samples.size) / self._rate
            self._show(_line(first_packet_s, audio_s, busy_s))
        elif event.seq == 0 and first_packet_s is not None:
            self._show(f"first packet after {1000 * first_packet_s:.0f} ms\n")

    def done(self, stats: Stats) -> None:
        """The last line. Its first packet is the one that was shown, as it was seen from here, if one was."""
        first_packet_s = stats.first_packet_s if self._first_packet_s is None else self._first_packet_s
        self._show(_line(first_packet_s, stats.audio_s, stats.busy_s) + "\n")
        if stats.unspoken_characters:
            self._show(f"left out: {stats.unspoken_characters} letters, of a script that this model does not read\n")

    def _show(self, text: str) -> None:
        erase = "\r\x1b[K" if self._live else ""
        print(erase + text, end="", file=sys.stderr, flush=True)


class Bar:
    """How far a list of `total` is: a bar on a terminal, elsewhere a line at each tenth of the way."""

    WIDTH = 30

    def __init__(self, total: int) -> None:
        self._total = total
        self._live = sys.stderr.isatty()
        self._began = time.monotonic()
        self._done = self._failed = self._tenths = 0
        self._seconds = 0.0
        if self._live:
            self._show()

    def step(self, seconds: float, *, failed: bool) -> None:
        """One more is done: so much speech, or a failure."""
        self._done += 1
        self._failed += failed
        self._seconds += seconds
        tenths = 10 * self._done // self._total
        if self._live or tenths > self._tenths:
            self._show()
        self._tenths = tenths

    def end(self) -> None:
        """Whatever is printed next gets a line of its own."""
        if self._live:
            print(file=sys.stderr)

    def _show(self) -> None:
        took = time.monotonic() - self._began
        filled = self.WIDTH * self._done // self._total
        parts = [f"[{'#' * filled}{'.' * (self.WIDTH - filled)}] {self._done}/{self._total}"]
        if self._failed:
            parts.append(f"{self._failed} failed")
        if self._seconds and took > 0:
            parts.append(f"{self._seconds / took:.1f} times real time")
        if self._done and self._done < self._total:
            parts.append(f"{_minutes(took / self._done * (self._total - self._done))} left")
        erase, end = ("\r\x1b[K", "") if self._live else ("", "\n")
        print(erase + ", ".join(parts), end=end, file=sys.stderr, flush=True)


def _minutes(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


@asynccontextmanager
async def waiting(what: str) -> AsyncIterator[None]:
    """Show, on a terminal, how long the block has taken so far; leave nothing of that behind."""
    if not sys.stderr.isatty():
        yield
        return
    showing = asyncio.create_task(_count(what, time.monotonic()))
    try:
        yield
    finally:
        showing.cancel()
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


async def _count(what: str, since: float) -> None:
    while True:
        print(f"\r\x1b[K{what}: {time.monotonic() - since:.0f} s", end="", file=sys.stderr, flush=True)
        await asyncio.sleep(1)


def _line(first_packet_s: float | None, audio_s: float, busy_s: float | None) -> str:
    parts = [] if first_packet_s is None else [f"first packet after {1000 * first_packet_s:.0f} ms"]
    parts.append(f"{audio_s:.1f} s of speech")
    if busy_s is not None and audio_s > 0:
        parts.append(f"real-time factor {busy_s / audio_s:.2f}")
    return ", ".join(parts)
