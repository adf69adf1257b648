"""What a stream's listener has, and when it runs dry: plain bookkeeping, told the time by its caller.

Samples are counted at the model's rate, times in seconds of one monotonic clock.

A listener is taken to play at once and without a pause from its first packet on; what it reports as played replaces
that guess, for deadlines and for credit. It can run dry in two ways, counted apart:

    underrun   there was something to compute for it, and it was not done in time
    starved    its text came too late to promise the packet, even if all else had stood still; what comes then is a
               first packet again

After everything asked for was said, up to a flush, the agent simply pauses: that is neither.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Listener:
    """arrived: since when it waits for a first packet. runnable_at: when its text first sufficed to say an id.

    dry_at: when it runs dry, None before the first packet. first: the next packet is a first one (again). busy: seconds
    with something to compute, and more since `busy_since` if that is set.
    """

    rate: int
    arrived: float
    sent: int = 0
    taken: int = 0
    played: int | None = None
    packets: int = 0
    dry_at: float | None = None
    first: bool = True
    starving: bool = False
    runnable_at: float | None = None
    first_at: float | None = None
    last_at: float = 0.0
    busy: float = 0.0
    busy_since: float | None = None
    underruns: int = 0
    underrun_s: float = 0.0
    starved: int = 0
    starved_s: float = 0.0

    @property
    def deadline(self) -> float | None:
        """When the next packet is due; None for a first one, which is due as soon as can be."""
        return None if self.first else self.dry_at

    @property
    def ahead(self) -> int:
        """Samples sent and, as far as is known, not heard yet."""
        return self.sent - (self.taken if self.played is None else self.played)

    @property
    def first_packet_s(self) -> float | None:
        if self.runnable_at is None or self.first_at is None:
            return None
        return self.first_at - self.runnable_at

    @property
    def busy_s(self) -> float | None:
        """Up to the last sample."""
        if self.first_at is None:
            return None
        return self.busy + (0.0 if self.busy_since is None else self.last_at - self.busy_since)

    def note_text(self, now: float, *, working: bool = False) -> None:
        """There is text enough to say an id; before the first of it nothing was waited for. working: there was
        something to compute already, such as its voice."""
        if self.runnable_at is None:
            self.runnable_at = self.arrived = now
            if working:
                self.note_work(True, now)

    def note_sent(self, samples: int, now: float) -> None:
        """Count a packet. A listener that had run dry plays on from `now`."""
        if self.first_at is None:
            self.first_at = now
        if self.dry_at is not None and now > self.dry_at:
            if self.starving:
                self.starved += 1
                self.starved_s += now - self.dry_at
            elif not self.first:
                self.underruns += 1
                self.underrun_s += now - self.dry_at
        self.first = self.starving = False
        self.last_at = now
        self.dry_at = max(now, self.dry_at or now) + samples / self.rate
        self.packets += 1
        self.sent += samples

    def note_taken(self, samples: int) -> None:
        self.taken += samples

    def note_played(self, samples: int, now: float) -> None:
        """The listener has played `samples` in all; late reports and ones beyond what was sent change little."""
        self.played = max(self.played or 0, min(samples, self.sent))
        if self.dry_at is not None:
            left = (self.sent - self.played) / self.rate
            # A report that all was played says that it is over, not since when.
            self.dry_at = now + left if left else min(self.dry_at, now)

    def note_work(self, working: bool, now: float) -> None:
        """Note whether there is something to compute; before the first text nothing counts."""
        if working and self.busy_since is None and self.runnable_at is not None:
            self.busy_since = now
        elif not working and self.busy_since is not None:
            self.busy += now - self.busy_since
            self.busy_since = None

    def note_wake(self, now: float, alone_s: float, paused: bool) -> None:
        """Work is back after a wait for text; the next packet can be promised in `alone_s` at the soonest.

        If that is too late already, the next packet is a first one. `paused`: all that had been asked for was said.
        """
        if not self.first and self.dry_at is not None and now + alone_s > self.dry_at:
            self.first, self.starving, self.arrived = True, not paused, now
