"""Recordings that come with a conversation: how many may wait, where they are read, and how long they are kept."""

import asyncio
import base64
import json
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from oscine_engine import front as fronts
from oscine_engine.events import SessionRequest
from oscine_engine.front import Front, VoiceInfo, read_front_end
from oscine_engine.options import ColdVoice
from oscine_service.audio import Format
from oscine_service.conversation import Calls, Config, talking
from oscine_service.http.app import application
from oscine_service.http.server import serving
from oscine_service.limits import Limits
from oscine_service.websocket import messages, socket
from tests.engine.ports import HandPort
from tests.service.websocket.clients import PCM, client


@dataclass
class Ear:
    """Hears a recording once it is told to."""

    open: threading.Event = field(default_factory=threading.Event)
    heard: int = 0

    def decode(self, audio: bytes) -> tuple[NDArray[np.float32], int]:
        assert self.open.wait(60)
        self.heard += 1
        return np.zeros(24000, np.float32), 24000


@asynccontextmanager
async def listening(model: Path, most: int = 100) -> AsyncIterator[tuple[str, Ear, Front]]:
    ear = Ear()
    front = Front(HandPort(most), read_front_end(model), {"anna": VoiceInfo("en", "")}, 24000, decode=ear.decode)
    calls = Calls()
    async with serving(application(front, Limits(), calls), "127.0.0.1", 0, grace_s=0, calls=calls) as address:
        try:
            yield address, ear, front
        finally:
            ear.open.set()


def recording(size: int) -> dict[str, object]:
    return {"reference": {"audio": base64.b64encode(bytes(size)).decode(), "transcript": "Yes."}}


async def test_recordings_that_wait_on_one_socket_are_bounded(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "MOST_RECORDED", 3000)
    async with listening(model) as (address, ear, _), client(address) as each, asyncio.timeout(60):
        for name in "abc":
            await each.send("start", name, format=PCM, **recording(1000))
        await each.send("start", "d", format=PCM, **recording(1))
        told = (await each.end("d")).last
        assert told["code"] == "overloaded" and told["retry_after_ms"] > 0 and "3000 bytes" in told["message"]
        ear.open.set()
        began: set[str | None] = set()
        while not began.issuperset("abc"):  # in whichever order they are heard
            name, kind = await each.next()
            began |= {name} if kind == "started" else set()
        # They have been heard, so that others may come, while those go on.
        await each.send("start", "d", format=PCM, **recording(3000))
        await each.until("started", "d")
        assert ear.heard == 4


async def test_recordings_that_wait_on_a_service_are_bounded(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fronts, "MOST_RECORDED", 3000)
    async with listening(model) as (_, ear, front), asyncio.timeout(60):
        request = SessionRequest(reference=ColdVoice(bytes(1000)))
        opening = [asyncio.create_task(front.open(request)) for _ in range(fronts.DECODING + 3)]
        await asyncio.sleep(0.05)
        with pytest.raises(fronts.Overloaded, match="3000 bytes"):
            await front.open(request)
        ear.open.set()
        for session in await asyncio.gather(*opening):
            await session.cancel()


async def test_a_long_message_is_read_in_another_thread(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[int, int] = {}
    parse = messages.parse

    def noted(message: str | bytes) -> messages.Request:
        threads[len(message)] = threading.get_ident()
        return parse(message)

    monkeypatch.setattr(messages, "parse", noted)
    async with listening(model) as (address, ear, _), client(address) as each, asyncio.timeout(60):
        ear.open.set()
        await each.send("start", "long", format=PCM, **recording(100_000))
        await each.until("started", "long")
        await each.send("start", "short", format=PCM, **recording(100))
        await each.until("started", "short")
        await each.socket.send("[" + "0," * 200_000)
        assert "too many parts" in (await each.until("error", None)).last["message"]
    for size, thread in threads.items():
        assert (thread == threading.get_ident()) == (size < 65536)


async def test_dialects_that_carry_no_recording_take_no_message_of_that_size(model: Path) -> None:
    async with listening(model) as (address, _, _), asyncio.timeout(60):
        from websockets.asyncio.client import connect

        async with connect(f"ws://{address}/v1/speak?encoding=linear16", compression=None, proxy=None) as deepgram:
            await deepgram.send(json.dumps({"type": "Speak", "text": "x" * (socket.MOST_MESSAGE + 1)}))
            while isinstance(answer := await deepgram.recv(), bytes) or "Metadata" in answer:
                pass
            assert str(socket.MOST_MESSAGE) in answer


class Kept(ColdVoice):
    """One that a weak reference may refer to."""


async def test_a_recording_is_kept_no_longer_than_until_it_is_heard(model: Path) -> None:
    async with listening(model) as (_, ear, front), asyncio.timeout(60):
        ear.open.set()
        cold = Kept(bytes(1000))
        kept = weakref.ref(cold)
        opening = talking(front, Config(SessionRequest(reference=cold), Format()), Limits())
        del cold
        async with opening as talk:
            async for _ in talk:
                break
            assert kept() is None
