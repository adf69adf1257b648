"""Calls that are up, by name, and what a conversation speaks into them with.

A door of telephony makes a `Player` (`burst.py` where the carrier owns the clock, `realtime.py` where we do), and
registers a `Sink` around it for as long as the call is up:

    with sinks.up(Sink(("CA123",), player, kind="twilio", owner=principal.current().owner, hang_up=hang_up)):
        ...read the carrier's messages until the call ends

A conversation takes a turn at it, and speaks once those before it have been heard:

    async with sinks.turn("CA123", owner) as turn:
        await turn.write(frames, samples)       # of turn.format; waits for its turn
        await turn.flush()                      # nothing follows for now
        while turn.heard < turn.written:        # as the listener hears it
            await turn.change()
        heard = await turn.clear()              # barge-in: nothing more is heard

Everything here belongs to one event loop.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol

from oscine_engine.errors import InvalidInput, Overloaded
from oscine_engine.options import check_text
from oscine_service.audio import Format
from oscine_service.telephony.errors import CallTaken, HungUp, UnknownCall
from oscine_service.telephony.realtime import Clock

MOST_SHOWN = 8
"""Names in an error message."""
MAX_NAME = 200
"""Characters of a call's name."""
IDLE_S = 0.05
"""Between two looks at whether somebody still speaks into a call."""
MOST_CALLS = 1000
LATER_S = 1.0
"""After which one more call may be taken."""
MOST_TURNS = 8
"""Conversations of one call, all but the first waiting."""


class Player(Protocol):
    """Plays what it is given to one listener, in order.

    Positions are samples at `format.sample_rate`, counted from the beginning of the call in what was given; what is
    added, such as silence, does not count, and what a clear drops counts no more. tell: the sink's, called whenever
    `heard` has come further; calling it more than a few times a second is waste.
    """

    format: Format
    tell: Callable[[], None]

    @property
    def given(self) -> int: ...

    @property
    def heard(self) -> int:
        """As well as is known; never more than was given."""

    async def write(self, frames: Sequence[bytes], samples: int) -> None:
        """Frames of `format` that hold so many samples. Waits while more is ahead of the listener than may be; a
        clear meanwhile drops them."""

    async def point(self) -> None:
        """`tell` as soon as all that was given so far has been heard."""

    async def flush(self) -> None:
        """What waits for the rest of a frame is played now, padded with silence; and a point."""

    async def clear(self) -> int:
        """Drop at once what was not heard yet; where the listener was. What is given next follows there."""


class Sink:
    """A call that is up. names: what it may be called, its own name first. kind: of its door, such as "twilio".
    owner: whose conversations may speak into it; "": everybody's. hang_up: ends it. details: what its door knows of it,
    for who asks over HTTP."""

    def __init__(
        self,
        names: Sequence[str],
        player: Player,
        *,
        kind: str,
        owner: str = "",
        hang_up: Callable[[], None],
        details: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self.names = tuple(dict.fromkeys(names))
        self.player = player
        self.kind = kind
        self.owner = owner
        self.hang_up = hang_up
        self.details = details
        self.since = time.time()
        self.turns: list[Turn] = []
        """Of which the first speaks."""
        self.over = False
        player.tell = self._tell

    @property
    def name(self) -> str:
        return self.names[0]

    def end(self) -> None:
        """The call is over: whoever speaks into it is told. Called by `Sinks.up`."""
        self.over = True
        self._tell()

    async def idle(self) -> None:
        """Wait until nobody speaks into it."""
        while self.turns:
            await asyncio.sleep(IDLE_S)

    def _tell(self) -> None:
        for turn in self.turns:
            turn.wake()


class Turn:
    """What one conversation says in a call. Positions count from its own beginning. All but `clear` and `leave` raise
    HungUp once the call is over."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._player = sink.player
        self._changed = asyncio.Event()
        self._came = asyncio.Event()
        if not sink.turns:
            self._came.set()
        sink.turns.append(self)
        self._base: int | None = None
        self._written = 0
        self._cleared: int | None = None
        self.unfinished = False
        """A conversation is in the middle of it; set by that."""

    @property
    def format(self) -> Format:
        return self._player.format

    @property
    def written(self) -> int:
        return self._written

    @property
    def cleared(self) -> bool:
        """Nothing more is said."""
        return self._cleared is not None

    @property
    def waiting(self) -> bool:
        """Others are to be heard first."""
        return not self._came.is_set()

    @property
    def heard(self) -> int:
        """Samples that the listener has heard, as well as is known."""
        if self._cleared is not None:
            return self._cleared
        return 0 if self._base is None else max(0, min(self._player.heard - self._base, self._written))

    async def write(self, frames: Sequence[bytes], samples: int) -> None:
        """As `Player.write`, once those before have left. Nothing that comes behind a `clear` is heard."""
        await self._came.wait()
        self.check()
        if self._cleared is not None:
            return
        if self._base is None:
            self._base = self._player.given
        self._written += samples
        await self._player.write(frames, samples)
        self.check()

    async def point(self) -> None:
        """As `Player.point`."""
        self.check()
        if self._cleared is None and self._base is not None:
            await self._player.point()

    async def flush(self) -> None:
        """As `Player.flush`."""
        self.check()
        if self._cleared is None and self._base is not None:
            await self._player.flush()

    async def clear(self) -> int:
        """Stop at once, and leave: the samples that were heard."""
        if self._cleared is None:
            self._cleared = self.heard
            speaking = self._base is not None and self in self._sink.turns
            try:
                if speaking and not self._sink.over:
                    await self._player.clear()
            finally:
                self.leave()
        return self._cleared

    def leave(self) -> None:
        """Let the next one speak. What was written is heard; nothing more is to be. At any time, and again."""
        if self in self._sink.turns:
            self._sink.turns.remove(self)
        self._came.set()
        self.wake()
        if self._sink.turns:
            self._sink.turns[0]._came.set()

    async def change(self) -> None:
        """Wait until more was heard, the turn was cleared, or somebody calls `wake`; one may wait. What has happened
        since it was waited for last counts."""
        self.check()
        await self._changed.wait()
        self._changed.clear()
        self.check()

    def wake(self) -> None:
        """Whoever waits for a change is to look."""
        self._changed.set()

    def check(self) -> None:
        """Raise HungUp if the call is over."""
        if self._sink.over:
            raise HungUp(f"the call {self._sink.name!r} has ended; {self.heard} samples were heard")


class Sinks:
    """The calls that are up, at most `most`. clock: for those that have none of their own."""

    def __init__(self, most: int = MOST_CALLS) -> None:
        self.clock = Clock()
        self.most = most
        self._sinks: dict[str, Sink] = {}
        self._came = asyncio.Event()

    def __iter__(self) -> Iterator[Sink]:
        """Each once, oldest first."""
        return iter(dict.fromkeys(self._sinks.values()))

    def of(self, owner: str) -> list[Sink]:
        """Those that `owner` may speak into."""
        return [sink for sink in self if sink.owner in ("", owner)]

    @contextmanager
    def up(self, sink: Sink) -> Iterator[Sink]:
        """Keep it for as long as the block runs. Raises InvalidInput for names that may not be, CallTaken for one that
        another call has, and Overloaded where there are too many."""
        if len([*self]) >= self.most:
            raise Overloaded(f"{self.most} calls are up, which is the most here (--most-calls)", LATER_S)
        if bad := [name for name in sink.names if not 0 < len(name) <= MAX_NAME]:
            raise InvalidInput(f"the name of a call has 1 to {MAX_NAME} characters, not {len(bad[0])}")
        for name in sink.names:
            check_text("the name of a call", name)
        if taken := [name for name in sink.names if name in self._sinks]:
            raise CallTaken(f"a call {taken[0]!r} is up already")
        self._sinks |= dict.fromkeys(sink.names, sink)
        self._came.set()
        try:
            yield sink
        finally:
            for name in sink.names:
                del self._sinks[name]
            sink.end()

    def find(self, name: str, owner: str = "") -> Sink:
        """The call of that name, of those that `owner` may speak into. Raises UnknownCall."""
        sink = self._sinks.get(name)
        if sink is None or sink.owner not in ("", owner):
            mine = [each.name for each in self.of(owner)]
            shown = ", ".join(mine[:MOST_SHOWN]) + (", ..." if len(mine) > MOST_SHOWN else "")
            raise UnknownCall(f"no call {name[:MAX_NAME]!r} is up; there are: {shown or 'none'}")
        return sink

    async def wait_for(self, name: str, owner: str = "", patience_s: float = 0.0) -> Sink:
        """`find`, as soon as the call is up: an agent is often faster than a carrier. Raises UnknownCall after so
        long."""
        try:
            async with asyncio.timeout(patience_s):
                while True:
                    try:
                        return self.find(name, owner)
                    except UnknownCall:
                        self._came.clear()
                        await self._came.wait()
        except TimeoutError:
            return self.find(name, owner)

    @asynccontextmanager
    async def turn(self, name: str, owner: str = "", patience_s: float = 0.0) -> AsyncIterator[Turn]:
        """Speak into a call until the block is left; who leaves early clears before. Raises UnknownCall, and CallTaken
        while too many others wait for the same."""
        sink = await self.wait_for(name, owner, patience_s)
        if len(sink.turns) >= MOST_TURNS:
            raise CallTaken(f"{MOST_TURNS} conversations speak into the call {sink.name!r}: wait for the end of one")
        turn = Turn(sink)
        try:
            yield turn
        finally:
            turn.leave()
