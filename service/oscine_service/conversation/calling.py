"""A conversation that speaks into a telephone call: its client is told what was heard there, not given the sound."""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from oscine_engine.errors import Stalled
from oscine_engine.front import Front
from oscine_service.conversation.calls import Calls, closing
from oscine_service.conversation.replies import Audio, Cancelled, Done, Flushed, Heard, Marked, Reply
from oscine_service.conversation.talk import Conversation
from oscine_service.conversation.verbs import Cancel, Config, Played, Verb
from oscine_service.limits import Limits
from oscine_service.security import principal
from oscine_service.telephony.sink import Turn

CALL_WAIT_S = 5.0
"""For a call to come up that is spoken into: an agent hears of it before its carrier has connected."""
SIGN_S = 1.0
"""Between two signs of life of a conversation that waits for others of its call."""


@asynccontextmanager
async def talking(
    front: Front, config: Config, limits: Limits, calls: Calls | None = None
) -> AsyncIterator[Conversation]:
    """`Conversation.open`, with the client or in the telephone call that `config` names. Raises UnknownCall and
    CallTaken too."""
    if not config.sink:
        opening = Conversation.open(front, config, limits, calls)
        del config
        async with opening as talk:
            yield talk
        return
    calls = calls or Calls()
    if calls.closing:
        raise closing()
    async with calls.sinks.turn(config.sink, principal.current().owner, CALL_WAIT_S) as turn:
        opening_call = Calling.open(front, replace(config, format=turn.format), limits, calls)
        del config
        try:
            async with opening_call as talk:
                talk.turn = turn
                yield talk
        finally:
            if turn.unfinished:
                await turn.clear()


class Calling(Conversation):
    """turn: at the call; to be set before anything else.

    A client that leaves in the middle, without a cancel, is no longer heard at once; one that is told of an error is
    heard up to where that happened.
    """

    turn: Turn

    async def put(self, verb: Verb) -> None:
        match verb:
            case Played():
                # What was heard is known from the call.
                self.alive()
            case Cancel():
                await super().put(verb)
                await self.turn.clear()
            case _:
                await super().put(verb)

    async def reports_end(self) -> None:
        """The call goes on reporting."""

    async def _replies(self) -> AsyncIterator[Reply]:
        self.turn.unfinished = True
        news: deque[Reply] = deque()
        due: deque[tuple[int, Reply]] = deque()
        pump = asyncio.create_task(self._pump(super()._replies(), news, due))
        told, behind_at = 0, math.inf
        try:
            while True:
                while news:
                    yield news.popleft()
                if self.turn.cleared:
                    await pump
                    self._leave()
                    yield Cancelled(self.turn.heard)
                    return
                heard = self.turn.heard
                if heard == self.turn.written:
                    behind_at = math.inf
                elif heard > told or math.isinf(behind_at):
                    behind_at = self._now()
                elif self._now() - behind_at >= self._patience:
                    raise Stalled(
                        f"for {self._patience:g} s nothing more was heard in the call, which is at {heard} of "
                        f"{self.turn.written} samples: look whether its carrier plays what it is sent"
                    )
                if heard > told:
                    told = heard
                    # The engine is as far ahead of the listener as it should be.
                    await self._session.played(self._speech.made(heard))
                    yield Heard(heard)
                while due and due[0][0] <= heard:
                    _, reply = due.popleft()
                    if isinstance(reply, Done):
                        self._leave()
                    yield reply
                    if isinstance(reply, Done):
                        return
                if pump.done() and self._ends_now(pump.exception(), heard):
                    self._leave()
                    pump.result()
                await self._change()
        finally:
            pump.cancel()
            # Of two that are told of one end, the other's error is no news.
            await asyncio.gather(pump, return_exceptions=True)

    def _leave(self) -> None:
        """Before the client knows: it may say the next thing at once."""
        self.turn.unfinished = False
        self.turn.leave()

    async def _change(self) -> None:
        """Wait for one, or for so long as is waited for a call; those who wait for their turn are there meanwhile."""
        while self.turn.waiting:
            await self._session.played(0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SIGN_S):
                    return await self.turn.change()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if math.isinf(self._patience) else self._patience):
                await self.turn.change()

    def _ends_now(self, error: BaseException | None, heard: int) -> bool:
        """What was accepted before a refusal is heard first, as all else is that was said."""
        return error is not None and (error is not self._refusal or heard >= self.turn.written)

    async def _pump(self, replies: AsyncIterator[Reply], news: deque[Reply], due: deque[tuple[int, Reply]]) -> None:
        """Write the sound into the call. news: what the client is told at once. due: what waits for a position."""
        turn = self.turn
        try:
            async for reply in replies:
                match reply:
                    case Audio(frames=frames, samples=samples):
                        await turn.write(frames, samples)
                    case Marked(end_sample=end):
                        # The last moment of a sentence may wait for the next one, in a filter.
                        due.append((min(end, turn.written), reply))
                        await turn.point()
                    case Flushed() | Done():
                        await turn.flush()
                        due.append((turn.written, reply))
                    case Cancelled():
                        pass
                    case _:
                        news.append(reply)
                turn.wake()
        except Exception as error:
            if error is self._refusal:
                await turn.flush()
            raise
        finally:
            turn.wake()
