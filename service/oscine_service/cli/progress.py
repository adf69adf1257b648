"""How fast speech comes, as one line on standard error."""

import sys
import time

from oscine_engine.events import Audio, Stats


class Progress:
    """On a terminal the line is rewritten as speech comes; elsewhere the first packet gets a line, and the end one."""

    def __init__(self, sample_rate: int) -> None:
        self._rate = sample_rate
        self._live = sys.stderr.isatty()
        self._first_at: float | None = None

    def heard(self, event: Audio, first_packet_s: float | None) -> None:
        """Audio came; `first_packet_s` is how long the first of it took."""
        now = time.monotonic()
        if first_packet_s is None:
            return
        began = self._first_at is None
        self._first_at = now if self._first_at is None else self._first_at
        audio_s = (event.start_sample + event.samples.size) / self._rate
        if self._live:
            self._show(_line(first_packet_s, audio_s, first_packet_s + now - self._first_at))
        elif began:
            self._show(f"first packet after {1000 * first_packet_s:.0f} ms\n")

    def done(self, stats: Stats) -> None:
        """The last line."""
        self._show(_line(stats.first_packet_s, stats.audio_s, stats.busy_s) + "\n")

    def _show(self, text: str) -> None:
        erase = "\r\x1b[K" if self._live else ""
        print(erase + text, end="", file=sys.stderr, flush=True)


def _line(first_packet_s: float | None, audio_s: float, busy_s: float | None) -> str:
    parts = [] if first_packet_s is None else [f"first packet after {1000 * first_packet_s:.0f} ms"]
    parts.append(f"{audio_s:.1f} s of speech")
    if busy_s is not None and audio_s > 0:
        parts.append(f"real-time factor {busy_s / audio_s:.2f}")
    return ", ".join(parts)
