"""Somebody who listens to a call as a player would: reports what was played, and notes whether all of it came."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc

from bench.client import RATE
from bench.player import Player
from oscine_proto.oscine.v1 import speech_pb2 as pb

if TYPE_CHECKING:
    from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceAsyncStub

SENTENCE = "The harbour was quiet when the first boats came in, and nobody had noticed them yet. "
BRIEF = "Good morning. "
HEAD_START_S = 0.2
"""What a player collects before it plays."""
REPORT_S = 0.25
PATIENCE_S = 120.0
OK = "OK"


@dataclass(eq=False, slots=True)
class Listener:
    """One call of so many `sentences`, each of 5 to 8 s, or of a BRIEF one. Times in seconds of the monotonic clock.

    samples: that came, in all. whole: each followed the one before it. status: how it ended, None while it runs;
    hint_ms: when it was told to try again. said_s: seconds of speech that the service says it sent, once it is done.
    """

    stub: SpeechServiceAsyncStub
    sentences: int = 0
    voice: str = ""
    seed: int = 1
    key: str | None = None
    asked: float = 0.0
    first: float | None = None
    ended: float = 0.0
    samples: int = 0
    whole: bool = True
    status: str | None = None
    details: str = ""
    hint_ms: int | None = None
    said_s: float | None = None
    player: Player = field(default_factory=lambda: Player(RATE))
    _decided: asyncio.Event = field(default_factory=asyncio.Event)
    _finish: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def start(self) -> Listener:
        self._task = asyncio.create_task(self._hear())
        return self

    async def sounds(self) -> bool:
        """Wait until it has sounded, or has ended without."""
        async with asyncio.timeout(PATIENCE_S):
            await self._decided.wait()
        return self.first is not None

    async def hear(self) -> Listener:
        """Wait for the end of the call. Raises TimeoutError."""
        if self._task is None:
            self.start()
        assert self._task is not None
        async with asyncio.timeout(PATIENCE_S + 10 * self.sentences):
            await asyncio.wait([self._task])
        self._task.result()
        return self

    async def leave(self) -> None:
        """Hang up, if the call still runs."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    @property
    def first_s(self) -> float:
        """From asking to the first sound."""
        return math.inf if self.first is None else self.first - self.asked

    @property
    def complete(self) -> bool:
        """It ended well, and all that the service says it sent has come."""
        return self.status == OK and self.whole and self.said_s is not None and self.missing == 0

    @property
    def missing(self) -> int:
        return 0 if self.said_s is None else max(0, round(self.said_s * RATE) - self.samples)

    def breaks(self, since: float = 0.0, to: float = math.inf) -> list[float]:
        """Seconds of each time that the player stood still within [since, to]."""
        return [gap.seconds for gap in self.player.gaps if gap.began + gap.seconds >= since and gap.began <= to]

    async def _hear(self) -> None:
        self.asked = time.monotonic()
        metadata = () if self.key is None else (("authorization", f"Bearer {self.key}"),)
        try:
            async for response in self.stub.Synthesize(self._requests(), metadata=metadata):
                self._take(response)
            self.status = OK
        except grpc.aio.AioRpcError as error:
            hint = dict(error.trailing_metadata() or ()).get("retry-after-ms")
            self.status, self.details = error.code().name, error.details() or ""
            self.hint_ms = None if hint is None else int(hint)
        finally:
            self.ended = time.monotonic()
            self._finish.set()
            self._decided.set()

    def _take(self, response: pb.SynthesizeResponse) -> None:
        match response.WhichOneof("response"):
            case "audio":
                now, audio = time.monotonic(), response.audio
                self.whole = self.whole and audio.start_sample == self.samples
                self.samples += audio.samples
                self.player.take(now if self.first is not None else now + HEAD_START_S, audio.samples)
                self.first = self.first or now
                self._decided.set()
            case "flushed":
                self._finish.set()
            case "done":
                self.said_s = response.done.audio_seconds

    async def _requests(self) -> AsyncIterator[pb.SynthesizeRequest]:
        """All the text at once, then reports; the sending side closes when all of it has come."""
        yield pb.SynthesizeRequest(config=pb.SynthesizeConfig(voice=self.voice, seed=self.seed, mode=pb.MODE_SENTENCE))
        yield pb.SynthesizeRequest(text=SENTENCE * self.sentences or BRIEF)
        yield pb.SynthesizeRequest(flush=pb.Flush())
        while not self._finish.is_set():
            try:
                async with asyncio.timeout(REPORT_S):
                    await self._finish.wait()
            except TimeoutError:
                yield pb.SynthesizeRequest(played=pb.Played(samples=self.player.played(time.monotonic())))


@asynccontextmanager
async def playing(listeners: Sequence[Listener]) -> AsyncIterator[Sequence[Listener]]:
    """All of them sound; those that have not ended hang up in the end. Raises RuntimeError for one that does not."""
    try:
        for each in listeners:
            each.start()
        for each in listeners:
            if not await each.sounds():
                raise RuntimeError(f"a call that was to play ended with {each.status}: {each.details}")
        yield listeners
    finally:
        for each in listeners:
            await each.leave()


def breaks(listeners: Sequence[Listener], since: float = 0.0, to: float = math.inf) -> list[float]:
    """Of all of them."""
    return [seconds for each in listeners for seconds in each.breaks(since, to)]


def told(listeners: Sequence[Listener], since: float = 0.0, to: float = math.inf) -> str:
    """How they fared, in words."""
    still = breaks(listeners, since, to)
    stood = f"{len(still)} breaks, {max(still):.2f} s the longest" if still else "no breaks"
    return f"{sum(each.complete for each in listeners)} of {len(listeners)} came whole, {stood}"
