"""The thread that owns the models: takes commands between ticks, picks a stage, ticks it, hands events out.

Everything a stream holds lives in this thread. Other threads only put commands into a queue, so no state is locked, and
a cancelled stream is gone before the next tick.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from oscine_engine.errors import Cancelled, InternalError, OscineError, Overloaded, Unavailable
from oscine_engine.events import Audio, Done, Event, Flushed, Stats
from oscine_engine.planner import Begin, End, Ids, Step
from oscine_engine.runtime.pages import PoolExhausted
from oscine_engine.runtime.stages import FlushMark, Lane, Segment, Stages
from oscine_engine.scheduler.policy import Stage, StreamView, pick

log = logging.getLogger(__name__)

Deliver = Callable[[Event | OscineError], object]
"""Called in the loop's thread."""
Command: TypeAlias = Callable[[], None]
"""Run in the loop's thread between two ticks."""

OpenSegment = Callable[[str, bool, int], Segment]
"""(voice, whole, seed) -> a new segment, which holds no pages yet."""


@dataclass(slots=True, eq=False)
class Stream:
    """One session inside the loop. Sample counts at the model's rate, times of the monotonic clock.

    `dry_at` is when a listener who plays at once runs out of what was sent. `busy` seconds were spent with something to
    compute for it, and more since `busy_since` if that is set.
    """

    voice: str
    seed: int
    deliver: Deliver
    arrived: float
    lane: Lane = field(default_factory=Lane)
    ending: bool = False
    writing: Segment | None = None
    begun: int = 0
    segments: int = 0
    speech_tokens: int = 0
    packets: int = 0
    sent: int = 0
    taken: int = 0
    runnable_at: float | None = None
    first_at: float | None = None
    last_at: float = 0.0
    dry_at: float | None = None
    busy: float = 0.0
    busy_since: float | None = None
    asked: int = 0
    answered: int = 0
    ended: bool = False

    @property
    def waiting(self) -> int:
        """Sentences and flushes handed to the loop and not yet spoken to their end. May be read from any thread."""
        return 0 if self.ended else self.asked - self.answered

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

    def note_sent(self, samples: int, rate: int, now: float) -> None:
        """Count a packet. A listener that had run dry, for want of text perhaps, plays on from `now`."""
        if self.first_at is None:
            self.first_at = now
        self.last_at = now
        self.dry_at = max(now, self.dry_at or now) + samples / rate
        self.packets += 1
        self.sent += samples

    def clock(self, ready: bool, now: float) -> None:
        """Note whether there is work for the stream; before it has its first text nothing counts."""
        if ready and self.busy_since is None and self.runnable_at is not None:
            self.busy_since = now
        elif not ready and self.busy_since is not None:
            self.busy += now - self.busy_since
            self.busy_since = None


def segment_seed(seed: int, index: int) -> int:
    """Each segment draws from a stream of its own, so that what one says never shifts the next one's draws."""
    return (seed + index * 0x9E3779B97F4A7C15) % 2**63


class DeviceLoop:
    """Start with `start`, stop with `close`; the other methods may be called from any thread."""

    def __init__(
        self, stages: Stages, open_segment: OpenSegment, *, sample_rate: int, max_streams: int, max_waiting_s: float
    ) -> None:
        self._stages = stages
        self._open_segment = open_segment
        self._rate = sample_rate
        self._max_streams = max_streams
        self._max_waiting = int(max_waiting_s * sample_rate)
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._streams: list[Stream] = []
        self.admitted = 0
        self._admission = threading.Lock()
        self._running = False
        self.failed = False
        self._thread = threading.Thread(target=self._run, name="oscine-device", daemon=True)

    def start(self) -> None:
        self._running = True
        self._thread.start()

    def close(self) -> None:
        """End every stream with Cancelled and join the thread."""
        self._commands.put(self._shut)
        self._thread.join()

    def open(self, voice: str, seed: int, deliver: Deliver) -> Stream:
        """Admit a stream.

        Raises Overloaded when `max_streams` are running, Unavailable once the loop has failed, Cancelled before `start`
        and after `close`.
        """
        stream = Stream(voice, seed, deliver, arrived=time.monotonic())
        with self._admission:
            if self.failed:
                raise Unavailable("the engine has failed; restart it")
            if not self._running:
                raise Cancelled("the engine is not running: open sessions inside its `async with` block")
            if self.admitted >= self._max_streams:
                raise Overloaded(f"{self.admitted} streams are running, the limit of this engine; try again", 1.0)
            self.admitted += 1
            self._commands.put(lambda: self._streams.append(stream))
        return stream

    def speak(self, stream: Stream, steps: Sequence[Step], *, mark: bool = False, end: bool = False) -> None:
        """Apply the planner's steps; `mark` answers with Flushed once they have sounded, `end` closes the input."""
        if steps or mark or end:
            # Counted here, where it is asked for: the loop may be far behind with what it was handed.
            stream.asked += sum(isinstance(step, Begin) for step in steps) + mark
            self._commands.put(lambda: self._apply(stream, steps, mark, end))

    def taken(self, stream: Stream, samples: int) -> None:
        """The listener's side took `samples` more; makes room for more to be computed."""
        self._commands.put(lambda: self._take(stream, samples))

    def stop(self, stream: Stream, error: OscineError) -> None:
        """End `stream` with `error` before the next tick, unless it has ended already."""
        self._commands.put(lambda: self._end(stream, error))

    def _run(self) -> None:
        try:
            while self._running:
                self._turn()
        except Exception:
            log.critical("the device loop failed: its streams end, and the engine takes no more", exc_info=True)
            with self._admission:
                self._running, self.failed = False, True
            try:
                self._obey(wait=False)  # a session just opened may still be on its way in
            finally:
                for stream in self._streams:
                    stream.deliver(InternalError("the engine has failed; restart it"))

    def _turn(self) -> None:
        """Pick a stage, run the commands that are there, tick the stage for all that are still ready in it."""
        views = [StreamView(stream.arrived, stream.dry_at, self._stages.ready(stream.lane)) for stream in self._streams]
        now = time.monotonic()
        for stream, view in zip(self._streams, views, strict=True):
            stream.clock(bool(view.ready), now)
        stage = pick(views, now)
        self._obey(wait=stage is None)
        if stage is not None and (streams := [s for s in self._streams if stage in self._stages.ready(s.lane)]):
            self._tick(stage, streams)

    def _obey(self, *, wait: bool) -> None:
        """Run the commands that are there; with `wait`, at least one."""
        try:
            if wait:
                self._commands.get()()
            while True:
                self._commands.get_nowait()()
        except queue.Empty:
            return

    def _tick(self, stage: Stage, streams: Sequence[Stream]) -> None:
        lanes = [stream.lane for stream in streams]
        try:
            match stage:
                case Stage.LM:
                    for stream, failure in zip(streams, self._stages.read(lanes), strict=True):
                        if failure is not None:
                            self._end(stream, failure)
                case Stage.FLOW:
                    self._stages.denoise(lanes)
                case Stage.VOCODER:
                    for stream, samples in zip(streams, self._stages.vocode(lanes), strict=True):
                        self._sound(stream, samples)
        except PoolExhausted:
            # Every stream has a share of the pool, so the one that holds most took more than its own: it makes room.
            # Of several the latest goes; the others take this tick again.
            largest = max(reversed(self._streams), key=lambda stream: self._stages.pages(stage, stream.lane))
            log.warning("the %s pool is full; the stream that holds most of it ends", stage.name)
            self._end(largest, Overloaded("the engine's memory is full; send shorter sentences or try again", 1.0))
        except Exception as error:
            log.exception("a %s tick failed; its %d streams end", stage.name, len(streams))
            for stream in streams:
                self._end(stream, InternalError(f"the {stage.name.lower()} stage failed: {error}"))

    def _apply(self, stream: Stream, steps: Sequence[Step], mark: bool, end: bool) -> None:
        if stream not in self._streams:
            return
        try:
            for step in steps:
                match step:
                    case Begin(whole=whole):
                        segment = self._open_segment(stream.voice, whole, segment_seed(stream.seed, stream.begun))
                        stream.begun += 1
                        stream.writing = segment
                        stream.lane.queue.append(segment)
                    case Ids(ids=ids):
                        assert stream.writing is not None
                        stream.writing.lm.add_text(ids)
                    case End():
                        assert stream.writing is not None
                        stream.writing.lm.end_text()
                        stream.writing = None
        except OscineError as error:
            self._end(stream, error)
            return
        except Exception as error:
            log.exception("a stream's text could not be taken; it ends")
            self._end(stream, InternalError(f"the text could not be taken: {error}"))
            return
        if mark:
            stream.lane.queue.append(FlushMark())
        stream.ending |= end
        if stream.runnable_at is None and any(s.lm.state == "running" for s in stream.lane.segments()):
            stream.runnable_at = time.monotonic()
        self._settle(stream)

    def _sound(self, stream: Stream, samples: NDArray[np.float32]) -> None:
        if not np.isfinite(samples).all():
            self._end(stream, InternalError(f"the audio is not finite after {stream.sent / self._rate:.2f} s"))
            return
        if samples.size:
            audio = Audio(stream.packets, stream.sent, samples)
            stream.note_sent(samples.size, self._rate, time.monotonic())
            stream.deliver(audio)
            self._hold(stream)
        segment = stream.lane.sounding
        assert segment is not None
        if segment.mel_ended:
            stream.segments += 1
            stream.speech_tokens += len(segment.lm.tokens)
            stream.lane.queue.remove(segment)
            stream.answered += 1
            self._stages.close(segment)
            self._settle(stream)

    def _settle(self, stream: Stream) -> None:
        """Answer the marks that are due, and end the stream when nothing is left."""
        queue = stream.lane.queue
        while queue and isinstance(queue[0], FlushMark):
            queue.popleft()
            stream.answered += 1
            stream.deliver(Flushed(stream.sent))
        if stream.ending and not queue:
            first, busy, audio_s = stream.first_packet_s, stream.busy_s, stream.sent / self._rate
            self._end(stream, Done(Stats(audio_s, stream.segments, stream.speech_tokens, first, busy)))

    def _take(self, stream: Stream, samples: int) -> None:
        stream.taken += samples
        self._hold(stream)

    def _hold(self, stream: Stream) -> None:
        stream.lane.held = stream.sent - stream.taken > self._max_waiting

    def _end(self, stream: Stream, outcome: Done | OscineError) -> None:
        """Deliver the last event and free everything; a stream that has ended already stays as it is."""
        if stream not in self._streams:
            return
        self._streams.remove(stream)
        stream.ended = True
        for segment in stream.lane.segments():
            self._stages.close(segment)
        stream.lane.queue.clear()
        with self._admission:
            self.admitted -= 1
        stream.deliver(outcome)

    def _shut(self) -> None:
        with self._admission:
            self._running = False
        self._obey(wait=False)
        for stream in list(self._streams):
            self._end(stream, Cancelled("the engine is closing"))
