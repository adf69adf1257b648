"""Calls through one of three doors, each of which knows whether it heard all that it should, and from which unit."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import grpc
import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from bench.fleet.unit import LENGTH, recording
from bench.transport.replay import RATE
from oscine_codecs import pcm
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_service.websocket.messages import HEADER

if TYPE_CHECKING:
    from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceAsyncStub

TEXT = ("Play it", " again.")
RETRYABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
LOST = ("RST_STREAM", "Internal error from Core")
"""In what grpc says, with INTERNAL, of a unit that is gone behind a proxy that is not, and while the client wrote."""


@cache
def _ring(number: int) -> bytes:
    return pcm.encode(recording(number)) * 2


@dataclass(slots=True, eq=False)
class Call:
    """What became of a call, in seconds of the monotonic clock.

    wished: when its client first wanted to speak: earlier than `asked` where it had been refused before. started: when
    a unit had taken it. unit: the recording that it heard, None before the first sound. wrong: bytes came that are not
    those that this unit should have sent next. told: what it ended with, "" for well. again: after how many seconds to
    call again, by what it was told; None where that says nothing of the kind.
    """

    door: str
    seed: int
    wished: float
    asked: float
    started: float | None = None
    first: float | None = None
    ended: float | None = None
    unit: int | None = None
    heard: int = 0
    wrong: bool = False
    told: str = ""
    again: float | None = None

    def hear(self, data: bytes, units: Collection[int]) -> None:
        """units: recordings that may be heard."""
        size = 2 * LENGTH
        start = (2 * self.seed * 7919 + self.heard) % size
        if self.unit is None:
            self.first = time.monotonic()
            self.unit = next((n for n in units if _ring(n)[start : start + len(data)] == data), None)
        if self.unit is None or _ring(self.unit)[start : start + len(data)] != data:
            self.wrong = True
        self.heard += len(data)

    def close(self, seconds: float, told: str = "", again: float | None = None) -> None:
        """It has ended; well, if it heard `seconds` of one unit."""
        self.ended, self.told, self.again = time.monotonic(), told, again
        if not told and (self.wrong or self.heard != 2 * round(seconds * RATE)):
            self.told = "some of it was missing"

    @property
    def refused(self) -> bool:
        """Before a unit had taken it."""
        return bool(self.told) and self.started is None


@dataclass(slots=True)
class Doors:
    """Where calls are made. seconds: of each. units: recordings that may be heard."""

    stubs: list[SpeechServiceAsyncStub]
    http: str
    seconds: float
    units: set[int] = field(default_factory=set)
    running: set[Call] = field(default_factory=set)
    calls: list[Call] = field(default_factory=list)

    async def call(self, door: str, seed: int, wished: float | None = None) -> Call:
        """Raises what is no outcome of a call."""
        now = time.monotonic()
        call = Call(door, seed, now if wished is None else wished, now)
        self.running.add(call)
        self.calls.append(call)
        try:
            await {"grpc": self._grpc, "websocket": self._websocket, "http": self._http}[door](call)
        finally:
            self.running.discard(call)
        return call

    async def _grpc(self, call: Call) -> None:
        async def requests() -> AsyncIterator[pb.SynthesizeRequest]:
            audio = pb.AudioFormat(encoding=pb.ENCODING_PCM16)
            config = pb.SynthesizeConfig(seed=call.seed, mode=pb.MODE_SENTENCE, audio=audio)
            yield pb.SynthesizeRequest(config=config)
            yield pb.SynthesizeRequest(text=TEXT[0])
            # Text goes on coming while it speaks, as a language model's does.
            await asyncio.sleep(self.seconds / 3)
            yield pb.SynthesizeRequest(text=TEXT[1])

        stub = self.stubs[call.seed % len(self.stubs)]
        done = False
        try:
            async for response in stub.Synthesize(requests()):
                if response.HasField("audio"):
                    call.hear(b"".join(response.audio.frames), self.units)
                elif response.HasField("started"):
                    call.started = time.monotonic()
                elif response.HasField("done"):
                    done = True
        except grpc.aio.AioRpcError as error:
            told, hint = error.details() or "", dict(error.trailing_metadata() or ()).get("retry-after-ms")
            again = error.code() in RETRYABLE or (
                error.code() is grpc.StatusCode.INTERNAL and any(sign in told for sign in LOST)
            )
            after = 0.0 if hint is None else float(hint) / 1000
            call.close(self.seconds, f"{error.code().name}: {told}", after if again else None)
        else:
            call.close(self.seconds, "" if done else "OK without done")

    async def _websocket(self, call: Call) -> None:
        address = f"ws://{self.http}/v1/speech"
        start = {"type": "start", "seed": call.seed, "mode": "sentence", "format": {"encoding": "pcm16"}}
        try:
            async with connect(address, compression=None, proxy=None, open_timeout=60) as socket:
                for asked in (start, {"type": "text", "text": "".join(TEXT)}, {"type": "end"}):
                    await socket.send(json.dumps(asked))
                async for message in socket:
                    if isinstance(message, bytes):
                        call.hear(message[HEADER.size :], self.units)
                        continue
                    told: dict[str, Any] = json.loads(message)
                    if told["type"] == "started":
                        call.started = time.monotonic()
                    elif told["type"] == "done":
                        return call.close(self.seconds)
                    elif told["type"] == "error":
                        after = told.get("retry_after_ms")
                        again = 0.0 if after is None else after / 1000
                        known = told["code"] in ("unavailable", "overloaded")
                        return call.close(self.seconds, f"error: {told['code']}", again if known else None)
                call.close(self.seconds, "closed without done")
        except InvalidStatus as error:
            status = error.response.status_code
            after = error.response.headers.get("Retry-After", "0")
            call.close(self.seconds, f"handshake: {status}", float(after) if status in (429, 503) else None)
        except TimeoutError:
            call.close(self.seconds, "handshake: no answer in time", 0.0)
        except ConnectionClosed as error:
            # 1006: without a word of why. Whoever closes for good says so.
            code = 1006 if error.rcvd is None else error.rcvd.code
            call.close(self.seconds, f"closed: {code}", 0.0 if code in (1001, 1006, 1011, 1012, 1013) else None)

    async def _http(self, call: Call) -> None:
        asked = {
            "model": "tts-1",
            "voice": "replay",
            "input": "".join(TEXT),
            "response_format": "pcm",
            "seed": call.seed,
        }
        try:
            async with (
                httpx.AsyncClient(trust_env=False, timeout=60.0) as client,
                client.stream("POST", f"http://{self.http}/v1/audio/speech", json=asked) as response,
            ):
                if response.status_code != 200:
                    after = response.headers.get("Retry-After", "0")
                    again = float(after) if response.status_code in (429, 503) else None
                    return call.close(self.seconds, f"status: {response.status_code}", again)
                call.started = time.monotonic()
                async for data in response.aiter_raw():
                    call.hear(data, self.units)
            call.close(self.seconds)
        except httpx.TransportError as error:
            call.close(self.seconds, type(error).__name__, 0.0)
