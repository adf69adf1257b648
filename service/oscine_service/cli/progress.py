"""How fast speech comes, as one line on standard error."""

import sys

from oscine_engine.events import Audio, Stats


class Progress:
    """On a terminal the line is rewritten as speech comes; elsewhere the first packet gets a line, and the end one."""

    def __init__(self, sample_rate: int) -> None:
        self._rate = sample_rate
        self._live = sys.stderr.isatty()

    def heard(self, event: Audio, first_packet_s: float | None, busy_s: float | None) -> None:
        """Audio came; `first_packet_s` and `busy_s` as `Stats` has them, up to now."""
        if self._live:
            audio_s = (event.start_sample + event.samples.size) / self._rate
            self._show(_line(first_packet_s, audio_s, busy_s))
        elif event.seq == 0 and first_packet_s is not None:
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
