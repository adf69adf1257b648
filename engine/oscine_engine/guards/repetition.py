"""Does a sequence of ids go round in circles? Pure, for speech on the last ids said and for text on all of it.

Two signs, each far from anything in 8,606 recorded sentences (560,233 ids, all of them checked at every id):

    sign                                            most in recordings   suspected   certain
    ids equal to those `period` before, in a row             9               12         24
    different ids among the last 38, 50               22 (38), 32 (50)    12 of 38   16 of 50

The first finds a syllable, word or phrase of up to two seconds said over and over in the same way, the second one sound
that does not stop and wanders among a few ids, as drones, laughter and silence do. A phrase repeated in ever new ways
is not found here; the cap on a sentence's length ends it.

Text may ask for it ("no, no, no, no, no"): `echo` tells how much of a text repeats what is before it.
"""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

LONGEST_PERIOD = 50
SUSPECT_RUN, CERTAIN_RUN = 12, 24
SUSPECT_VARIETY, CERTAIN_VARIETY = (38, 12), (50, 16)
"""(ids looked at, most different ones among them)."""
LOOKED_AT = LONGEST_PERIOD + CERTAIN_RUN
"""No id before these makes a difference."""


class Loop(IntEnum):
    NONE = 0
    SUSPECTED = 1
    CERTAIN = 2


def looping(ids: Sequence[int]) -> Loop:
    """How much `ids` look like a loop at their end. What comes before the last LOOKED_AT ids does not count."""
    # An id that was not said within the last two seconds closes no circle: mostly this is all there is to do.
    if not ids or ids[-1] not in ids[-1 - LONGEST_PERIOD : -1]:
        return Loop.NONE
    return max(_by_run(ids), _by_variety(ids))


def _by_run(ids: Sequence[int]) -> Loop:
    last, before = ids[-1], ids[-1 - LONGEST_PERIOD : -1]
    periods = [len(before) - place for place, other in enumerate(before) if other == last]
    run = max((_matched(ids, period) for period in periods), default=0)
    return Loop.CERTAIN if run >= CERTAIN_RUN else Loop.SUSPECTED if run >= SUSPECT_RUN else Loop.NONE


def _matched(ids: Sequence[int], period: int) -> int:
    """How many ids at the end equal those `period` before, counted up to CERTAIN_RUN."""
    most = min(CERTAIN_RUN, len(ids) - period)
    return next((n for n in range(most) if ids[-1 - n] != ids[-1 - n - period]), most)


def echo(text: Sequence[int]) -> int:
    """Longest stretch of text ids that says again what stands directly before it, once or more often.

    0 for stretches of one or two ids, which doubled letters are.
    """
    ids = np.asarray(text)
    longest = 0
    for period in range(1, min(LONGEST_PERIOD, len(ids) // 2) + 1):
        differs = np.flatnonzero(ids[period:] != ids[:-period])
        run = int(np.diff(differs, prepend=-1, append=len(ids) - period).max()) - 1
        if run >= max(period, 3):
            longest = max(longest, run)
    return longest


def _by_variety(ids: Sequence[int]) -> Loop:
    for window, most, loop in ((*CERTAIN_VARIETY, Loop.CERTAIN), (*SUSPECT_VARIETY, Loop.SUSPECTED)):
        if len(ids) >= window and len(set(ids[-window:])) <= most:
            return loop
    return Loop.NONE
