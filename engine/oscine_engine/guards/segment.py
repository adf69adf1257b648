"""One sentence under guard, from the ids of the language model to the samples that go out.

    sign                                                    seen in     then
    the ids go round in circles (`repetition`)              the ids     back to where that began
    silent ids for LONGEST_SILENCE_S                        the ids     back to the last one that was passed on
    no sound for LONGEST_SILENCE_S behind sound             the mel     back to what the flow has used
    no sound for LONGEST_START_S at the start               the mel     the sentence starts again
    a whole sentence without sound                          the mel     the sentence starts again
    as many ids as its text allows, no end in sight         the ids     an error

The first sign gives the sentence one more attempt, with another seed; the next one is an error, as the cap is: what
came before it has been heard already. Where an attempt goes back to depends on ids and mel alone, never on how far the
stages happened to be, so that one seed gives the same speech under any load. To that end ids that begin to look like a
loop are held back, HELD_IDS of them at most, until it is known to be one or not.

Text that repeats itself ("no, no, no, no, no") may sound like a loop for as long as that takes at a slow pace, and one
that is mostly repetition is cut at its cap without ado: nobody counts along. Short texts may reach their cap by
themselves (one character may take all the ids of its factor), so it is no fault below SHORT_IDS. Too short speech is
not looked for: the language model cannot end before its minimum.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from oscine_engine.errors import RunAway
from oscine_engine.guards.edges import Edges, Samples
from oscine_engine.guards.levels import frame_levels, silence_level
from oscine_engine.guards.repetition import CERTAIN_RUN, LONGEST_PERIOD, LOOKED_AT, SUSPECT_RUN, Loop, echo, looping
from oscine_engine.guards.silent_ids import SilentRuns

HELD_IDS = CERTAIN_RUN - SUSPECT_RUN
SHORT_IDS = 50
LONGEST_SILENCE_S = 2.5
"""The longest pause inside a recorded sentence is half a second."""
LONGEST_START_S = 2.0
QUIET_DB = 35.0
"""Below the voice's loudness by this much there is no speech. Wider than what is trimmed: here nothing is cut off."""
SECOND_SEED = 0xD1B54A32D192ED03


@dataclass(frozen=True, slots=True)
class GuardRules:
    """What one voice's sentences are judged by.

    loudness: `levels.speech_level` of the voice, dBFS. trim: cut silence at the edges. silent_ids: whose runs are
    shortened. slow_pace: speech ids per text id of slow speech, half of what is allowed at most. lookahead: ids that
    the flow looks at beyond those of a chunk.
    """

    sample_rate: int
    loudness: float
    trim: bool = True
    silent_ids: frozenset[int] = frozenset()
    slow_pace: float = 10.0
    lookahead: int = 3
    id_rate: int = 25
    frames_per_id: int = 2


class Retry(NamedTuple):
    """Take the language model back to the first `keep` ids of the sentence and draw on with `seed`.

    Of the ids that were meant for the flow the first `given` stand, and all that it has used or looked at are among
    them. With `restart` (both are 0) flow and vocoder start the sentence anew: nothing of it could be heard.
    """

    keep: int
    given: int
    restart: bool
    seed: int


Verdict: TypeAlias = Retry | RunAway | None
"""RunAway is for ending the stream with."""


class Said(NamedTuple):
    """`ids` are the flow's next ones; if there is a verdict there are none."""

    ids: list[int]
    verdict: Verdict


class SegmentGuard:
    """Told of everything a sentence comes to, in order; `seed` is the one it is first drawn with.

    After a Retry it expects to hear of the kept ids again, with new ones behind them; with `restart` of all mel and
    samples as well.
    """

    def __init__(self, rules: GuardRules, seed: int) -> None:
        self.rules = rules
        self._seed = seed
        self._attempts = 1
        self._ids: list[int] = []
        self._given = 0
        self._begin()

    def _begin(self) -> None:
        rules = self.rules
        self.edges = Edges(rules.sample_rate, silence_level(rules.loudness), trim=rules.trim)
        self._forget_ids(0)
        self._frames = 0
        self._quiet_frames = 0
        self._has_sound = False

    def _forget_ids(self, keep: int) -> None:
        """Be as after the first `keep` ids; those of them that were handed on stay so."""
        kept, self._ids = self._ids[:keep], list[int]()
        self._silence = SilentRuns(self.rules.silent_ids)
        self._passed: list[int] = []
        self._last_said: dict[int, int] = {}
        """By id: how many had been said with it, the last time."""
        for speech_id in kept:
            self._note(speech_id)
        self._cleared = keep
        self._suspected: int | None = None
        self._given = min(self._given, len(self._passed))

    def _note(self, speech_id: int) -> None:
        """`_passed` counts, for every id that the flow is given, how many were said up to it."""
        self._ids.append(speech_id)
        self._last_said[speech_id] = len(self._ids)
        if self._silence.passes(speech_id):
            self._passed.append(len(self._ids))

    @property
    def heard(self) -> int:
        """Ids that it was told of."""
        return len(self._ids)

    def said(self, ids: Sequence[int], *, text: Sequence[int] = (), done: bool, capped: bool) -> Said:
        """All ids said so far, for all the target's text ids so far; `done`, `capped`: the stream's, with these ids."""
        self._pass(ids)
        while len(self._ids) < len(ids):
            if (verdict := self._judge(ids[len(self._ids)], text)) is not None:
                return Said([], verdict)
            self._pass(ids)
        if capped and len(ids) >= SHORT_IDS and 2 * echo(text) <= len(text):
            return Said([], RunAway(f"a sentence did not end within {len(ids)} speech ids; {ADVICE}"))
        if done:
            self._cleared = len(ids)
        new = [self._ids[count - 1] for count in self._passed[self._given :] if count <= self._cleared]
        self._given += len(new)
        return Said(new, None)

    def _pass(self, ids: Sequence[int]) -> None:
        """Take those of the new ids, up to the first other one, that are neither silent nor such as were said of late:
        mostly this is all there is to do."""
        last_said, silent = self._last_said, self.rules.silent_ids
        before = count = len(self._ids)
        for speech_id in ids[before:]:
            if speech_id in silent or count - last_said.get(speech_id, -LONGEST_PERIOD) < LONGEST_PERIOD:
                break
            count += 1
            last_said[speech_id] = count
        if count > before:
            self._ids += ids[before:count]
            self._passed += range(before + 1, count + 1)
            self._cleared, self._suspected, self._silence.run = count, None, 0

    def _judge(self, speech_id: int, text: Sequence[int]) -> Verdict:
        """Take the next id, by all rules."""
        before = self._last_said.get(speech_id, -LONGEST_PERIOD)
        self._note(speech_id)
        count = len(self._ids)
        # What was not said for so long closes no circle: mostly `looping` need not be asked.
        loop = looping(self._ids[-LOOKED_AT:]) if count - before <= LONGEST_PERIOD else Loop.NONE
        if loop is Loop.NONE:
            self._suspected = None
        elif self._suspected is None:
            self._suspected = count
        if loop is Loop.CERTAIN and not self._asked_for(count, text):
            return self._again("it repeated itself", self._cleared)
        if self._silence.run > LONGEST_SILENCE_S * self.rules.id_rate:
            return self._again("it fell silent", self._passed[-1])
        if loop is Loop.NONE or count - self._cleared > HELD_IDS:
            self._cleared = count
        return None

    def _asked_for(self, count: int, text: Sequence[int]) -> bool:
        """The loop has not lasted longer than the repetition in its text may take."""
        assert self._suspected is not None
        repeated = echo(text)
        return repeated > 0 and count - self._suspected <= HELD_IDS + repeated * self.rules.slow_pace

    def solved(self, mel: NDArray[np.floating], last: bool) -> Verdict:
        """The next frames of the sentence's mel [n, 80], before the flow begins what follows; `last`: all is solved."""
        rules = self.rules
        sound = np.flatnonzero(frame_levels(mel) > rules.loudness - QUIET_DB)
        self._frames += len(mel)
        self._quiet_frames = self._quiet_frames + len(mel) if not len(sound) else len(mel) - 1 - int(sound[-1])
        self._has_sound |= len(sound) > 0
        quiet_s = self._quiet_frames / (rules.frames_per_id * rules.id_rate)
        if not self._has_sound and (last or quiet_s >= LONGEST_START_S):
            return self._again("nothing could be heard of it", 0, restart=True)
        if not last and quiet_s >= LONGEST_SILENCE_S:
            used = self._frames // rules.frames_per_id + rules.lookahead
            return self._again("it fell silent", self._passed[min(used, len(self._passed)) - 1])
        return None

    def edge(self, samples: Samples, last: bool, *, after: int | None = None) -> Samples:
        """`Edges.push`."""
        return self.edges.push(samples, last, after=after)

    def _again(self, fault: str, keep: int, *, restart: bool = False) -> Verdict:
        if self._attempts == 2:
            return RunAway(f"a sentence could not be spoken, nor by a second attempt: {fault}; {ADVICE}")
        self._attempts += 1
        if restart:
            self._begin()
        else:
            self._forget_ids(keep)
            self._quiet_frames = 0
        return Retry(keep, self._given, restart, (self._seed + SECOND_SEED) % 2**63)


ADVICE = "try another seed, another voice, or the text in other words"
