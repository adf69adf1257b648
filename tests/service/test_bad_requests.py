"""Requests whose heads are HTTP, and what follows them is not."""

import asyncio
import logging
from pathlib import Path

import pytest

from oscine_engine.front import Front, VoiceInfo, read_front_end
from oscine_service.conversation import Calls
from oscine_service.http import openai
from oscine_service.http.app import application
from oscine_service.http.server import serving
from oscine_service.limits import Limits
from tests.engine.ports import HandPort

HEAD = (
    b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)


@pytest.mark.parametrize(
    "body", [b"zz\r\n", b"5\r\nhe", b"5\r\nhelloXX\r\n", b"-1\r\n\r\n"], ids=["no size", "half", "no end", "below 0"]
)
async def test_a_body_that_is_no_http_is_told_so_and_no_fault(
    model: Path, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    voices = {"anna": VoiceInfo("en", "")}
    front, calls, limits = Front(HandPort(), read_front_end(model), voices, 24000), Calls(), Limits()
    app = application(front, limits, calls, routes=openai.routes(front, limits, calls, {}))
    with caplog.at_level(logging.DEBUG):
        async with serving(app, "127.0.0.1", 0, grace_s=0, calls=calls) as address, asyncio.timeout(30):
            host, _, port = address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            for piece in (HEAD, body):
                # Apart: whoever answers is reading the body by then.
                writer.write(piece)
                await asyncio.sleep(0.1)
            writer.write_eof()
            answer = await reader.read()
            writer.close()
    assert not answer or answer.startswith(b"HTTP/1.1 400 ")
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]
