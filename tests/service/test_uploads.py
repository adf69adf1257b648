"""Clients that leave, or stop, in the middle of what they send over HTTP."""

import asyncio
import logging
from pathlib import Path

import pytest
from starlette.types import Message, Receive, Scope, Send

from oscine_engine.front import Front, VoiceInfo, read_front_end
from oscine_service.conversation import Calls
from oscine_service.http import openai
from oscine_service.http.app import application
from oscine_service.http.server import serving
from oscine_service.limits import Limits
from tests.engine.ports import HandPort
from tests.service.waiting import until


async def test_who_leaves_during_an_upload_is_no_fault(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    front, calls, limits = (
        Front(HandPort(), read_front_end(model), {"anna": VoiceInfo("en", "")}, 24000),
        Calls(),
        Limits(),
    )
    reading = asyncio.Event()
    app = application(front, limits, calls, routes=openai.routes(front, limits, calls, {}))

    async def told(scope: Scope, receive: Receive, send: Send) -> None:
        async def noted() -> Message:
            reading.set()
            return await receive()

        await app(scope, noted, send)
        reading.clear()

    with caplog.at_level(logging.DEBUG):
        async with serving(told, "127.0.0.1", 0, grace_s=0, calls=calls) as address, asyncio.timeout(30):
            host, _, port = address.rpartition(":")
            for body in (b"", b'{"model": "tts-1", "input": "Hel'):
                _, writer = await asyncio.open_connection(host, int(port))
                writer.write(
                    b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                    b"Content-Length: 1000\r\n\r\n" + body
                )
                await reading.wait()
                writer.transport.abort()

                async def over() -> bool:
                    return not reading.is_set()

                await until(over)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
