"""Engine events -> replies: one conversation's encoder and numbering. No I/O."""

from collections.abc import Iterator
from itertools import pairwise

from oscine_engine import events
from oscine_service.audio import Block, Format, Positions, takes_long, waits, writer
from oscine_service.conversation.replies import Audio, Done, Flushed, Marked, Reply, Started, Word, Words
from oscine_service.limits import Limits

FRAME, FIRST, PIECE = 480, 1440, 4800
"""Samples, 20, 60 and 200 ms: to encode a whole second takes Opus 7 to 13 ms, in which a listener may run dry. What a
call begins with takes less than the way to another thread and back, and its first frame a third of that."""
AHEAD_S = 0.25
"""What is not heard for as long is encoded as a whole: every piece is a message, and a way to another thread."""


class Speech:
    """Raises CodecError if `format` asks for what the encoder cannot do.

    What a session makes and what a client is sent have positions of their own (`audio.Positions`).
    """

    def __init__(self, format: Format, limits: Limits, word_times: bool = False) -> None:
        self._word_times = word_times
        self._format = format
        self._limits = limits
        self._writer = writer(format)
        self._sequence = 0
        self._end = 0
        self._flushed = 0
        self._made = 0
        self._positions = Positions(format.sample_rate)

    @property
    def waits(self) -> bool:
        """Whether what takes long is waiting for another process, in which a core does something else."""
        return waits(self._format)

    def takes_long(self, event: events.Event) -> bool:
        """Whether `of(event)` takes milliseconds, for which an event loop should not be held up."""
        if isinstance(event, events.Audio):
            return event.samples.size > FIRST and takes_long(self._format)
        return isinstance(event, events.Flushed | events.Done) and self.waits

    def pieces(self, event: events.Event, ahead_s: float = 0.0) -> Iterator[events.Event]:
        """`event`, or what takes long to encode in pieces: its beginning does not wait for its end.

        ahead_s: how long it takes until its beginning is heard.
        """
        if not isinstance(event, events.Audio) or not self.takes_long(event) or ahead_s >= AHEAD_S:
            yield event
            return
        size, start = event.samples.size, event.start_sample
        cuts = (FRAME, FIRST, FIRST + PIECE) if start == 0 else (PIECE,)
        for begin, end in pairwise((0, *(cut for cut in cuts if cut < size), size)):
            yield events.Audio(event.seq, start + begin, event.samples[begin:end])

    def of(self, event: events.Event) -> list[Reply]:
        """The replies that `event` completes, in order."""
        match event:
            case events.Started():
                return [self._started(event)]
            case events.Audio():
                self._made += event.samples.size
                return [*self._audio(self._writer.push(event.samples))]
            case events.Flushed():
                audio = [*self._audio(self._writer.flush())]
                self._positions.flushed(self._made, self._end)
                self._flushed = self._end
                return [*audio, Flushed(self._end)]
            case events.Words(words=words):
                return [Words(tuple(self._word(word) for word in words))]
            case events.Marked(name=name, end_sample=made):
                # Behind a flush it lies where the silence ends that was added there.
                return [Marked(name, max(self._flushed, self.sent(made)))]
            case events.Done():
                audio = [*self._audio(self._writer.finish())]
                return [*audio, Done(self._end / self._format.sample_rate, event.stats)]

    def made(self, sent: int) -> int:
        """The position in what the session made that is at `sent` in what was sent."""
        return self._positions.made(sent)

    def sent(self, made: int) -> int:
        """The position in what is sent of what the session made at `made`; where silence was added there, its start."""
        return self._positions.sent(made)

    def close(self) -> None:
        """Free what the encoder holds. At any time."""
        self._writer.close()

    def _word(self, word: events.Word) -> Word:
        return Word(word.text, self.sent(word.start_sample), self.sent(word.end_sample), word.behind)

    def _audio(self, block: Block | None) -> Iterator[Audio]:
        if block is not None:
            self._end = block.start + block.samples
            yield Audio(self._sequence, block.start, block.samples, block.frames)
            self._sequence += 1

    def _started(self, event: events.Started) -> Started:
        return Started(
            voice=event.voice,
            mode=event.mode,
            seed=event.seed,
            format=self._format,
            pre_skip=self._writer.pre_skip,
            word_times=self._word_times,
            limits=self._limits,
        )
