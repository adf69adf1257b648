"""The beginning and the end of a sentence's sound: silence cut, nothing that is sound lost, no clicks.

    before the first sound   silence is dropped but for LEAD_S, so that a listener hears speech at once; behind another
                             sentence as much stays as makes a pause of PAUSE_S with the silence that one ended in
    inside the sentence      pauses stay as they are
    after the last sound     silence is dropped but for PAUSE_S

At most LONGEST_LEAD_S and LONGEST_TAIL_S are dropped; silence beyond that is passed on. What is dropped was never part
of the stream: the samples that come out are contiguous. Sound is a window above `silence_db`. Windows count from the
first sample, so what comes out does not depend on how the samples were cut into pieces.

A pause may turn out to be the end, so of a pause in the making all but PAUSE_S waits for what comes next: silence,
LONGEST_TAIL_S of it at most. Sound never waits, but for the first window of all.

The edges are faded over FADE_S where they would click: where something was cut, and where sound starts or stops hard.
A sentence's last piece must be that long for its end to be faded whole.
"""

import numpy as np
from numpy.typing import NDArray

from oscine_engine.guards.levels import energy_at, window_energies

Samples = NDArray[np.float32]

WINDOW_S = 0.01
LEAD_S = 0.03
"""Kept before the first sound: more than the attack of any consonant needs to rise from silence."""
PAUSE_S = 0.3
"""The longest pause between two sentences of the recordings that fledgling learned its rhythm from (99 %)."""
FADE_S = 0.005
LONGEST_LEAD_S = 2.0
LONGEST_TAIL_S = 1.0
SILENT = 1e-4
"""Samples closer to zero than this (-80 dBFS) start and stop without a click."""
_RECENT = 10
"""Windows that are looked at before those that came before them."""
_NONE = np.zeros(0, np.float32)


class Edges:
    """One sentence's samples on their way out. `trim` false keeps all of them, and fades hard edges only.

    lead_cut, tail_cut: samples dropped so far. pause: how many samples of silence what has come out ends in, for the
    sentence behind.
    """

    def __init__(self, sample_rate: int, silence_db: float, *, trim: bool = True) -> None:
        self._trim = trim
        self._window = round(WINDOW_S * sample_rate)
        self._silence = energy_at(silence_db, self._window)
        self._lead = round(LEAD_S * sample_rate)
        self._pause = round(PAUSE_S * sample_rate)
        self._longest_lead = round(LONGEST_LEAD_S * sample_rate)
        self._longest_tail = round(LONGEST_TAIL_S * sample_rate)
        rise = (np.arange(round(FADE_S * sample_rate)) + 0.5) / round(FADE_S * sample_rate)
        self._rise = (0.5 - 0.5 * np.cos(np.pi * rise)).astype(np.float32)
        self._kept = _NONE
        self._kept_from = 0
        """Position of the first sample of `_kept`: what has come in and not gone out."""
        self._unjudged = _NONE
        """The last samples that came in, less than a window of them."""
        self._sound_end = 0
        """Where the last window with sound ends."""
        self._first_sound: int | None = None
        self._start: int | None = None
        """Where the output begins, once that is known."""
        self._fade_in = False
        self.lead_cut = 0
        self.tail_cut = 0
        self.pause = 0

    @property
    def started(self) -> bool:
        """Some samples have come out, or the first will with the next push."""
        return self._start is not None

    def push(self, samples: Samples, last: bool, *, after: int | None = None) -> Samples:
        """Take samples, and let out those that are due; all that stay with `last`. They may be those that came, and
        not copies.

        after: the `pause` of the sentence before, None for a first one; it counts until the first samples come out.
        """
        self._kept = np.concatenate((self._kept, samples)) if len(self._kept) else samples
        end = self._kept_from + len(self._kept)
        self._judge(samples, end, last)
        if self._start is None and not self._begin(end, last, after):
            return self._kept[:0]
        return self._let_out(self._due(end, last), end, last)

    def _judge(self, samples: Samples, end: int, last: bool) -> None:
        """Look at the windows that are now whole, and with `last` at what is left."""
        window, position = self._window, end - len(samples)
        pieces: list[tuple[Samples, int, int]] = []
        if begun := len(self._unjudged):
            # The window that is begun, by itself: samples are many, and are looked at where they lie.
            lacking = window - begun
            self._unjudged = np.concatenate((self._unjudged, samples[:lacking]))
            samples, position = samples[lacking:], position + lacking
            if len(self._unjudged) == window:
                pieces.append((self._unjudged, window, position - window))
                self._unjudged = _NONE
        if len(samples):
            whole = len(samples) // window * window
            recent = max(0, whole - _RECENT * window)
            pieces += (samples[:recent], window, position), (samples[recent:whole], window, position + recent)
            self._unjudged = samples[whole:].copy()
        if last and (left := len(self._unjudged)):
            pieces.append((self._unjudged, left, end - left))
        if self._first_sound is None:
            for piece in pieces:
                self._hear(*piece)
        else:
            # Only the last sound counts, which mostly lies in the last windows.
            any(self._hear(*piece) for piece in reversed(pieces))

    def _hear(self, samples: Samples, size: int, position: int) -> bool:
        """Note which windows of that size are sound, the first one lying at `position`; whether any is."""
        sound = np.flatnonzero(window_energies(samples, size) > self._silence * (size / self._window))
        if not len(sound):
            return False
        self._sound_end = position + size * (int(sound[-1]) + 1)
        if self._first_sound is None:
            self._first_sound = position + size * int(sound[0])
        return True

    def _begin(self, end: int, last: bool, after: int | None) -> bool:
        """Settle where the output starts; false while that is open."""
        lead = self._lead if after is None else max(self._lead, self._pause - after)
        if not end and not last:
            return False
        if not self._trim:
            start = 0
        elif self._first_sound is not None:
            start = min(max(0, self._first_sound - lead), self._longest_lead)
        elif last or end > self._longest_lead:
            start = min(end, self._longest_lead)
        else:
            return False
        self._start = self.lead_cut = start
        self._drop_before(start)
        self._fade_in = start > 0 or (len(self._kept) > 0 and abs(float(self._kept[0])) > SILENT)
        return True

    def _due(self, end: int, last: bool) -> int:
        """How far the output reaches now."""
        if not self._trim:
            return end
        kept = self._sound_end + self._pause
        if not last:
            # What would be faded if this were the end waits as well.
            kept -= len(self._rise)
        return min(end, max(kept, end - self._longest_tail))

    def _let_out(self, until: int, end: int, last: bool) -> Samples:
        out = self._kept[: max(0, until - self._kept_from)]
        position = self._kept_from
        self._drop_before(position + len(out))
        assert self._start is not None
        if self._fade_in and position < self._start + len(self._rise):
            out = _faded(out, self._rise[position - self._start :][: len(out)], 0)
        if last:
            self.tail_cut = len(self._kept)
            self._kept = _NONE
            if len(out) and (self.tail_cut or abs(float(out[-1])) > SILENT):
                gains = self._rise[::-1][-len(out) :]
                out = _faded(out, gains, len(out) - len(gains))
        self.pause = max(0, self._kept_from - max(self._sound_end, self._start))
        return out

    def _drop_before(self, position: int) -> None:
        # A view of nothing would keep what it was cut from.
        left = self._kept[position - self._kept_from :]
        self._kept = left if len(left) else _NONE
        self._kept_from = position


def _faded(samples: Samples, gains: Samples, at: int) -> Samples:
    """A copy with `gains` on the samples from `at` on."""
    out = samples.copy()
    out[at : at + len(gains)] *= gains
    return out
