"""What the scheduler knows of a stream, and what it answers: plain data, times in seconds of one monotonic clock."""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class Stage(IntEnum):
    """Stages of one stream, upstream to downstream."""

    LM = 0
    FLOW = 1
    VOCODER = 2


@dataclass(slots=True)
class StreamView:
    """One stream at one moment. A tick that only says ids or makes an Euler step changes `ids_left` or `euler_left` of
    those it moves, and nothing else: most streams in most ticks.

    arrived: since when it waits for its first packet (it had the text to start).
    dry_at: when its listener runs out of sound, None while nothing plays (before the first packet, or after a wait for
    text outlasted what was sent).
    ready: the stages that could take a tick now. With the vocoder among them, that tick is all the next packet needs.
    ids_left: speech ids until the next chunk can begin, 0 if they are there.
    lm_rows: rows its next language model step takes up: 1, and as many as there are positions when it first reads.
    euler_left: Euler steps from here to the next finished chunk, a voice's own chunks that must be solved first
    included.
    context_frames: mel frames whose keys and values an Euler step reads.
    chunk_s: seconds of sound the next chunk gives. held_s: seconds made but held back before the first packet.
    """

    arrived: float
    dry_at: float | None
    ready: frozenset[Stage]
    ids_left: int = 0
    lm_rows: int = 1
    euler_left: int = 0
    context_frames: int = 0
    chunk_s: float = 1.0
    held_s: float = 0.0


class Tick(NamedTuple):
    """Run `stage` for the streams at these places of the list that was given."""

    stage: Stage
    members: tuple[int, ...]
