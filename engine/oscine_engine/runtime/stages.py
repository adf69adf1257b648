"""One batched tick of each stage over many lanes, and what each lane could do next.

Owned by the device loop's thread; nothing here locks, waits or knows about asyncio. A tick answers with an outcome for
each lane, an error for one whose own numbers or ids are wrong. A tick that raises leaves every lane so that it can be
taken again, with fewer of them.
"""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oscine_engine.errors import InternalError, InvalidInput, OscineError, Overloaded
from oscine_engine.flow.stream import FlowStream
from oscine_engine.flow.streams import FlowStreams
from oscine_engine.guards.segment import Retry
from oscine_engine.lm.interleave import Phase
from oscine_engine.lm.port import LanguageModel
from oscine_engine.runtime.lane import Lane, Segment
from oscine_engine.runtime.tempo import Tempo
from oscine_engine.runtime.trace import Said
from oscine_engine.runtime.voices import VoiceCache
from oscine_engine.scheduler.views import Stage
from oscine_engine.vocoder.runner import VocoderRunner

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class Chunk(NamedTuple):
    """A chunk that an Euler step has finished: mel [n, 80]."""

    segment: Segment
    mel: Tensor


Heard: TypeAlias = OscineError | int | None
"""Why it failed; or how many ids the flow was given, if that is all that has changed of what it could do next."""
Solved: TypeAlias = Chunk | OscineError | int | None
"""The chunk this Euler step finished, an error, 1 if nothing has changed but that the step was made, or None."""

SETS: tuple[frozenset[Stage], ...] = tuple(
    frozenset(stage for stage in Stage if mask & 1 << stage) for mask in range(1 << len(Stage))
)
"""Every set of stages, at the sum of 1 << stage."""
LM, FLOW, VOCODER = (1 << stage for stage in Stage)


class Prospect(NamedTuple):
    """What a lane could do now and what its next packet takes; the fields are those of `StreamView`."""

    ready: frozenset[Stage]
    ids_left: int
    lm_rows: int
    euler_left: int
    context_frames: int
    chunk_frames: int


IDLE = Prospect(SETS[0], 0, 1, 0, 0, 0)


class Stages:
    """The three runners and the cache of voices. `positions`: a segment's share of the language model's pages."""

    def __init__(
        self, lm: LanguageModel, flow: FlowStreams, vocoder: VocoderRunner, voices: VoiceCache, positions: int
    ) -> None:
        self.positions = positions
        self.lm = lm
        self.flow = flow
        self.vocoder = vocoder
        self.voices = voices
        config = flow.config
        self._chunk_frames = config.dit.static_chunk_size
        self._chunk_tokens = config.dit.static_chunk_size // config.token_mel_ratio
        self._shared = flow.pool.num_pages - voices.max_pages
        """Pages that sentences share; those of voices are not among them."""
        self._kept: dict[Segment, Lane] = {}
        """Sentences for which pages are kept."""
        self._promised = 0
        """How many, of all of them."""
        self._next: Segment | None = None
        """The sentence that begins before any other does, once there are pages for it."""
        self._refused = self._made_room = False
        self._ratio = config.token_mel_ratio
        self._wanted = config.dit.static_chunk_size // config.token_mel_ratio + config.pre_lookahead_len
        """Speech ids in hand with which a chunk can begin."""
        self._frame = vocoder.network.config.samples_per_frame
        self._behind = vocoder.network.config.conv_pre_look_right
        """Mel frames the vocoder holds back."""
        self.chunk_samples = (self._chunk_frames + self._behind) * self._frame
        """The most that a chunk makes sound: itself, and what was held back of the one before."""

    def prospect(self, lane: Lane) -> Prospect:
        """What `lane`, which has caught up, could do now, and how long that stays so (`Lane.calm`).

        Runs for every stream that a tick moved on to something else, so it is kept short.
        """
        voice, segment = lane.voice, lane.solving
        mask, rows, build = 0, 1, 0
        if (reading := lane.reading) is not None:
            mask, lane.read = LM, reading
            if reading.lm.plain:
                lane.calm = reading.ahead_left - 1
            else:
                rows, lane.calm = reading.lm.num_ready, -1
        else:
            lane.calm = -1
        if voice.prefix is None:
            build = self.voices.steps_left(voice)
            mask |= FLOW
            lane.calm = -1
        if not lane.segments:
            return Prospect(SETS[mask], 0, rows, build, voice.prompt_frames, 0) if mask else IDLE
        if (mel := lane.segments[0].mel) is not None:
            mask |= VOCODER
        steps = context = ids = frames = 0
        if segment is not None:
            if (flow := segment.flow) is not None and (chunk := flow.chunk) is not None:
                mask |= FLOW
                steps, frames = self.flow.n_timesteps - chunk.step, chunk.frames
                context = flow.frames + frames
            else:
                have = (len(flow.tokens) if flow is not None else voice.open_tokens) + len(segment.ids)
                steps, frames = self.flow.n_timesteps, self._chunk_frames
                context = voice.prompt_frames + segment.frames + frames
                if have >= self._wanted or (segment.complete and have > 0 and segment.given):
                    # Others may take the pages that it would begin with: then its tick leaves it out.
                    if not build and self._room(lane, segment):
                        mask |= FLOW
                    frames = min(frames, self._ratio * have)
                elif not segment.complete:
                    ids = self._wanted - have
                    lane.calm = min(lane.calm, ids - 1)
            sound = frames if segment.frames else frames - self._ratio * voice.open_tokens
            frames = int(sound / segment.tempo.speed) - (0 if segment.frames else self._behind)
        if mel is not None:
            frames = mel.shape[0]
        return Prospect(SETS[mask], ids, rows, build + steps, context, max(1, frames))

    def _room(self, lane: Lane, segment: Segment) -> bool:
        """Whether a chunk may begin: only if what waits for the vocoder, and then the chunk itself, will be within the
        credit; and with at most one chunk waiting for the vocoder.

        Of pages see `_may_begin` and `_may_go_on`.
        """
        waiting = 0 if segment.mel is None else segment.mel.shape[0]
        unsounded = waiting
        if (first := lane.segments[0]) is not segment and first.mel is not None:
            unsounded += first.mel.shape[0] + self._behind
        if lane.credit < unsounded * self._frame or int(waiting * segment.tempo.speed) > self._chunk_frames:
            self._step_back(segment)
            return False
        if segment.flow is None:
            return self._may_begin(lane, segment)
        return self._may_go_on(lane, segment, segment.flow)

    # Pages. A pool may be smaller than what all streams could need at once. The rule that keeps them from standing in
    # each other's way:
    #
    # 1. A sentence begins once as many pages as its text may take are free, and they are kept for it. So what has begun
    #    can be ended, whatever begins later; what is kept goes down to what is needed when the last id is known.
    # 2. Who cannot begin first is the next to begin, and nobody overtakes it.
    # 3. Text that comes later may ask for more than was kept. If that is not there, the sentence waits for those that
    #    can end; if there are none, it is refused. So somebody always gets on.

    def _may_begin(self, lane: Lane, segment: Segment) -> bool:
        """Rules 1 and 2."""
        if self._next in (None, segment) and self._promised + self._need(lane, segment) <= self._shared:
            return True
        self._next = self._next or segment
        self._refused = True
        return False

    def _may_go_on(self, lane: Lane, segment: Segment, flow: FlowStream) -> bool:
        """Rule 3; who is to be refused may, and then is."""
        if self._own_pages(lane, flow) < segment.promised or self._promised < self._shared:
            return True
        self._refused = True
        others = ((other, where) for other, where in self._kept.items() if other is not segment)
        return not any(other.promised >= self._need(where, other) for other, where in others)

    def _own_pages(self, lane: Lane, flow: FlowStream) -> int:
        assert lane.voice.prefix is not None
        return len(flow.pages) - len(lane.voice.prefix.pages)

    def _step_back(self, segment: Segment) -> None:
        """Whoever was the next to begin does not want to any more."""
        if self._next is segment:
            self._next, self._made_room = None, True

    def _need(self, lane: Lane, segment: Segment) -> int:
        """Pages of its own that the flow will take at most for the text that `segment` has so far."""
        ids = segment.given if segment.complete else segment.lm.speech_at_most
        return -(-(lane.voice.open_tokens + ids) // self._chunk_tokens)

    def _promise(self, lane: Lane, segment: Segment) -> None:
        """Keep as many pages as the text so far may take, as far as they are there."""
        more = min(self._need(lane, segment) - segment.promised, self._shared - self._promised)
        if more > 0:
            self._kept[segment] = lane
            segment.promised += more
            self._promised += more

    def _keep_less(self, segment: Segment) -> None:
        """All ids are known: keep what they take."""
        if (lane := self._kept.get(segment)) is not None:
            more = segment.promised - self._need(lane, segment)
            if more > 0:
                segment.promised -= more
                self._promised -= more
                self._room_was_made()

    def _room_was_made(self) -> None:
        self._made_room |= self._refused
        self._refused = False

    def made_room(self) -> bool:
        """Whether pages became free, since the last time, for which some lane waits."""
        made, self._made_room = self._made_room, False
        return made

    def add_text(self, segment: Segment, ids: Sequence[int]) -> None:
        """Append text. Raises InvalidInput, at once, for more than the segment's share of pages can ever hold."""
        segment.lm.add_text(ids)
        segment.text += ids
        if segment.lm.positions_at_most > self.positions:
            raise InvalidInput(
                f"a sentence of {len(segment.text)} ids is longer than can be spoken in one go; end sentences sooner"
            )
        self.note_end(segment)

    def end_text(self, segment: Segment) -> None:
        segment.lm.end_text()
        self.note_end(segment)

    def read(self, lanes: Sequence[Lane], guesses: int | None = None) -> list[Heard]:
        """One language model step, with so many guesses, for every lane that has one to take."""
        segments = [lane.read if lane.calm >= 0 else lane.reading for lane in lanes]
        said = iter(self.lm.step([segment.lm for segment in segments if segment is not None], guesses))
        outcomes: list[Heard] = []
        for lane, segment in zip(lanes, segments, strict=True):
            if segment is None:
                outcomes.append(None)
            elif lane.calm >= (count := len(next(said))) and segment.lm.plain:
                # Most streams in most steps. What was said is heard before anybody needs it: see `catch_up`.
                lane.calm -= count
                outcomes.append(count)
            else:
                lane.calm = -1
                outcomes.append(_own(self._hear, segment))
        return outcomes

    def catch_up(self, lane: Lane) -> OscineError | None:
        """Hear what was said while the lane was calm; before its prospect is asked for. An error is the lane's own."""
        segment = lane.read
        if segment is None or segment.guard.heard == len(segment.lm.tokens):
            return None
        return _own(self._hear, segment)

    def _hear(self, segment: Segment) -> OscineError | None:
        """Take on what the language model has said since the last time."""
        lm = segment.lm
        if lm.failure is not None:
            return lm.failure
        done = not lm.plain and lm.machine.phase is Phase.DONE
        said = segment.guard.said(lm.tokens, text=segment.text, done=done, capped=done and lm.capped)
        if isinstance(said.verdict, Retry):
            self._retry(segment, said.verdict)
            return None
        if said.verdict is not None:
            return said.verdict
        segment.ids += said.ids
        segment.given += len(said.ids)
        if done:
            self.note_end(segment)
        return None

    def note_end(self, segment: Segment) -> None:
        """If the language model is done, so is what it has to say; of nothing at all the end goes straight on."""
        if segment.lm.state == "done" and not segment.solved:
            segment.complete = True
            self._keep_less(segment)
            if not segment.given:
                size = self.flow.config.output_size
                segment.mel = torch.zeros(0, size)
                self._finish(segment)

    def _retry(self, segment: Segment, verdict: Retry) -> None:
        """Say the segment again from where its guard says."""
        self.lm.rewind(segment.lm, verdict.keep, verdict.seed)
        segment.draws.append((verdict.keep, verdict.seed))
        segment.complete = False
        if verdict.restart:
            if segment.flow is not None:
                self.flow.close(segment.flow)
            self._release(segment)
            segment.flow, segment.mel, segment.frames = None, None, 0
            segment.tempo = Tempo(segment.tempo.speed)
            segment.vocoder = self.vocoder.open()
            segment.ids, segment.given = [], 0
            return
        unsaid = segment.given - verdict.given
        waiting = len(segment.ids)
        segment.ids = segment.ids[: max(0, waiting - unsaid)]
        if segment.flow is not None:
            self.flow.rewind(segment.flow, max(0, unsaid - waiting))
        segment.given = verdict.given

    def denoise(self, lanes: Sequence[Lane]) -> list[Solved]:
        """One Euler step for every lane, each wherever it is in its chunk or its voice's."""
        outcomes: list[Solved] = [None] * len(lanes)
        targets: dict[int, FlowStream] = {}
        stepped: list[tuple[int, Lane, Segment | None, FlowStream]] = []
        for place, lane in enumerate(lanes):
            segment = None if lane.voice.prefix is None else lane.solving
            if segment is not None and (open_ := segment.flow) is not None and open_.chunk is not None:
                flow: FlowStream | OscineError | None = open_
            else:
                flow = _own(self._begun, lane, segment)
            if isinstance(flow, OscineError):
                outcomes[place] = flow
            elif flow is not None:
                targets[id(flow)] = flow
                stepped.append((place, lane, segment, flow))
        if not targets:
            return outcomes
        try:
            self.flow.step(list(targets.values()))
        except Exception:
            if len(targets) == 1 and (only := stepped[0][1].voice).prefix is None:
                self.voices.spoil(only)
            raise
        for place, lane, segment, flow in stepped:
            if flow.chunk is None:
                outcomes[place] = _own(self._solved, lane, segment, flow)
            elif segment is not None and flow.chunk.step > 1:
                outcomes[place] = 1
        return outcomes

    def _begun(self, lane: Lane, segment: Segment | None) -> FlowStream | None:
        """What to step for this lane, its chunk begun; None if there is nothing after all."""
        if lane.voice.prefix is None:
            flow = lane.voice.prompt
            if flow is None:
                raise InternalError(f"voice {lane.voice.name!r} could not be made ready")
        else:
            if segment is None or (segment.flow is None and not self._may_begin(lane, segment)):
                return None
            self._feed(lane, segment)
            flow = segment.flow
        if flow is None or (flow.chunk is None and not self.flow.ready(flow)):
            return None
        if flow.chunk is None:
            if segment is not None:
                if not self._may_go_on(lane, segment, flow):
                    return None
                self._claim(lane, segment, self._own_pages(lane, flow))
            self.flow.begin(flow)
        return flow

    def _claim(self, lane: Lane, segment: Segment, held: int) -> None:
        """Make sure of one page more than `held`. Raises Overloaded if text came that there are no pages for."""
        if held >= segment.promised:
            self._promise(lane, segment)
        if held >= segment.promised:
            raise Overloaded("the sentence grew beyond the memory that is free; try again with shorter sentences", 1.0)

    def _feed(self, lane: Lane, segment: Segment) -> None:
        """Hand the flow what the language model has said since the last time."""
        if segment.flow is None:
            assert lane.voice.prefix is not None
            segment.flow = self.flow.open(lane.voice.prefix)
            self._step_back(segment)
            self._promise(lane, segment)
        if segment.ids or (segment.complete and not segment.flow.last):
            self.flow.feed(segment.flow, segment.ids, last=segment.complete)
            segment.ids = []

    def _solved(self, lane: Lane, segment: Segment | None, flow: FlowStream) -> Solved:
        if segment is None:
            try:
                self.voices.advanced(lane.voice)
            except ValueError as error:
                self.voices.spoil(lane.voice)
                return InternalError(str(error))
            return None
        if not self.flow.sound(flow):
            return InternalError(f"the mel is not finite after {segment.frames} frames")
        mel = self.flow.take_mel(flow)
        segment.frames += mel.shape[0]
        self._feed(lane, segment)
        finished = self.flow.finished(flow)
        drawn = segment.tempo.push(mel, finished)
        segment.mel = drawn if segment.mel is None else torch.cat((segment.mel, drawn))
        verdict = segment.guard.solved(mel.float().cpu().numpy(), finished)
        if isinstance(verdict, Retry):
            self._retry(segment, verdict)
        elif verdict is not None:
            return verdict
        elif finished:
            self._finish(segment)
        return Chunk(segment, mel)

    def vocode(self, lanes: Sequence[Lane]) -> list[NDArray[np.float32] | None]:
        """Turn each lane's waiting mel into samples; None for one without."""
        waiting = {
            place: (segment, segment.mel)
            for place, lane in enumerate(lanes)
            if (segment := lane.sounding) and segment.mel is not None
        }
        samples = self.vocoder.step([(segment.vocoder, mel, segment.solved) for segment, mel in waiting.values()])
        outcomes: list[NDArray[np.float32] | None] = [None] * len(lanes)
        for (place, (segment, _)), wave in zip(waiting.items(), samples, strict=True):
            outcomes[place], segment.mel = wave, None
        return outcomes

    def said(self, seed: int, segment: Segment) -> Said:
        """What an observer is told of a segment that has sounded."""
        ids, text = tuple(segment.lm.tokens), tuple(segment.text)
        return Said(seed, segment.index, ids, segment.prompt, text, segment.interleaved, tuple(segment.draws))

    def _finish(self, segment: Segment) -> None:
        """All of the segment is mel: its pages go back at once, before it has sounded."""
        segment.solved = True
        self.close(segment)

    def close(self, segment: Segment) -> None:
        """Give back every page `segment` holds."""
        self.lm.close(segment.lm)
        if segment.flow is not None:
            self.flow.close(segment.flow)
        self._release(segment)

    def _release(self, segment: Segment) -> None:
        """Give up the pages that were kept for it, and its place."""
        self._step_back(segment)
        if self._kept.pop(segment, None) is not None:
            self._promised -= segment.promised
            segment.promised = 0
            self._room_was_made()


def _own(verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | OscineError:
    """What belongs to one lane alone: an error in here is its own, and no reason to take the tick again."""
    try:
        return verb(*args, **kwargs)
    except OscineError as error:
        return error
    except Exception as error:
        log.exception("a stream cannot go on")
        return InternalError(f"the stream cannot go on: {error}")
