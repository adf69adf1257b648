"""What the language model is fed and may say next: a state machine over plain integers.

A sequence is laid out exactly as in training (`sequence.training_sequence` writes the same layout down directly). N and
M are the block's text and speech ids, 5 and 15 in the released checkpoint; "text" is the prompt's transcript followed
by the target text; "speech" is the prompt's speech followed by what the model says.

    phase     when                         is fed                                          may say         then
    --------  ---------------------------  ----------------------------------------------  --------------  --------
    (start)                                sos, prefix (up to and including endofprompt)                   boundary
    boundary  N text ids are waiting       N text ids, prompt speech up to M ids           speech          block
    boundary  text has ended, < N waiting  the rest of the text, task_id, prompt speech    speech or eos   tail
    boundary  otherwise                    nothing: needs text                                             boundary
    block     fewer than M speech ids      the id just said                                speech          block
    block     M speech ids                 the id just said, without asking for another                    boundary
    tail      eos said, or maximum length  nothing                                                         done
    any       the limit of ids is said     nothing                                                         done
    tail      otherwise                    the id just said                                speech or eos   tail

Whole mode is this table without its second row: no block is ever opened, all text comes before task_id.

Why so:
* `fill` is the training target after the M-th speech id and nowhere else, and it is never an input. So where it belongs
  it is certain and where it does not it is an error: a block ends by count and fill is never sampled.
* eos is a target only after task_id, so inside a block it is masked; so are all control and unused ids, everywhere.
* A text whose length is a multiple of N still ends with a row of its own: no text, task_id, speech.
* A block opens only when all its text is there, so text cannot run dry inside one, and the inputs depend on the text
  alone and not on how it arrived.
* Prompt speech that exactly fills a block is followed by text before anything is said, and prompt speech left over when
  the text ends is laid after task_id: it is never dropped, never continued without text.
* Nothing is said before the first target id: an empty text ends in silence, however it arrived.
* Lengths count what the model says against the target text only. eos is masked while fewer than the minimum are said.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple, Self

from oscine_engine.config import LMConfig, TextRules

_NEVER = 1 << 62
"""More ids than anybody says."""


class Kind(IntEnum):
    """Which embedding an input id belongs to; sos, eos, task_id and fill are rows of the speech embedding."""

    TEXT = 0
    SPEECH = 1


_SPEECH = Kind.SPEECH
"""Asking the class for it is slow, and `ran` is called for every stream in every step."""


class Input(NamedTuple):
    """One position of the language model's input."""

    kind: Kind
    id: int


_new = tuple.__new__
"""Half of the time that a named tuple's own takes."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The ids and counts that shape a sequence. `text_block`, `speech_block`: ids per interleaved block (N and M)."""

    speech_token_size: int
    text_block: int = 5
    speech_block: int = 15
    min_ratio: float = 2
    max_ratio: float = 20

    @classmethod
    def of(cls, lm: LMConfig, rules: TextRules) -> Self:
        text_block, speech_block = rules.mix_ratio
        return cls(
            speech_token_size=lm.speech_token_size,
            text_block=text_block,
            speech_block=speech_block,
            min_ratio=rules.min_token_text_ratio,
            max_ratio=rules.max_token_text_ratio,
        )

    @property
    def sos(self) -> Input:
        return Input(Kind.SPEECH, self.speech_token_size)

    @property
    def eos(self) -> int:
        return self.speech_token_size + 1

    @property
    def task_id(self) -> Input:
        return Input(Kind.SPEECH, self.speech_token_size + 2)

    @property
    def fill(self) -> int:
        return self.speech_token_size + 3


@dataclass(frozen=True, slots=True)
class Prompt:
    """A voice as the language model sees it.

    prefix: text ids up to and including endofprompt; transcript: text ids of what `speech`, its speech ids, says. Both
    of the latter are empty for a voice given by instruction.
    """

    prefix: tuple[int, ...] = ()
    transcript: tuple[int, ...] = ()
    speech: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.transcript and not self.speech:
            raise ValueError("a prompt's transcript needs the speech ids that say it, or it would be spoken again")


class Phase(Enum):
    BOUNDARY = "boundary"
    BLOCK = "block"
    TAIL = "tail"
    DONE = "done"


class Feed(NamedTuple):
    """Inputs for one step. If `says`, an id is to be sampled after the last one; eos is legal only if `may_end`."""

    inputs: list[Input]
    says: bool
    may_end: bool


class Interleaver:
    """The machine of the table above. Text in by `add_text` and `end_text`, inputs out by `take`, ids in by `say`.

    limit: most ids to say, whatever the text; None for no bound but the text's. `capped` tells that it, or the text's
    maximum, has stopped a model that could have ended by itself.
    """

    def __init__(self, layout: Layout, prompt: Prompt, *, interleaved: bool, limit: int | None = None) -> None:
        self.layout = layout
        self.limit = limit
        self.phase = Phase.BOUNDARY
        self.said = 0
        self.capped = False
        self._prompt = prompt
        self._interleaved = interleaved
        self._text = list(prompt.transcript)
        self._next_text = 0
        self._target_count = 0
        self._text_ended = False
        self._prompt_speech = list(prompt.speech)
        self._next_speech = 0
        self._in_block = 0
        self._pending = [layout.sos, *(Input(Kind.TEXT, i) for i in prompt.prefix)]
        if interleaved:
            self._advance()
        else:
            self._pending += self._take_text(len(self._text))

    @property
    def num_pending(self) -> int:
        """Inputs that wait to be taken."""
        return len(self._pending)

    @property
    def waiting(self) -> Sequence[Input]:
        """The inputs that `take` would hand over."""
        return self._pending

    @property
    def says(self) -> bool:
        """An id is to be sampled once what waits has been fed."""
        return self.phase is Phase.BLOCK or self.phase is Phase.TAIL

    @property
    def needs_text(self) -> bool:
        """Nothing can be done before more text arrives or the text ends."""
        return self.phase is Phase.BOUNDARY and not self._pending

    @property
    def min_length(self) -> int:
        return int(self.layout.min_ratio * self._target_count)

    @property
    def max_length(self) -> int:
        return int(self.layout.max_ratio * self._target_count)

    @property
    def positions_at_most(self) -> int:
        """Inputs that all text so far and as much speech as may be said for it amount to, the prompt's included."""
        return 2 + len(self._prompt.prefix) + len(self._text) + len(self._prompt_speech) + self.speech_at_most

    @property
    def speech_at_most(self) -> int:
        """Speech ids that may be said for all text so far."""
        blocks = len(self._text) // self.layout.text_block * self.layout.speech_block if self._interleaved else 0
        speech = max(self.max_length, blocks + 1, self.said)
        return speech if self.limit is None else min(speech, self.limit)

    def add_text(self, ids: Sequence[int]) -> None:
        """Append target text ids. Raises ValueError after `end_text`."""
        if self._text_ended:
            raise ValueError("text was added after its end; open a new stream for it")
        self._text += ids
        self._target_count += len(ids)
        self._advance()

    def end_text(self) -> None:
        """No more text will come. Repeating it changes nothing."""
        self._text_ended = True
        self._advance()

    def take(self) -> Feed:
        """Hand over all waiting inputs; if the feed says, `say` must follow before the next `take`."""
        inputs, self._pending = self._pending, []
        return Feed(inputs, self.says, self.may_end)

    def fed(self) -> int:
        """As `take`, for a caller that has fed what waits already. Returns how many inputs that were."""
        count = len(self._pending)
        self._pending = []
        return count

    def put_back(self, feed: Feed) -> None:
        """Undo the last `take`, whose feed came to nothing; nothing may have been said or added since."""
        self._pending = feed.inputs + self._pending

    def rewound(self, said: Sequence[int]) -> tuple[Self, int]:
        """A machine with the text of this one in which `said`, the first ids of this one's speech, has just been said.

        Also tells how many inputs were taken before those that wait in it: they are the first ones this one fed.
        """
        machine = type(self)(self.layout, self._prompt, interleaved=self._interleaved, limit=self.limit)
        machine.add_text(self._text[len(self._prompt.transcript) :])
        if self._text_ended:
            machine.end_text()
        fed = 0
        while machine.said < len(said):
            feed = machine.take()
            fed += len(feed.inputs)
            machine.say(said[machine.said])
        return machine, fed

    @property
    def room(self) -> int:
        """Ids that may be said one after the other, each fed before the next; 0 where none may be said."""
        if self.phase is Phase.BLOCK:
            left = self.layout.speech_block - self._in_block
        elif self.phase is Phase.TAIL:
            left = max(1, self.max_length - self.said)
        else:
            return 0
        return left if self.limit is None else min(left, self.limit - self.said)

    @property
    def may_end(self) -> bool:
        """eos is legal at the next sampled position."""
        return self.said >= self.ends_from

    @property
    def ends_from(self) -> int:
        """Ids said from which on eos is legal, until the phase changes."""
        return self.min_length if self.phase is Phase.TAIL else _NEVER

    def say(self, speech_id: int) -> bool:
        """Take the sampled id; true if it is speech, false if it is eos. Raises ValueError for an id that is masked."""
        if speech_id == self.layout.eos and self.may_end:
            self.phase = Phase.DONE
            return False
        if not 0 <= speech_id < self.layout.speech_token_size or self.phase not in (Phase.BLOCK, Phase.TAIL):
            raise ValueError(f"id {speech_id} is not legal in phase {self.phase.value} after {self.said} ids")
        self.said += 1
        self._in_block += 1
        if self.said == self.limit or (self.phase is Phase.TAIL and self.said >= self.max_length):
            # Equal factors leave the model no say in the length: reaching it is the end then.
            self.capped = self.said == self.limit or self.layout.min_ratio < self.layout.max_ratio
            self.phase = Phase.DONE
            return True
        self._pending.append(Input(Kind.SPEECH, speech_id))
        if self.phase is Phase.BLOCK and self._in_block == self.layout.speech_block:
            self.phase = Phase.BOUNDARY
            self._advance()
        return True

    def ran(self, ids: Sequence[int]) -> None:
        """Ids were said in turn, each fed before the next, fewer than `room` and all of them speech.

        The same as `say` and `take` for each, but quick: whoever calls this has made sure of what `say` would check.
        """
        count = len(ids)
        self.said += count
        self._in_block += count
        self._pending = [_new(Input, (_SPEECH, ids[-1]))]

    def _advance(self) -> None:
        while self.phase is Phase.BOUNDARY:
            if self._text_ended and not self._target_count:
                self._pending.clear()
                self.phase = Phase.DONE
            elif self._interleaved and self._can_open_block():
                self._pending += self._take_text(self.layout.text_block)
                prompt = self._take_prompt_speech(self.layout.speech_block)
                self._pending += prompt
                self._in_block = len(prompt)
                if self._in_block < self.layout.speech_block:
                    self.phase = Phase.BLOCK
            elif self._text_ended:
                self._pending += self._take_text(len(self._text))
                self._pending.append(self.layout.task_id)
                self._pending += self._take_prompt_speech(len(self._prompt_speech))
                self.phase = Phase.TAIL
            else:
                return

    def _can_open_block(self) -> bool:
        """All text of a block is there, and the target too if the prompt's speech would leave something to say."""
        fills_block = len(self._prompt_speech) - self._next_speech >= self.layout.speech_block
        has_text = len(self._text) - self._next_text >= self.layout.text_block
        return has_text and (fills_block or self._target_count > 0)

    def _take_text(self, count: int) -> list[Input]:
        ids = self._text[self._next_text : self._next_text + count]
        self._next_text += len(ids)
        return [Input(Kind.TEXT, i) for i in ids]

    def _take_prompt_speech(self, count: int) -> list[Input]:
        ids = self._prompt_speech[self._next_speech : self._next_speech + count]
        self._next_speech += len(ids)
        return [Input(Kind.SPEECH, i) for i in ids]
