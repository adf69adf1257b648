"""The loop's work without its thread: streams come in, say what they want, and are moved on, one tick a turn.

Everything here runs in one thread and takes its time from `clock`, so that a test can drive it by hand.

A fault ends the stream it belongs to and no other. A tick that raises is taken again for each of its members alone,
which `Stages` allows; whoever raises alone is at fault.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from oscine_engine.errors import InternalError, OscineError, Overloaded
from oscine_engine.events import Audio, Done, Flushed, Stats
from oscine_engine.figures import Figures, Standing, Tally
from oscine_engine.guards.edges import PAUSE_S
from oscine_engine.options import FASTEST, SLOWEST
from oscine_engine.planner import Begin, End, Ids, Step
from oscine_engine.port import Deliver, Progress, Sounded, StreamOptions
from oscine_engine.runtime import trace
from oscine_engine.runtime.book import ReadyVoice
from oscine_engine.runtime.lane import Lane, Segment
from oscine_engine.runtime.listener import Listener
from oscine_engine.runtime.stages import Chunk, Prospect, Stages
from oscine_engine.runtime.stream import Stream, segment_seed
from oscine_engine.runtime.tempo import Tempo
from oscine_engine.scheduler.admission import Door, Limits, Pace
from oscine_engine.scheduler.costs import CostModel
from oscine_engine.scheduler.demand import Demand
from oscine_engine.scheduler.policy import RULES, pick, pick_beside
from oscine_engine.scheduler.start import DELIVERY_S, release
from oscine_engine.scheduler.views import Stage, StreamView, Tick

log = logging.getLogger(__name__)

OpenSegment = Callable[[Stream, bool, int], Segment]
"""(stream, whole, seed) -> its next segment, which holds no pages yet."""
Clock = Callable[[], float]
Outcome: TypeAlias = NDArray[np.float32] | Chunk | OscineError | int | None
"""An int: so many ids were said, or Euler steps made, and nothing else has changed that the scheduler is told of."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """limits, pace: for admission. max_waiting_s: seconds of sound computed ahead of what the listener's side took,
    never less than two chunks."""

    limits: Limits
    pace: Pace
    max_waiting_s: float


class _Taken(NamedTuple):
    """A tick that was taken, and by when it was begun. guesses: that a step of the language model was to have.

    seeds, cpu_s: for an observer; the latter of this thread, up to when it was let go.
    """

    stage: Stage
    streams: int
    rows: int
    context: int
    guesses: int | None
    seeds: tuple[int, ...]
    began: float
    cpu_s: float


class Core:
    """Streams, and turns over them. `costs` starts as measured and follows what ticks take.

    A device may still be at a tick when the next one is chosen. What such ticks took is only known together with the
    next one that was waited for, and is shared out among them as they were expected to take.
    """

    def __init__(
        self,
        stages: Stages,
        open_segment: OpenSegment,
        costs: CostModel,
        bounds: Bounds,
        *,
        sample_rate: int,
        clock: Clock = time.monotonic,
        observe: trace.Observe | None = None,
        side_by_side: bool = False,
    ) -> None:
        """side_by_side: steps of the language model may run while the device is at an Euler step."""
        self.stages = stages
        self.costs = costs
        self.bounds = bounds
        self.streams: list[Stream] = []
        self._open_segment = open_segment
        self._rate = sample_rate
        self._frame = stages.vocoder.network.config.samples_per_frame
        # While a listener plays one chunk the next is made: with less than two nobody could listen without a pause.
        chunk = stages.chunk_samples
        self._credit = max(int(bounds.max_waiting_s * sample_rate), 2 * chunk) - chunk
        self._door = Door()
        self._clock = clock
        self._side_by_side = side_by_side
        self.observe = observe
        self.tally = Tally()
        self._holding = 0
        """Streams whose first packets are held back."""
        self._stale: list[Stream] = []
        self._under_way: list[_Taken] = []
        """Ticks that were not waited for, and the last one."""

    def admit(self, options: StreamOptions, deliver: Deliver, voice: ReadyVoice) -> Stream:
        """Let a stream in. Raises Overloaded with a hint, or InvalidInput for a voice that can never fit and for what
        the language model cannot do."""
        now, drawing = self._clock(), self.stages.lm.drawing(options.knobs)
        refusal = self._door.ask(self._views(now), self.costs, now, self.bounds.limits, self._pace(options.speed))
        if refusal is not None:
            raise Overloaded(f"{refusal.reason}; try again", refusal.retry_after_s)
        lane = Lane(self.stages.voices.pin(voice), credit=self._credit)
        listener = Listener(self._rate, arrived=now)
        stream = Stream(options, deliver, voice, lane, listener, stale=False, since=now, drawing=drawing)
        self.streams.append(stream)
        self._touch(stream)
        return stream

    def _pace(self, newcomer: float) -> Pace:
        """With who is here, and a newcomer of that speed."""
        speeds = [newcomer, *(stream.options.speed for stream in self.streams)]
        rate = sum(speeds) / len(speeds)
        return self.bounds.pace if rate == 1.0 else replace(self.bounds.pace, rate=rate)

    def speak(self, stream: Stream, steps: Sequence[Step], *, mark: bool = False, end: bool = False) -> None:
        """Take the planner's steps. Text that does not fit the stream's share of memory ends it with InvalidInput."""
        if stream.ended:
            return
        with self._blaming(stream, "the text could not be taken"):
            for step in steps:
                match step:
                    case Begin() as begin:
                        stream.writing = self._begin(stream, begin)
                    case Ids(ids=ids):
                        assert stream.writing is not None
                        self.stages.add_text(stream.writing, ids)
                    case End():
                        assert stream.writing is not None
                        self.stages.end_text(stream.writing)
                        stream.writing = None
            if stream.listener.runnable_at is None and any(s.lm.state == "running" for s in stream.lane.segments):
                stream.listener.note_text(self._clock(), working=stream.progress.working)
            stream.paused = mark or (stream.paused and not steps)
            if mark:
                if stream.lane.segments:
                    stream.lane.segments[-1].marks += 1
                else:
                    self._answer(stream, 1)
            stream.ending |= end
            self._touch(stream)
            self._settle(stream)

    def taken(self, stream: Stream, samples: int) -> None:
        """The listener's side took `samples` more."""
        if not stream.ended:
            stream.listener.note_taken(samples)
            self._lend(stream)

    def played(self, stream: Stream, samples: int) -> None:
        """The listener has played `samples` in all."""
        if not stream.ended:
            stream.listener.note_played(samples, self._clock())
            self._lend(stream)

    def end(self, stream: Stream, outcome: Done | OscineError) -> None:
        """Deliver the last event and free everything; a stream that has ended already stays as it is."""
        if stream.ended:
            return
        stream.ended = True
        self.streams.remove(stream)
        stream.speech_tokens += sum(len(segment.lm.tokens) for segment in stream.lane.segments)
        self._count(stream, self.tally, self._clock())
        self._holding -= bool(stream.held)
        stream.held = []
        for segment in stream.lane.segments:
            self.stages.close(segment)
        stream.lane.segments.clear()
        self.stages.voices.unpin(stream.lane.voice)
        try:
            stream.deliver(outcome)
        except Exception:
            log.exception("a listener could not be told of the end of its stream")
        if self.observe is not None:
            self.observe(trace.Left(stream.options.seed, self._clock()))

    def turn(self) -> bool:
        """One tick, if there is anything to do; tells whether there was."""
        now = self._clock()
        views = self._views(now)
        if self._holding and self._release(now):
            views = self._views(now)
        tick = pick(views, now, self.costs)
        if tick is None:
            if self._under_way:
                self.stages.flow.settle()
                self._account(self._clock())
            return False
        self._tick(tick, views)
        if self._side_by_side and self._under_way:
            self._go_beside()
        return True

    def figures(self) -> Figures:
        """What was done so far, open streams included."""
        now, tally = self._clock(), replace(self.tally, stood=list(self.tally.stood))
        for stream in self.streams:
            self._count(stream, tally, now)
        flow, voices = self.stages.flow.pool, self.stages.voices.pages_held
        return Figures(
            ticks={stage: tally.ticks[stage].read() for stage in Stage},
            batches={stage: tally.batches[stage].read() for stage in Stage},
            queued=tally.queued.read(),
            first_packets=tally.first_packets.read(),
            stood={standing: tally.stood[standing] for standing in Standing},
            streams=len(self.streams),
            expecting=sum(s.progress.working and not s.listener.packets for s in self.streams),
            segments=tally.segments,
            audio_s=tally.samples / self._rate,
            speech_ids=tally.speech_ids,
            reads=tally.reads,
            underruns=tally.underruns,
            underrun_s=tally.underrun_s,
            starved=tally.starved,
            starved_s=tally.starved_s,
            chances=self.stages.lm.chances,
            flow_pages=flow.num_pages,
            held_pages={"lm": self.stages.lm.pages_held, "flow": flow.num_pages - flow.num_free, "voices": voices},
        )

    def _count(self, stream: Stream, tally: Tally, now: float) -> None:
        """Add what a stream has been through so far."""
        listener = stream.listener
        tally.stood[stream.standing] += now - stream.since
        tally.segments += stream.spoken
        tally.samples += listener.sent
        tally.speech_ids += stream.speech_tokens
        tally.underruns += listener.underruns
        tally.underrun_s += listener.underrun_s
        tally.starved += listener.starved
        tally.starved_s += listener.starved_s

    def look(self) -> None:
        """Ids have come from a language model that steps by itself. Raises Unavailable if it has died."""
        self.stages.lm.look()
        for stream in self.streams:
            if stream.lane.reading is not None:
                self._touch(stream)

    def wait(self) -> bool:
        """Block until such ids come, for those who drive turns themselves. False at once if none are on their way."""
        if not self.stages.lm.wait():
            return False
        self.look()
        return True

    # Views: what the scheduler sees. One is made anew only when something happened to its stream.

    def _touch(self, stream: Stream) -> None:
        if not stream.stale:
            stream.stale = True
            self._stale.append(stream)

    def _views(self, now: float) -> list[StreamView]:
        if self.stages.made_room():
            for stream in self.streams:
                self._touch(stream)
        while self._stale:
            stream = self._stale.pop()
            stream.stale = False
            if not stream.ended:
                self._look(stream, now)
        return [stream.view for stream in self.streams]

    def _look(self, stream: Stream, now: float) -> None:
        if (fault := self.stages.catch_up(stream.lane)) is not None:
            self.end(stream, fault)
            return
        listener, progress = stream.listener, stream.progress
        prospect = self.stages.prospect(stream.lane)
        working = bool(prospect.ready)
        if working != progress.working:
            if working and stream.wants_text:
                listener.note_wake(now, self._alone_s(prospect), stream.rested)
            stream.wants_text = False
            listener.note_work(working, now)
        if not working:
            stream.wants_text |= not stream.lane.held
            stream.rested = stream.paused
        standing = self._standing(stream, working=working)
        if standing is not stream.standing:
            self.tally.stood[stream.standing] += now - stream.since
            stream.standing, stream.since = standing, now
        held_s = stream.held_samples / self._rate if stream.held else 0.0
        # What is made at the last moment comes too late.
        dry_at = None if listener.first or listener.dry_at is None else listener.dry_at - DELIVERY_S
        stream.view = self._view(prospect, listener.arrived, dry_at, held_s)
        if working != progress.working or stream.answered != progress.answered:
            stream.progress = Progress(working, stream.answered)
            with self._blaming(stream, "its listener could not be told"):
                stream.deliver(stream.progress)

    def _standing(self, stream: Stream, *, working: bool) -> Standing:
        if working:
            return Standing.COMPUTING
        if stream.lane.held:
            return Standing.LISTENER
        return Standing.IDLE if stream.rested or stream.listener.runnable_at is None else Standing.TEXT

    def _view(self, prospect: Prospect, arrived: float, dry_at: float | None, held_s: float) -> StreamView:
        ready, ids, rows, steps, context, frames = prospect
        return StreamView(arrived, dry_at, ready, ids, rows, steps, context, frames * self._frame / self._rate, held_s)

    def _alone_s(self, prospect: Prospect) -> float:
        """Seconds to the next packet, of which the policy could be sure if the device had nothing else to do."""
        demand = Demand(self.costs)
        demand.add(self._view(prospect, 0.0, None, 0.0))
        return RULES.margin * demand.seconds

    def _go_beside(self) -> None:
        """The device is at an Euler step that is not waited for: have the language model step, too, if that pays."""
        euler, views = self._under_way[-1], self._views(self._clock())
        tick = pick_beside(views, self.costs.tick_s(euler.stage, euler.rows, euler.context), self.costs)
        if tick is not None:
            self._tick(tick, views)

    # Ticks, and what becomes of them

    def _tick(self, tick: Tick, views: Sequence[StreamView]) -> None:
        stage, members = tick.stage, [self.streams[place] for place in tick.members]
        rows, context = self._size(tick, members, views)
        building = {id(s.lane.voice) for s in members if s.lane.voice.prefix is None} if stage is Stage.FLOW else ()
        guesses = self.costs.best_guesses(len(members)) if stage is Stage.LM else None
        cpu = 0.0 if self.observe is None else time.thread_time()
        began = self._clock()
        outcomes = self._attempt(stage, members, guesses)
        failed = isinstance(outcomes, Exception)
        if isinstance(outcomes, Exception):
            outcomes = [self._alone(stage, stream, outcomes, len(members)) for stream in members]
        seeds: tuple[int, ...] = ()
        if self.observe is not None:
            seeds, cpu = tuple([stream.options.seed for stream in members]), time.thread_time() - cpu
        self._under_way.append(_Taken(stage, len(members), rows, context, guesses, seeds, began, cpu))
        if failed or stage is not Stage.FLOW or not self.stages.flow.pending:
            self._account(self._clock(), learn=not failed)
        reading = stage is Stage.LM
        for stream, outcome in zip(members, outcomes, strict=True):
            if isinstance(outcome, int):
                view = stream.view
                if not reading:
                    view.euler_left -= outcome
                elif view.ids_left:
                    view.ids_left -= outcome
                continue
            self._touch(stream)
            if reading and not stream.read:
                self._note_read(stream, began)
            if outcome is not None:
                try:
                    self._note(stream, outcome)
                except Exception as error:
                    self._blame(stream, f"the {stage.name.lower()} stage failed", error)
        if building:
            for stream in self.streams:
                if id(stream.lane.voice) in building:
                    self._touch(stream)

    def _account(self, now: float, *, learn: bool = True) -> None:
        """All ticks under way are over: learn from what they took, and tell of it."""
        ticks, self._under_way = self._under_way, []
        taken = [now - ticks[0].began]
        if len(ticks) > 1:
            expected = [self.costs.tick_s(tick.stage, tick.rows, tick.context, tick.guesses) for tick in ticks]
            taken = [taken[0] * seconds / sum(expected) for seconds in expected]
        for tick, seconds in zip(ticks, taken, strict=True):
            self.tally.ticked(tick.stage, tick.streams, seconds)
            if learn:
                self.costs = self.costs.observed(tick.stage, tick.rows, tick.context, seconds, tick.guesses)
            if self.observe is not None:
                self.observe(trace.Ticked(tick.stage, tick.seeds, tick.began, seconds, tick.cpu_s))
        chances = self.stages.lm.chances
        if self.costs.guesses is not None and self.costs.guesses.chances is not chances:
            self.costs = self.costs.with_chances(chances)

    def _size(self, tick: Tick, members: Sequence[Stream], views: Sequence[StreamView]) -> tuple[int, int]:
        """Rows and context of a tick; streams that wait for one voice share its row."""
        if tick.stage is Stage.LM:
            return sum([views[place].lm_rows for place in tick.members]), 0
        if tick.stage is Stage.VOCODER:
            return len(members), 0
        frames: dict[int, int] = {}
        for place, stream in zip(tick.members, members, strict=True):
            lane = stream.lane
            frames[id(lane.voice if lane.voice.prefix is None else lane)] = views[place].context_frames
        return len(frames), sum(frames.values())

    def _attempt(
        self, stage: Stage, members: Sequence[Stream], guesses: int | None = None
    ) -> Sequence[Outcome] | Exception:
        """The tick for all members at once: each one's outcome, or what was raised, with nothing changed."""
        lanes = [stream.lane for stream in members]
        try:
            match stage:
                case Stage.LM:
                    return self.stages.read(lanes, guesses)
                case Stage.FLOW:
                    return self.stages.denoise(lanes)
                case Stage.VOCODER:
                    return self.stages.vocode(lanes)
        except Exception as error:
            return error

    def _alone(self, stage: Stage, stream: Stream, error: Exception, members: int) -> Outcome:
        """The outcome of a tick that raised `error` for one of its members, an error for the one at fault."""
        outcomes = self._attempt(stage, [stream]) if members > 1 else error
        if isinstance(outcomes, Exception):
            log.error("a %s tick failed; the stream at fault ends", stage.name, exc_info=outcomes)
            return InternalError(f"the {stage.name.lower()} stage failed: {outcomes}")
        return outcomes[0]

    def _note_read(self, stream: Stream, began: float) -> None:
        """The first step that read something of the stream began then."""
        stream.read = True
        if stream.listener.runnable_at is not None:
            self.tally.queued.add(max(0.0, began - stream.listener.runnable_at))

    def _note(self, stream: Stream, outcome: Outcome) -> None:
        match outcome:
            case OscineError():
                self.end(stream, outcome)
            case Chunk(segment=segment, mel=mel) if self.observe is not None:
                self.observe(trace.Solved(stream.options.seed, segment.index, mel))
            case np.ndarray():
                self._sound(stream, outcome)

    def _sound(self, stream: Stream, samples: NDArray[np.float32]) -> None:
        # Squares of finite samples add up to a finite number: they are at most 1.
        if not math.isfinite(samples @ samples):
            sent = (stream.listener.sent + stream.held_samples) / self._rate
            raise InternalError(f"the audio is not finite after {sent:.2f} s")
        segment = stream.lane.segments[0]
        last = segment.solved and segment.mel is None
        # Behind a silence that the listener has had anyway there is no pause to keep.
        pause = None if stream.listener.first and not stream.held else stream.pause
        samples = segment.guard.edge(samples, last, after=pause)
        if samples.size and segment.silence_s:
            # Between sentences there is a pause anyway.
            missing_s = max(0.0, segment.silence_s - (0.0 if pause is None else PAUSE_S))
            samples = np.concatenate((np.zeros(round(missing_s * self._rate), np.float32), samples))
            segment.silence_s = 0.0
        if samples.size:
            if stream.listener.first:
                self._holding += not stream.held
                stream.held.append(samples)
            else:
                self._send(stream, samples)
            self._lend(stream)
        if last:
            self._leave(stream, segment)

    def _leave(self, stream: Stream, segment: Segment) -> None:
        """The segment has sounded to its end."""
        stream.lane.segments.popleft()
        if stream.options.word_times:
            stream.deliver(Sounded(stream.listener.sent + stream.held_samples))
        stream.pause = segment.guard.edges.pause
        stream.spoken += 1
        stream.speech_tokens += len(segment.lm.tokens)
        if self.observe is not None:
            self.observe(self.stages.said(stream.options.seed, segment))
        if stream.held:
            stream.held_ends += 1
        else:
            stream.answered += 1
        if segment.marks:
            self._answer(stream, segment.marks)
        self._settle(stream)

    def _answer(self, stream: Stream, marks: int) -> None:
        """Everything before the flushes has been made: send it, and say so."""
        self._send_held(stream)
        for _ in range(marks):
            stream.answered += 1
            stream.deliver(Flushed(stream.listener.sent))

    def _settle(self, stream: Stream) -> None:
        """End the stream when nothing is left."""
        if stream.ending and not stream.lane.segments and not stream.ended:
            self._send_held(stream)
            self.end(stream, Done(self._stats(stream)))

    def _stats(self, stream: Stream) -> Stats:
        listener = stream.listener
        return Stats(
            audio_s=listener.sent / self._rate,
            segments=stream.spoken,
            speech_tokens=stream.speech_tokens,
            first_packet_s=listener.first_packet_s,
            busy_s=listener.busy_s,
            underruns=listener.underruns,
            underrun_s=listener.underrun_s,
            starved=listener.starved,
            starved_s=listener.starved_s,
        )

    # Sending, and how far ahead of the listener

    def _release(self, now: float) -> bool:
        """Send what is held back for those whose time has come."""
        released = False
        for stream in [stream for stream in self.streams if stream.held]:
            others = [other.view for other in self.streams if other is not stream]
            if release(stream.view, others, now, self.costs):
                released = True
                with self._blaming(stream, "its audio could not be handed on"):
                    self._send_held(stream)
        return released

    def _send_held(self, stream: Stream) -> None:
        if stream.held:
            packets, stream.held = stream.held, []
            self._holding -= 1
            for samples in packets:
                self._send(stream, samples)
            stream.answered += stream.held_ends
            stream.held_ends = 0
            self._touch(stream)

    def _send(self, stream: Stream, samples: NDArray[np.float32]) -> None:
        listener = stream.listener
        audio = Audio(listener.packets, listener.sent, samples)
        listener.note_sent(samples.size, self._clock())
        if listener.packets == 1 and listener.first_packet_s is not None:
            self.tally.first_packets.add(listener.first_packet_s)
        stream.deliver(audio)

    def _lend(self, stream: Stream) -> None:
        """Reckon anew how far the stream may run ahead."""
        stream.lane.credit = self._credit - stream.listener.ahead - stream.held_samples
        self._touch(stream)

    def _begin(self, stream: Stream, begin: Begin) -> Segment:
        segment = self._open_segment(stream, begin.whole, segment_seed(stream.options.seed, stream.begun))
        segment.tempo = Tempo(min(max(stream.options.speed * begin.rate, SLOWEST), FASTEST))
        segment.silence_s = begin.silence_s
        stream.begun += 1
        stream.lane.segments.append(segment)
        return segment

    @contextmanager
    def _blaming(self, stream: Stream, what: str) -> Iterator[None]:
        """An error in here is this stream's own."""
        try:
            yield
        except Exception as error:
            self._blame(stream, what, error)

    def _blame(self, stream: Stream, what: str, error: Exception) -> None:
        if not isinstance(error, OscineError):
            log.error("%s; the stream ends", what, exc_info=error)
            error = InternalError(f"{what}: {error}")
        self.end(stream, error)
