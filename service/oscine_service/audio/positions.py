"""Positions in what was sent <-> positions in what a session made."""

from bisect import bisect_left, bisect_right

from oscine_service.audio.formats import SAMPLE_RATE


class Positions:
    """A listener counts samples at the rate that it asked for, and hears the silence that flushes add; a session counts
    what it made, at SAMPLE_RATE. They are told apart here and nowhere else."""

    def __init__(self, sample_rate: int) -> None:
        self._rate = sample_rate
        self._made = [0]
        self._sent = [0]
        """Pairs of places that lie on each other: the start, and behind every flush that shifted the two."""

    def sent(self, made: int) -> int:
        """The position in what is sent of what the session made at `made`, which may not have been sent yet; where
        silence was added just there, it is where that begins."""
        number = max(1, bisect_left(self._made, made))
        return self._sent[number - 1] + -(-(made - self._made[number - 1]) * self._rate // SAMPLE_RATE)

    def flushed(self, made: int, end: int) -> None:
        """A flush was answered: with `made` samples made, what was sent, silence included, ends at `end`."""
        if (made - self._made[-1]) * self._rate != (end - self._sent[-1]) * SAMPLE_RATE:
            self._made.append(made)
            self._sent.append(end)

    def made(self, sent: int) -> int:
        """The position in what the session made that is at `sent` in what was sent; within an added silence it is
        where that begins."""
        number = bisect_right(self._sent, sent)
        past = (sent - self._sent[number - 1]) * SAMPLE_RATE // self._rate
        return min([self._made[number - 1] + past, *self._made[number : number + 1]])
