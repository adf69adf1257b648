"""One stream's life, seen from asyncio: text in, events out."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from oscine_engine.errors import Cancelled, InvalidInput, OscineError
from oscine_engine.events import Audio, Done, Event, SessionRequest, Started
from oscine_engine.planner import Planner
from oscine_engine.runtime.device_loop import DeviceLoop

MAX_SEED = 2**63 - 1
SLICE = 64
"""Characters read in one go. Unknown words take milliseconds each, and other sessions live on the same event loop."""

MOST_SENTENCES = 1000
"""Sentences that may wait to be spoken, about an hour of them; more text is taken as these are."""
POLL_S = 0.05


class Session:
    """Made by `Engine.open`. Iterate it for events; leaving the `async with` block cancels what is unfinished.

    States: open (append, flush), finishing (after `finish`, no more text), ended. Iteration ends after `Done` and
    raises the error, an OscineError, of a session that failed or was cancelled.
    """

    def __init__(
        self, loop: DeviceLoop, planner: Planner, voice: str, request: SessionRequest, sample_rate: int
    ) -> None:
        seed = secrets.randbelow(MAX_SEED) if request.seed is None else request.seed
        if not 0 <= seed <= MAX_SEED:
            raise InvalidInput(f"seed must be from 0 to {MAX_SEED}, not {seed}")
        self.started = Started(voice=voice, mode=request.mode, seed=seed, sample_rate=sample_rate)
        self._planner = planner
        # Text is read in slices; a flush or an end that is asked for meanwhile waits its turn.
        self._writing = asyncio.Lock()
        self._loop = loop
        self._events: asyncio.Queue[Event | OscineError] = asyncio.Queue()
        self._finished = False
        self._ended: OscineError | Done | None = None
        home = asyncio.get_running_loop()
        self._events.put_nowait(self.started)

        def deliver(event: Event | OscineError) -> None:
            try:
                home.call_soon_threadsafe(self._events.put_nowait, event)
            except RuntimeError:  # the event loop was closed with the session open: nobody is left to tell
                loop.stop(self._stream, Cancelled("the listener's event loop is closed"))

        self._stream = loop.open(voice, seed, deliver)

    @property
    def first_packet_s(self) -> float | None:
        """`Stats.first_packet_s`, known as soon as the first audio is there."""
        return self._stream.first_packet_s

    @property
    def busy_s(self) -> float | None:
        """`Stats.busy_s` up to the last audio so far."""
        return self._stream.busy_s

    @property
    def working(self) -> bool:
        """There is something to compute for this session just now, rather than text or a listener to wait for."""
        return self._stream.busy_since is not None

    async def append(self, text: str) -> None:
        """Append text, cut anywhere, even inside a surrogate pair. Raises InvalidInput after `finish`.

        Waits while MOST_SENTENCES wait to be spoken, so whoever appends more must listen at the same time.
        """
        self._check_open("append")
        async with self._writing:
            for start in range(0, len(text), SLICE):
                if start:
                    await asyncio.sleep(0)
                while self._stream.waiting > MOST_SENTENCES:
                    await asyncio.sleep(POLL_S)
                self._loop.speak(self._stream, self._planner.push(text[start : start + SLICE]))

    async def flush(self) -> None:
        """Speak everything appended so far; answered by a `Flushed` event."""
        self._check_open("flush")
        async with self._writing:
            self._loop.speak(self._stream, self._planner.flush(), mark=True)

    async def finish(self) -> None:
        """No more text follows. Raises InvalidInput if nothing speakable was appended."""
        self._check_open("finish")
        self._finished = True
        async with self._writing:
            steps = self._planner.flush()
            if self._planner.segments == 0:
                error = InvalidInput(
                    "there is nothing to speak: send text with at least one letter, digit or character"
                )
                self._loop.stop(self._stream, error)
                raise error
            self._loop.speak(self._stream, steps, end=True)

    async def cancel(self) -> None:
        """Stop at once and free everything. Iteration then raises Cancelled."""
        self._finished = True
        self._loop.stop(self._stream, Cancelled("the stream was cancelled"))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended is None:
            await self.cancel()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while self._ended is None:
            event = await self._events.get()
            match event:
                case OscineError():
                    self._ended = event
                    raise event
                case Audio():
                    self._loop.taken(self._stream, event.samples.size)
                case Done():
                    self._ended = event
            yield event
        if isinstance(self._ended, OscineError):
            raise self._ended

    def _check_open(self, verb: str) -> None:
        if isinstance(self._ended, OscineError):
            raise self._ended
        if self._finished:
            raise InvalidInput(f"cannot {verb}: the session's input has already ended")
