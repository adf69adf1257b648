"""Receivers that others wrote: what FFmpeg and GStreamer make of a call is what was said in it."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from oscine_codecs import g711
from oscine_codecs.opus import OpusDecoder
from oscine_service.telephony.rtp.exchange import Exchange
from oscine_service.telephony.rtp.sdes import Crypto
from oscine_service.telephony.sink import Sinks
from tests.service.telephony.rtp.offers import offer, opus
from tests.service.telephony.rtp.sounds import likeness, say, speech
from tests.service.telephony.rtp.telephones import HOST, taking, understood
from tests.service.waiting import until

pytestmark = pytest.mark.telephony

KEY = Crypto("1", "AES_CM_128_HMAC_SHA1_80", bytes(range(30)))


def free_pair() -> int:
    """An even port, free as its neighbour is."""
    while True:
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            first.bind((HOST, 0))
            number: int = first.getsockname()[1]
            if number % 2:
                continue
            second = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            with contextlib.suppress(OSError):
                second.bind((HOST, number + 1))
                return number


def listens(port: int) -> bool:
    """Whether anybody on this machine does."""
    lines = Path("/proc/net/udp").read_text().splitlines()[1:]
    return any(int(line.split()[1].partition(":")[2], 16) == port for line in lines)


@asynccontextmanager
async def receiving(*command: str, port: int) -> AsyncIterator[None]:
    """The receiver runs, and listens; it is asked to end, and waited for, at the end."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        await until(lambda: asyncio.to_thread(listens, port), 30)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        told, _ = await asyncio.wait_for(process.communicate(), 30)
        print(told.decode(errors="replace"))


async def called(calls: Exchange, sinks: Sinks, text: str) -> tuple[list[bytes], str]:
    """Say it in a call and hang up: the frames, and the answer."""
    made = await calls.answer(text, None, "")
    await asyncio.sleep(1)
    async with sinks.turn(made.name) as turn:
        frames = await say(turn)
    await asyncio.sleep(0.5)
    sinks.find(made.name).hang_up()
    return frames, made.sdp


def ffmpeg(folder: Path, description: str, rate: int) -> tuple[list[str], Path]:
    """As it reads a session from a file."""
    (folder / "call.sdp").write_text(description)
    out = folder / "out.raw"
    read = ["-protocol_whitelist", "file,udp,rtp,srtp", "-i", str(folder / "call.sdp")]
    write = ["-f", "s16le", "-ar", str(rate), "-ac", "1", str(out)]
    return ["ffmpeg", "-nostdin", "-y", "-loglevel", "info", *read, *write], out


@pytest.mark.parametrize(("number", "law"), [("0", g711.MULAW), ("8", g711.ALAW)])
async def test_ffmpeg_hears_every_sample(tmp_path: Path, number: str, law: g711.Law) -> None:
    port = free_pair()
    text = offer("a=recvonly", port=port, formats=number, maps=[])
    command, out = ffmpeg(tmp_path, text, 8000)
    async with taking() as (calls, sinks), receiving(*command, port=port):
        frames, _ = await called(calls, sinks, text)
    said = law.values[np.frombuffer(b"".join(frames), np.uint8)].astype("<i2").tobytes()
    assert said in out.read_bytes()


async def test_ffmpeg_hears_opus(tmp_path: Path) -> None:
    port = free_pair()
    text = opus("a=recvonly", port=port)
    command, out = ffmpeg(tmp_path, text, 24000)
    async with taking() as (calls, sinks), receiving(*command, port=port):
        frames, _ = await called(calls, sinks, text)
    heard = np.frombuffer(out.read_bytes(), "<i2").astype(np.float32) / 32768
    decoder = OpusDecoder(24000)
    ours = np.concatenate([decoder.decode(frame) for frame in frames])
    assert likeness(heard, ours) > 0.98
    assert likeness(heard, speech()) > 0.95


async def test_ffmpeg_hears_an_encrypted_call(tmp_path: Path) -> None:
    port = free_pair()
    text = offer("a=recvonly", f"a=crypto:{KEY.line}", port=port, formats="0", maps=[], protocol="RTP/SAVP")
    async with taking() as (calls, sinks):
        made = await calls.answer(text, None, "")
        ours = understood(made.sdp).media[0].all("crypto")[0]
        # A description says by which key is heard, and that is the one of the answer.
        command, out = ffmpeg(tmp_path, text.replace(KEY.line, ours), 8000)
        async with receiving(*command, port=port):
            await asyncio.sleep(1)
            async with sinks.turn(made.name) as turn:
                frames = await say(turn)
            await asyncio.sleep(0.5)
    said = g711.MULAW.values[np.frombuffer(b"".join(frames), np.uint8)].astype("<i2").tobytes()
    assert said in out.read_bytes()


async def test_gstreamer_hears_every_sample_behind_its_jitter_buffer(tmp_path: Path) -> None:
    port = free_pair()
    out = tmp_path / "out.raw"
    caps = "application/x-rtp,media=audio,clock-rate=8000,encoding-name=PCMU,payload=0"
    pipeline = (
        f"udpsrc port={port} caps={caps} ! rtpjitterbuffer latency=200 ! rtppcmudepay ! mulawdec ! "
        f"filesink location={out}"
    )
    async with taking() as (calls, sinks), receiving("gst-launch-1.0", "-e", *pipeline.split(), port=port):
        frames, _ = await called(calls, sinks, offer(port=port, formats="0", maps=[]))
    said = g711.MULAW.values[np.frombuffer(b"".join(frames), np.uint8)].astype("<i2").tobytes()
    assert said in out.read_bytes()


async def test_gstreamer_hears_opus(tmp_path: Path) -> None:
    port = free_pair()
    out = tmp_path / "out.raw"
    caps = "application/x-rtp,media=audio,clock-rate=48000,encoding-name=OPUS,payload=111"
    pipeline = (
        f"udpsrc port={port} caps={caps} ! rtpjitterbuffer latency=200 ! rtpopusdepay ! opusdec ! audioconvert ! "
        f"audioresample ! audio/x-raw,format=S16LE,rate=24000,channels=1 ! filesink location={out}"
    )
    async with taking() as (calls, sinks), receiving("gst-launch-1.0", "-e", *pipeline.split(), port=port):
        await called(calls, sinks, opus(port=port))
    heard = np.frombuffer(out.read_bytes(), "<i2").astype(np.float32) / 32768
    assert likeness(heard, speech()) > 0.95
