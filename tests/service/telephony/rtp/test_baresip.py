"""A whole call: a telephone rings, an agent speaks over WebSocket, the telephone hears every sample, and hangs up."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from starlette.applications import Starlette

from oscine_codecs import g711
from oscine_engine.engine import Engine
from oscine_engine.front import Front
from oscine_service.conversation import Calls
from oscine_service.http.app import application
from oscine_service.http.server import serving
from oscine_service.limits import Limits
from oscine_service.telephony import http as all_calls
from oscine_service.telephony.rtp import http
from oscine_service.telephony.rtp.exchange import Place, exchange
from oscine_service.telephony.sink import Sink
from tests.service.telephony.rtp.bridge import Bridge, bridge
from tests.service.telephony.rtp.sounds import likeness, part, say, speech
from tests.service.telephony.rtp.telephones import HOST
from tests.service.waiting import until
from tests.service.websocket.clients import client

pytestmark = pytest.mark.telephony

CONFIG = """sip_listen 127.0.0.1:0
audio_player aubridge,one
audio_source ausine,440
ausrc_srate 48000
ausrc_channels 2
audio_alert aubridge,two
module_path /usr/lib/baresip/modules
module g711.so
module opus.so
module srtp.so
module aubridge.so
module ausine.so
module sndfile.so
module_app account.so
module_app menu.so
snd_path {folder}
"""
TEXT = "Good morning. The kettle is on."


@asynccontextmanager
async def dialling(folder: Path, port: int, account: str) -> AsyncIterator[list[str]]:
    """The telephone dials; it is asked to hang up, and waited for, at the end. What it has said, by then."""
    (folder / "config").write_text(CONFIG.format(folder=folder))
    (folder / "accounts").write_text(f"<sip:caller@127.0.0.1>;regint=0;{account}\n")
    process = await asyncio.create_subprocess_exec(
        "baresip",
        *("-v", "-f", str(folder), "-e", f"/dial sip:oscine@{HOST}:{port}"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said: list[str] = []
    try:
        yield said
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        told, _ = await asyncio.wait_for(process.communicate(), 30)
        said += told.decode(errors="replace").splitlines()
        print("\n".join(said))


@asynccontextmanager
async def service(engine: Front | None) -> AsyncIterator[tuple[str, Calls]]:
    """Its HTTP port, with WebSocket where there is an engine: the address."""
    calls, limits = Calls(), Limits()
    async with exchange(Place(HOST), calls.sinks) as rtp:
        routes = [*all_calls.routes(calls), *http.routes(rtp)]
        app = Starlette(routes=routes) if engine is None else application(engine, limits, calls, routes=routes)
        async with serving(app, HOST, 0, limits=limits, calls=calls) as address:
            yield address, calls


async def taken(sip: Bridge, calls: Calls) -> Sink:
    """The call, once both sides send."""

    async def up() -> bool:
        return bool(sip.calls or sip.refused)

    async def answered() -> bool:
        return bool(sink.details()["received"]["packets"])

    await until(up)
    assert not sip.refused
    (name,) = sip.calls
    sink = calls.sinks.find(name)
    await until(answered)
    return sink


def heard_in(folder: Path) -> NDArray[np.float32]:
    """What the telephone wrote down of what it heard."""
    (dump,) = folder.glob("dump-*-dec.wav")
    samples, _ = soundfile.read(dump, dtype="float32", always_2d=True)
    found: NDArray[np.float32] = samples[:, 0]
    return found


def assert_heard(folder: Path, law: g711.Law, said: bytes) -> None:
    """Every sample, in a row. Its decoder gives the codes of zero two steps instead of none."""
    samples = law.decode(said)
    heard = part(heard_in(folder), samples)
    assert len(heard) == len(samples) and abs(heard - samples).max() <= 2 / 32768


def sounding(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Without the packets that hold no sound."""
    packets = samples[: len(samples) // 160 * 160].reshape(-1, 160)
    found: NDArray[np.float32] = packets[(abs(packets) > 2 / 32768).any(axis=1)].reshape(-1)
    return found


@pytest.mark.parametrize(
    ("account", "codec", "encrypted"),
    [
        ("audio_codecs=PCMU/8000/1", "PCMU", False),
        ("audio_codecs=PCMA/8000/1", "PCMA", False),
        ("audio_codecs=opus/48000/2", "opus", False),
        ("audio_codecs=PCMU/8000/1;mediaenc=srtp-mand", "PCMU", True),
    ],
)
async def test_a_telephone_calls_hears_and_hangs_up(tmp_path: Path, account: str, codec: str, encrypted: bool) -> None:
    async with service(None) as (address, calls), bridge(address) as sip:
        async with dialling(tmp_path, sip.port, account) as said:
            sink = await taken(sip, calls)
            async with calls.sinks.turn(sink.name) as turn:
                frames = await say(turn)

            async def reported() -> bool:
                return sink.details()["reported"]["reports"] > 0

            await until(reported)
            details = sink.details()

        async def over() -> bool:
            return not list(calls.sinks)

        await until(over)
        assert not sip.calls
    assert (details["codec"], details["encrypted"]) == (codec, encrypted)
    assert details["reported"]["lost"] == 0 and details["received"]["lost"] == 0
    # Before it knows our keys the telephone opens the way for what is to come with packets that are not encrypted.
    assert details["received"]["strange"] <= (2 if encrypted else 0)
    assert any("established" in line.lower() for line in said)
    if codec == "opus":
        assert likeness(heard_in(tmp_path), speech(48000)) > 0.95
    else:
        assert_heard(tmp_path, g711.MULAW if codec == "PCMU" else g711.ALAW, b"".join(frames))


async def test_a_telephone_hears_an_agent_that_speaks_over_websocket(tmp_path: Path) -> None:
    async with (
        Engine.load() as engine,
        service(engine) as (address, calls),
        bridge(address) as sip,
        client(address) as agent,
    ):
        async with dialling(tmp_path, sip.port, "audio_codecs=PCMU/8000/1"):
            sink = await taken(sip, calls)
            await agent.send("start", sink=sink.name, mode="sentence", seed=1)
            await agent.send("text", text=TEXT)
            await agent.send("end")
            assert (await agent.end()).last["type"] == "done"
        # The same, sent to a client.
        await agent.say(TEXT, "direct", format={"encoding": "mulaw", "sample_rate": 8000})
        await agent.send("end", "direct")
        direct = b"".join(frame for piece in (await agent.end("direct")).pieces for frame in piece.frames)
    # A busy machine speaks with holes, and the same words again may differ by a step of rounding.
    assert likeness(sounding(heard_in(tmp_path)), sounding(g711.MULAW.decode(direct))) > 0.95
