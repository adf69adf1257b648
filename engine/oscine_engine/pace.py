"""How fast a session is spoken, from what its engine says of itself. Times in seconds of one monotonic clock."""


class Pace:
    """Fed with what happens, in order; `Stats` has the same two figures as the engine itself counted them."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._working_since: float | None = None
        self._busy = 0.0
        self._first_at: float | None = None
        self._last_at = 0.0

    def worked(self, working: bool, now: float) -> None:
        """There is something to compute from now on, or nothing."""
        if working and self._working_since is None:
            self._working_since = now
            self._began = now if self._began is None else self._began
        elif not working and self._working_since is not None:
            self._busy += now - self._working_since
            self._working_since = None

    def sounded(self, now: float) -> None:
        """A packet has come."""
        self._first_at = now if self._first_at is None else self._first_at
        self._last_at = now

    @property
    def first_packet_s(self) -> float | None:
        """From the first thing to compute to the first packet, None before it."""
        return None if self._first_at is None or self._began is None else self._first_at - self._began

    @property
    def busy_s(self) -> float | None:
        """Time with something to compute up to the last packet, None before the first."""
        if self._first_at is None:
            return None
        return self._busy + (0.0 if self._working_since is None else self._last_at - self._working_since)
