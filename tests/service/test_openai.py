"""The official client, and plain HTTP, against a real server on a real socket."""

import asyncio
import base64
import contextlib
import gc
import io
import json
import math
import os
import random
import re
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import openai
import pytest
import pytest_asyncio
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from oscine_codecs import pcm
from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import InvalidInput
from oscine_engine.front import VoiceInfo
from oscine_service.conversation import Calls
from oscine_service.http import openai as door
from oscine_service.http.app import application
from oscine_service.http.errors import envelope
from oscine_service.http.openai_names import STOCK_VOICES, UnknownModel, mapping, voices
from oscine_service.http.openai_request import FIELDS, FORMATS, BadField, parse
from oscine_service.http.server import serving
from oscine_service.limits import Limits
from tests.codecs.decoders import FFMPEG, by_ffmpeg, by_libsndfile
from tests.service.waiting import left_as_found

TEXT = "Good day."
MODULE = pytest.mark.asyncio(loop_scope="module")
pytestmark = MODULE


@dataclass(frozen=True)
class Service:
    engine: Engine
    address: str
    http: httpx.AsyncClient
    client: openai.AsyncOpenAI
    calls: Calls

    async def say(self, **fields: object) -> httpx.Response:
        asked = {"model": "oscine", "input": TEXT, "voice": "alloy", "seed": 1, **fields}
        return await self.http.post("/v1/audio/speech", json=asked)

    async def idle(self) -> None:
        """Wait until the engine holds nothing but its voices. Fails after ten seconds."""
        async with asyncio.timeout(10):
            while self.engine.load_now != (0, 0):
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def running(checkpoint: Checkpoint, limits: Limits, max_streams: int = 4) -> AsyncIterator[Service]:
    calls = Calls()
    told = EngineSettings(max_streams=max_streams, utilisation=math.inf, session=limits.session)
    async with (
        Engine(checkpoint, told) as engine,
        serving(
            application(engine, limits, calls, routes=door.routes(engine, limits, calls, {"nova": "nobody"})),
            "127.0.0.1",
            0,
            limits=limits,
            grace_s=0,
            calls=calls,
        ) as address,
        httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, timeout=60) as http,
        openai.AsyncOpenAI(
            base_url=f"http://{address}/v1", api_key="any", http_client=openai.DefaultAsyncHttpx2Client(trust_env=False)
        ) as client,
    ):
        yield Service(engine, address, http, client, calls)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(checkpoint: Checkpoint) -> AsyncIterator[Service]:
    async with running(checkpoint, Limits()) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module")
async def service(shared: Service) -> AsyncIterator[Service]:
    async with left_as_found(shared) as found:
        yield found


async def test_the_official_client_streams(service: Service) -> None:
    asked = service.client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="alloy", input=TEXT, response_format="pcm", speed=1.0, extra_body={"seed": 1}
    )
    async with asked as response:
        assert response.headers["content-type"] == "audio/pcm"
        assert (response.request_id or "").startswith("req_")
        assert response.headers["transfer-encoding"] == "chunked" and "content-encoding" not in response.headers
        chunks = [chunk async for chunk in response.iter_bytes()]
    assert len(chunks) > 1
    data = b"".join(chunks)
    assert len(data) % 2 == 0 and len(data) > 24000
    # The stock example of the client reads in pieces of its own.
    async with service.client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input=TEXT, response_format="pcm", extra_body={"seed": 1}
    ) as response:
        pieces = [piece async for piece in response.iter_bytes(1023)]
    again = b"".join(pieces)
    assert abs(len(again) - len(data)) == 0
    assert np.abs(pcm.decode(again) - pcm.decode(data)).max() <= 1.01 / 32768


async def test_the_official_client_s_events(service: Service) -> None:
    async with service.client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts",
        voice="alloy",
        input=TEXT,
        response_format="pcm",
        stream_format="sse",
        extra_body={"seed": 1},
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line async for line in response.iter_lines() if line]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    *deltas, done = events
    assert {event["type"] for event in deltas} == {"speech.audio.delta"}
    assert done["type"] == "speech.audio.done"
    usage = done["usage"]
    assert usage["input_tokens"] == len(TEXT) and usage["total_tokens"] == len(TEXT) + usage["output_tokens"]
    heard = b"".join(base64.b64decode(event["audio"]) for event in deltas)
    plain = await service.say(response_format="pcm")
    assert len(heard) == len(plain.content) and usage["output_tokens"] > 0


async def test_the_page_s_snippet_runs_as_it_stands(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    code = snippet.replace("localhost:8080", service.http.base_url.netloc.decode())
    await asyncio.to_thread(exec, compile(code, "http.md", "exec"), {})
    assert (tmp_path / "morning.ogg").read_bytes().startswith(b"OggS")


async def test_the_official_client_lists_models(service: Service) -> None:
    names = [model.id async for model in service.client.models.list()]
    assert names[0] == "oscine" and "tts-1" in names
    assert (await service.client.models.retrieve("tts-1")).owned_by == "oscine"
    with pytest.raises(openai.NotFoundError, match="there is no model 'gpt-9'"):
        await service.client.models.retrieve("gpt-9")


async def test_the_official_client_gets_errors_that_it_knows(service: Service) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await service.client.audio.speech.create(model="tts-1", voice="alloy", input="x", speed=99)
    assert (refused.value.param, refused.value.type) == ("speed", "invalid_request_error")
    with pytest.raises(openai.NotFoundError) as unknown:
        await service.client.audio.speech.create(model="tts-1", voice="nobody", input="x")
    assert (unknown.value.param, unknown.value.code) == ("voice", "unknown_voice")
    with pytest.raises(openai.NotFoundError) as unknown:
        await service.client.audio.speech.create(model="whisper-1", voice="alloy", input="x")
    assert (unknown.value.param, unknown.value.code) == ("model", "model_not_found")


def heard(format: str, data: bytes) -> int:
    """Samples of a response, at 24 kHz, by a decoder that is not ours."""
    match format:
        case "pcm":
            return len(data) // 2
        case "aac" | "flac" as demuxer:
            return len(by_ffmpeg(data, demuxer))
        case "wav":
            with soundfile.SoundFile(io.BytesIO(data)) as file:
                assert file.samplerate == 24000
                return len(file.read(1 << 22))
        case _:
            samples, rate = by_libsndfile(data)
            return len(samples) * 24000 // rate


_LENGTHS: dict[str, int] = {}


async def plain_length(service: Service) -> int:
    """Samples of TEXT, asked for once."""
    if service.address not in _LENGTHS:
        _LENGTHS[service.address] = len((await service.say(response_format="pcm")).content) // 2
    return _LENGTHS[service.address]


HEADS = {"mp3": (b"\xff\xf3", b"ID3"), "opus": (b"OggS", b"OpusHead"), "flac": (b"fLaC",), "wav": (b"RIFF",)}


@pytest.mark.parametrize("format", [each for each in FORMATS if FFMPEG or each not in ("aac", "flac")])
async def test_each_format_streamed_and_whole_is_one_file_of_the_same_sound(service: Service, format: str) -> None:
    expected = await plain_length(service)
    streamed = await service.say(response_format=format)
    entire = await service.say(response_format=format, stream=False)
    for response in (streamed, entire):
        assert response.status_code == 200
        assert (
            response.headers["content-type"]
            == {
                "mp3": "audio/mpeg",
                "opus": "audio/ogg",
                "aac": "audio/aac",
                "flac": "audio/flac",
                "wav": "audio/wav",
                "pcm": "audio/pcm",
            }[format]
        )
        for head in HEADS.get(format, ())[-1:]:
            assert response.content.count(head) <= 1
        if format in HEADS:
            assert response.content.startswith(HEADS[format][0])
        late = {"mp3": 1105, "aac": 1024}.get(format, 0)
        padding = {"mp3": 2 * 576, "aac": 3 * 1024}.get(format, 0)
        assert expected <= heard(format, response.content) <= expected + late + padding
    assert "content-length" not in streamed.headers and streamed.headers["transfer-encoding"] == "chunked"
    assert int(entire.headers["content-length"]) == len(entire.content)
    if format in ("mp3", "flac", "wav"):
        assert soundfile.info(io.BytesIO(entire.content)).frames == expected


async def test_sample_rates_are_those_that_heads_say(service: Service) -> None:
    seconds = []
    for rate in (8000, 22050, 48000):
        file = (await service.say(response_format="wav", sample_rate=rate)).content
        with soundfile.SoundFile(io.BytesIO(file)) as wave:
            assert wave.samplerate == rate
            seconds.append(len(wave.read(1 << 22)) / rate)
    assert max(seconds) - min(seconds) < 0.001


async def test_sound_is_never_compressed_again(service: Service) -> None:
    response = await service.http.post(
        "/v1/audio/speech",
        json={"model": "oscine", "input": TEXT, "voice": {"id": "alloy"}, "response_format": "pcm"},
        headers={"Accept-Encoding": "gzip, br, deflate"},
    )
    assert response.status_code == 200 and "content-encoding" not in response.headers
    assert "no-transform" in response.headers["cache-control"]


@pytest.mark.parametrize("text", [" ", "…", "🙂", "?!", "\u200b\u3000"])
async def test_nothing_to_say_is_refused_in_every_format(service: Service, text: str) -> None:
    for fields in ({"response_format": "wav"}, {"response_format": "pcm", "stream_format": "sse"}, {"stream": False}):
        response = await service.say(input=text, **fields)
        assert response.status_code == 400, response.text
        assert "nothing to speak" in response.json()["error"]["message"]


GOOD: dict[str, object] = {"model": "oscine", "input": "Hello.", "voice": "alloy"}
BAD: list[tuple[object, str | None]] = [
    (b"", None),
    (b"{", None),
    (b"[]", None),
    (b"\xff\xfe", None),
    (b'{"model": "oscine", "input": "\xff", "voice": "alloy"}', None),
    (b"[" * 100_000, None),
    (b'{"speed": NaN}', None),
    (b"1" * 5000, None),
    ({}, "model"),
    ({**GOOD, "input": None}, "input"),
    ({**GOOD, "input": ""}, "input"),
    ({**GOOD, "input": 7}, "input"),
    ({**GOOD, "input": "x" * 4097}, "input"),
    (json.dumps({**GOOD, "input": "\ud800"}).encode(), "input"),
    ({**GOOD, "voice": 7}, "voice"),
    ({**GOOD, "voice": ""}, "voice"),
    ({**GOOD, "voice": "x" * 201}, "voice"),
    ({**GOOD, "voice": {"id": 7}}, "voice"),
    ({**GOOD, "voice": {"name": "alloy"}}, "voice"),
    (json.dumps({**GOOD, "voice": "\udfff"}).encode(), "voice"),
    ({**GOOD, "response_format": "ogg"}, "response_format"),
    ({**GOOD, "response_format": ["mp3"]}, "response_format"),
    ({**GOOD, "stream_format": "chunks"}, "stream_format"),
    ({**GOOD, "stream": "yes"}, "stream"),
    ({**GOOD, "stream": False, "stream_format": "sse"}, "stream"),
    ({**GOOD, "speed": 99}, "speed"),
    ({**GOOD, "speed": 0}, "speed"),
    ({**GOOD, "speed": "fast"}, "speed"),
    ({**GOOD, "speed": True}, "speed"),
    (b'{"model": "oscine", "input": "x", "voice": "alloy", "speed": 1e999}', "speed"),
    ({**GOOD, "speed": 10**400}, "speed"),
    ({**GOOD, "sample_rate": 12345}, "sample_rate"),
    ({**GOOD, "sample_rate": 24000.5}, "sample_rate"),
    ({**GOOD, "response_format": "opus", "sample_rate": 44100}, "sample_rate"),
    ({**GOOD, "seed": -1}, "seed"),
    ({**GOOD, "seed": 2**63}, "seed"),
    ({**GOOD, "seed": "1"}, "seed"),
    ({**GOOD, "language": "klingon"}, "language"),
    ({**GOOD, "instructions": 7}, "instructions"),
    ({**GOOD, "instructions": "Whisper."}, "instructions"),
    ({**GOOD, "instructions": "x" * 4097}, "instructions"),
    ({**GOOD, "temprature": 0.5}, "temprature"),
    ({**GOOD, "x" * 100_000: 1}, None),
    (json.dumps({**GOOD, "\ud800": 1}).encode(), None),
    ({**GOOD, "response_format": "x" * 100_000}, "response_format"),
    (json.dumps({**GOOD, "response_format": "\ud800"}).encode(), "response_format"),
    ({**GOOD, "language": "x" * 1000}, "language"),
    (json.dumps({**GOOD, "language": "\ud800"}).encode(), "language"),
    ({**GOOD, "sample_rate": 10**300}, "sample_rate"),
    ({**GOOD, "ref_audio": "AAAA"}, "ref_audio"),
    ({**GOOD, "ref_text": "Hello."}, "ref_audio"),
    ({**GOOD, "voice": None, "ref_audio": ""}, "ref_audio"),
    ({**GOOD, "voice": None, "ref_audio": "?"}, "ref_audio"),
    ({**GOOD, "voice": None, "ref_audio": "https://example.com/a,b.wav"}, "ref_audio"),
    ({**GOOD, "voice": None, "ref_audio": "AAAA", "ref_text": "x" * 1001}, "ref_text"),
    ({**GOOD, "voice": None, "ref_audio": "AAAA", "ref_text": "Hello."}, "ref_audio"),
]


WORDS: list[tuple[object, str, str]] = [
    ({**GOOD, "voice": {"id": "alloy", "x": 1}}, "voice", "has no field 'x'; leave it out"),
    ({**GOOD, "speed": 10**400}, "speed", "inf is out of range; use 0.5 to 2"),
    ({**GOOD, "instructions": "Whisper."}, "instructions", "instructions: this model takes no instructions"),
]
REFUSED = [*((sent, param, "") for sent, param in BAD), *WORDS]


@pytest.mark.parametrize(("sent", "param", "why"), REFUSED, ids=range(len(REFUSED)))
async def test_bad_requests_get_the_envelope_and_the_field(
    service: Service, sent: object, param: str | None, why: str
) -> None:
    content = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
    response = await service.http.post(
        "/v1/audio/speech", content=content, headers={"Content-Type": "application/json; charset=utf-8"}
    )
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert len(response.content) < 2500
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["param"], error["type"]) == (param, "invalid_request_error")
    assert param is None or error["message"].startswith((param, repr(param)))
    assert why in error["message"]


async def test_other_bodies_and_methods_are_refused(service: Service) -> None:
    plain = await service.http.post("/v1/audio/speech", content=json.dumps(GOOD))
    assert plain.status_code == 400 and "Content-Type" in plain.json()["error"]["message"]
    large = await service.say(input="x" * (12 << 20))
    assert large.status_code == 413 and large.json()["error"]["code"] == "too_large"
    wrong = await service.http.get("/v1/audio/speech")
    assert wrong.status_code == 405 and wrong.headers["allow"] == "POST"
    assert wrong.json()["error"]["message"] == "'GET' is not taken at '/v1/audio/speech'; use POST"
    lost = await service.http.get("/v1/audio/speeches")
    assert lost.status_code == 404 and lost.json()["error"]["code"] == "not_found"
    assert "nothing at '/v1/audio/speeches'; over HTTP there are /livez" in lost.json()["error"]["message"]
    socket = await service.http.get("/v1/speech")
    assert socket.status_code == 404 and "there is WebSocket at '/v1/speech'" in socket.json()["error"]["message"]
    packed = await service.http.post(
        "/v1/audio/speech",
        content=json.dumps(GOOD),
        headers={"Content-Type": "application/json", "Content-Encoding": "gzip"},
    )
    assert packed.status_code == 415 and packed.json()["error"]["code"] == "unsupported_encoding"
    assert "not compressed" in packed.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/nowhere", "/v1/audio/speech"])
async def test_a_websocket_to_a_path_without_one_is_told_what_there_is(service: Service, path: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(f"ws://{service.http.base_url.netloc.decode()}{path}", proxy=None):
            pass
    response = refused.value.response
    assert response.status_code == 404
    message = json.loads(response.body)["error"]["message"]
    assert repr(path) in message and "over WebSocket there are /v1/speech" in message


def post(data: bytes) -> bytes:
    """A request as it lies on the wire."""
    head = (
        "POST /v1/audio/speech HTTP/1.1",
        "Host: x",
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
    )
    return "\r\n".join([*head, "", ""]).encode() + data


async def test_a_client_that_leaves_frees_what_it_held(service: Service) -> None:
    text = "This is a long sentence that nobody will hear to its end. " * 30
    for format, wait in (("pcm", 0), ("mp3", 1), ("wav", 3), ("opus", 2), ("flac", 1), ("pcm", 2)):
        asked = {**GOOD, "input": text, "response_format": format}
        async with service.http.stream("POST", "/v1/audio/speech", json=asked) as response:
            assert response.status_code == 200
            chunks = response.aiter_raw()
            for _ in range(wait):
                await anext(chunks)
        await service.idle()
    # Also one that leaves before anything was said, and one that asked for a whole file.
    for fields in ({}, {"stream": False}):
        _, writer = await asyncio.open_connection(*service.address.split(":"))
        data = json.dumps({**GOOD, "input": text, **fields}).encode()
        writer.write(post(data))
        await writer.drain()
        async with asyncio.timeout(10):
            while service.engine.load_now == (0, 0):
                await asyncio.sleep(0.001)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        await service.idle()


@pytest.mark.asyncio(loop_scope="function")
async def test_a_full_service_says_when_to_come_back(checkpoint: Checkpoint) -> None:
    async with running(checkpoint, Limits(), max_streams=1) as service:
        asked = {**GOOD, "input": "Somebody speaks for a long while here. " * 50, "response_format": "pcm"}
        async with service.http.stream("POST", "/v1/audio/speech", json=asked) as first:
            assert first.status_code == 200
            second = await service.say()
            assert second.status_code == 429
            assert int(second.headers["retry-after"]) >= 0
            error = second.json()["error"]
            assert (error["type"], error["code"]) == ("rate_limit_error", "overloaded")
        await service.idle()


@pytest.mark.asyncio(loop_scope="function")
async def test_who_stops_reading_loses_the_place(checkpoint: Checkpoint) -> None:
    limits = Limits(write_timeout_s=0.5)
    async with running(checkpoint, limits) as service:
        host, port = service.address.split(":")
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect((host, int(port)))
            asked = {
                **GOOD,
                "input": "Nobody reads what is said here. " * 120,
                "response_format": "wav",
                "sample_rate": 48000,
            }
            data = json.dumps(asked).encode()
            reader.sendall(post(data))
            async with asyncio.timeout(30):
                while service.engine.load_now == (0, 0):
                    await asyncio.sleep(0.001)
                while service.engine.load_now != (0, 0):
                    await asyncio.sleep(0.01)


@pytest.mark.asyncio(loop_scope="function")
async def test_a_response_that_breaks_off_never_looks_complete(checkpoint: Checkpoint) -> None:
    async with running(checkpoint, Limits()) as service:
        asked = {**GOOD, "input": "The service will stop in the middle of this. " * 60, "response_format": "pcm"}
        got: dict[str, list[bytes]] = {"audio": [], "sse": []}

        async def listen(form: str) -> None:
            async with service.http.stream(
                "POST", "/v1/audio/speech", json={**asked, "stream_format": form}
            ) as response:
                assert response.status_code == 200
                async for chunk in response.aiter_raw():
                    got[form].append(chunk)

        listening = [asyncio.create_task(listen(form)) for form in got]
        async with asyncio.timeout(30):
            while not all(got.values()):
                await asyncio.sleep(0.01)
        service.calls.stop()
        ends = await asyncio.gather(*listening, return_exceptions=True)
        assert [type(end) for end in ends] == [httpx.RemoteProtocolError] * 2
        *_, last, rest = b"".join(got["sse"]).decode().split("\n\n")
        assert rest == ""
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "unavailable"


KNOWN = {
    "heart": VoiceInfo("en", ""),
    "yunxi": VoiceInfo("zh", ""),
    "emma": VoiceInfo("en", ""),
}


async def test_names_of_openai_stand_for_voices_of_the_service() -> None:
    voice_of = voices(KNOWN, mapping(["nova=yunxi", " onyx = stored "]))
    assert (voice_of("nova"), voice_of("onyx")) == ("yunxi", "stored")
    assert [voice_of(name) for name in STOCK_VOICES[:3]] == ["heart", "emma", "heart"]
    assert (voice_of("yunxi"), voice_of("anna")) == ("yunxi", "anna")
    assert {voice_of(name) for name in STOCK_VOICES} <= {*KNOWN, "stored"}
    assert voices({}, {})("alloy") == "alloy"
    assert voices({**KNOWN, "alloy": VoiceInfo("zh", "")}, {})("alloy") == "alloy"
    for wrong in ("nova", "=yunxi", "nova="):
        with pytest.raises(InvalidInput, match="NAME=VOICE"):
            mapping([wrong])


async def test_a_field_that_is_null_is_one_that_is_left_out() -> None:
    body = {**GOOD, **{name: None for name in FIELDS if name not in GOOD}}
    left_out = parse(json.dumps(GOOD).encode())
    assert parse(json.dumps(body).encode()) == left_out
    with pytest.raises(BadField, match="no field"):
        parse(json.dumps({**GOOD, "x": None}).encode())


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each, max_size=3),
    max_leaves=5,
)
FIELD = st.one_of(
    ANY,
    st.sampled_from(
        ["oscine", "alloy", "mp3", "wav", "sse", "audio", "en", "AAAA", "Hello.", 1, 1.5, 24000, True, False]
    ),
)
BODY = st.one_of(
    st.binary(max_size=60),
    st.dictionaries(st.sampled_from(list(FIELDS)), FIELD).map(lambda fields: json.dumps({**GOOD, **fields}).encode()),
    st.dictionaries(st.sampled_from(list(FIELDS)) | st.text(max_size=9), ANY).map(lambda it: json.dumps(it).encode()),
    ANY.map(lambda value: json.dumps(value).encode()),
)


def any_body_is_taken_or_refused_by_name(body: bytes) -> None:
    refusal: BadField | UnknownModel | None = None
    try:
        asked = parse(body)
    except (BadField, UnknownModel) as error:
        refusal = error
    if refusal is None:
        assert 0 < len(asked.text) <= 4096 and asked.text.encode()
        assert 0.5 <= asked.session.speed <= 2
    else:
        assert 0 < len(refusal.message) < 1000
        assert envelope(refusal, refusal.param).status_code in (400, 404)
        assert refusal.param is None or refusal.param in refusal.message or refusal.param in json.loads(body)


@pytest.mark.parametrize("cases", [200, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_any_body_is_taken_or_refused_by_name(cases: int) -> None:
    given(BODY)(settings(max_examples=cases, deadline=None)(any_body_is_taken_or_refused_by_name))()


def encoders() -> list[str]:
    """Processes of FFmpeg that this one has started."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            name, rest = file.read_text().split("(", 1)[1].rsplit(")", 1)
            if name == "ffmpeg" and int(rest.split()[1]) == os.getpid():
                found.append(file.parent.name)
    return found


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="function")
async def test_clients_that_leave_at_any_point_leave_nothing(checkpoint: Checkpoint) -> None:
    """Two hundred of them, in every format: tasks, descriptors and processes are as many as before."""

    def held() -> tuple[int, int]:
        return len(asyncio.all_tasks()), len(list(Path("/proc/self/fd").iterdir()))

    generator = random.Random(1)
    formats = [each for each in FORMATS if FFMPEG or each != "aac"]
    async with running(checkpoint, Limits()) as service:

        async def leave(number: int) -> None:
            asked = {
                **GOOD,
                "input": "Somebody speaks for a while here. " * 9,
                "response_format": formats[number % len(formats)],
            }
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(generator.random() * 2):
                    await service.say(**asked)

        for number in range(20):
            await leave(number)
        await service.idle()
        before = held()
        for start in range(0, 200, 4):
            await asyncio.gather(*(leave(number) for number in range(start, start + 4)))
        await service.idle()
        gc.collect()
        async with asyncio.timeout(10):
            while held() > (before[0] + 2, before[1] + 5):
                await asyncio.sleep(0.1)
    assert not encoders()
