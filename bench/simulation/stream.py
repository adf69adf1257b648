"""One simulated stream: what the device loop's lanes do, counted instead of computed."""

import math
from dataclasses import dataclass, field

from bench.simulation.load import Utterance
from oscine_engine.scheduler.views import Stage, StreamView

CHUNK = 25
LOOK_AHEAD = 3
EULER_STEPS = 10
HELD_BACK_FRAMES = 4
FRAME_S = 0.02
LM_AHEAD = 50
"""Speech ids the language model may be ahead of the finished mel, as in the engine's lanes."""
TEXT_BLOCK, SPEECH_BLOCK = 5, 15
NEVER = math.inf


@dataclass(frozen=True, slots=True)
class Voice:
    """How speech begins. first_ids: speech ids before the first chunk can start, of which it takes `first_tokens`.

    prompt_frames: finished frames of the voice. prompt_rows: positions read before the first speech id. credit_s:
    seconds of sound a stream may be ahead of its listener.
    """

    first_tokens: int = 10
    first_ids: int = 13
    prompt_frames: int = 150
    prompt_rows: int = 140
    credit_s: float = 10.0
    lm_ahead: float = LM_AHEAD


@dataclass(slots=True, eq=False)
class Heard:
    """What its listener got. Times in seconds since the start; None for what has not happened."""

    first_packet_s: float | None = None
    underruns: int = 0
    underrun_s: float = 0.0
    starved: int = 0
    refused: int = 0
    broken: int = 0
    done_at: float | None = None


@dataclass(slots=True, eq=False)
class Stream:
    """`arrived` is when it could first start, or, after having starved, start again; `dry_at` as in StreamView.

    waits_for_text: it has nothing else to do, as of the last view.
    """

    utterance: Utterance
    voice: Voice
    opened: float
    heard: Heard
    arrived: float = 0.0
    dry_at: float | None = None
    ids: float = 0.0
    ids_ended: bool = False
    tokens: int = 0
    chunk: int = 0
    euler: int = 0
    mel_frames: int = 0
    mel_ended: bool = False
    packets: int = 0
    held_s: float = 0.0
    reads_prompt: bool = True
    waits_for_text: bool = False
    _view: StreamView | None = field(default=None, repr=False)
    _good_until: float = 0.0

    def __post_init__(self) -> None:
        self.arrived = self.opened
        rate = self.utterance.text_rate
        if rate is not None:
            self.arrived += min(TEXT_BLOCK, self.utterance.text_ids) / rate

    def touch(self) -> None:
        self._view = None

    def view(self, now: float) -> StreamView:
        """What the scheduler sees; kept until something changes."""
        if self._view is None or now >= self._good_until:
            self._view = self._look(now)
        return self._view

    @property
    def changes_at(self) -> float:
        """When time alone will change the last view: by text or credit."""
        return self._good_until

    def text_limit(self, now: float) -> tuple[float, float]:
        """(speech ids that the text by now allows, when that changes)."""
        rate = self.utterance.text_rate
        if rate is None:
            return NEVER, NEVER
        total = self.utterance.text_ids
        # A text id that is due now has come, whatever rounding says.
        come = math.floor((now - self.opened) * rate + 1e-6)
        if come >= total:
            return NEVER, NEVER
        blocks = come // TEXT_BLOCK
        return blocks * SPEECH_BLOCK, self.opened + min((blocks + 1) * TEXT_BLOCK, total) / rate

    def _boundary(self) -> int:
        """Tokens at the end of the next chunk, as far as the scheduler knows."""
        return self.voice.first_tokens + CHUNK * self.chunk

    def _needs_ids(self) -> int:
        return self.voice.first_ids if self.chunk == 0 else self._boundary() + LOOK_AHEAD

    def _look(self, now: float) -> StreamView:
        ready = set()
        self._good_until = NEVER
        ids_left = 0
        unwritten = False
        if not self.ids_ended and self.ids - self.tokens < self.voice.lm_ahead:
            limit, changes_at = self.text_limit(now)
            if self.ids < limit:
                ready.add(Stage.LM)
            else:
                unwritten = True
                self._good_until = changes_at
        enough = self.ids >= self._needs_ids() or (self.ids_ended and self.tokens < self.utterance.ids)
        if self.mel_frames or self.mel_ended:
            if self.mel_frames:
                ready.add(Stage.VOCODER)
        elif self.euler:
            ready.add(Stage.FLOW)
        elif enough:
            free_at = 0.0 if self.dry_at is None else self.dry_at - self.voice.credit_s
            if now >= free_at - 1e-9:
                ready.add(Stage.FLOW)
            else:
                self._good_until = min(self._good_until, free_at)
        else:
            ids_left = math.ceil(self._needs_ids() - self.ids)
        self.waits_for_text = unwritten and not ready
        return StreamView(
            arrived=self.arrived,
            dry_at=self.dry_at,
            ready=frozenset(ready),
            ids_left=ids_left,
            lm_rows=self.voice.prompt_rows if self.reads_prompt else 1,
            euler_left=EULER_STEPS - self.euler,
            context_frames=self.context_frames,
            held_s=self.held_s,
        )

    @property
    def context_frames(self) -> int:
        return self.voice.prompt_frames + 2 * CHUNK * self.chunk

    def run(self, stage: Stage, ids: float = 1.0) -> float:
        """Take part in a tick; gives the seconds of sound it made. ids: that a language model step says on average."""
        self.touch()
        match stage:
            case Stage.LM:
                self.reads_prompt = False
                if self.ids >= self.utterance.ids:
                    self.ids_ended = True
                else:
                    self.ids = min(self.ids + ids, float(self.utterance.ids))
            case Stage.FLOW:
                self.euler += 1
                if self.euler == EULER_STEPS:
                    end = min(self._boundary(), self.utterance.ids)
                    self.mel_frames = 2 * (end - self.tokens)
                    self.tokens, self.euler = end, 0
                    self.chunk += 1
                    self.mel_ended = self.ids_ended and end == self.utterance.ids
            case Stage.VOCODER:
                frames, self.mel_frames = self.mel_frames, 0
                frames += (HELD_BACK_FRAMES if self.mel_ended else 0) - (0 if self.packets else HELD_BACK_FRAMES)
                self.packets += 1
                return frames * FRAME_S
        return 0.0

    def send(self, seconds: float, now: float, alone_s: float) -> None:
        """Hand sound to the listener, who plays it at once.

        What comes late is an underrun, or a want of text if its text came less than `alone_s` before the listener ran
        dry: by then nobody could have promised the packet in time.
        """
        self.touch()
        if self.heard.first_packet_s is None:
            self.heard.first_packet_s = now - self.arrived
        if self.dry_at is not None and now > self.dry_at + 1e-9:
            if self._text_for_chunk_at() + alone_s > self.dry_at:
                self.heard.starved += 1
            else:
                self.heard.underruns += 1
                self.heard.underrun_s += now - self.dry_at
        self.dry_at = seconds + (now if self.dry_at is None else max(now, self.dry_at))
        if self.mel_ended and not self.mel_frames:
            self.heard.done_at = now

    def text_came(self, now: float) -> None:
        """More text is there for a stream that had nothing to do: if its listener ran dry meanwhile, it starved."""
        if self.dry_at is not None and self.dry_at < now:
            self.heard.starved += 1
            self.dry_at, self.arrived = None, now
        self.touch()

    def _text_for_chunk_at(self) -> float:
        """When the text of the chunk just finished had come."""
        rate = self.utterance.text_rate
        if rate is None:
            return self.opened
        ids = min(self.voice.first_tokens + CHUNK * (self.chunk - 1) + LOOK_AHEAD, self.utterance.ids)
        whole = ids == self.utterance.ids
        text = self.utterance.text_ids if whole else TEXT_BLOCK * math.ceil(ids / SPEECH_BLOCK)
        return self.opened + min(text, self.utterance.text_ids) / rate
