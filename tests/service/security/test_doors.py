"""Both doors of a service with keys, as clients meet them."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
import websockets
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from oscine_engine.checkpoint.load import Checkpoint
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.config.model import Security, Settings
from oscine_service.http.openai import MAX_BODY_BYTES
from oscine_service.http.server import serving
from oscine_service.security.http_door import MOST_BODY
from oscine_service.security.keys import Key
from tests.service.calls import config, text
from tests.service.security.conftest import House, house, keys_file
from tests.service.waiting import until

NO_DIGEST = "0" * 64
KEYS = {
    "one": Key("anna", NO_DIGEST, owner="anna"),
    "few": Key("few", NO_DIGEST, characters_per_minute=20),
    "web": Key("web", NO_DIGEST, characters_per_minute=20),
    "single": Key("single", NO_DIGEST, streams=1),
    "other": Key("other", NO_DIGEST, voices=("somebody",)),
    "watch": Key("watch", NO_DIGEST, grants=("metrics",)),
}
PAGE = "https://app.example.com"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    path: Path = keys_file(tmp_path_factory.mktemp("keys"), **KEYS)
    settings = replace(Settings(), security=Security(keys=path, origins=(PAGE,)))
    async with house(checkpoint, settings) as found:
        yield found


@dataclass
class Answer:
    """What a call answered: the kinds of its responses, and its end."""

    kinds: list[str] = field(default_factory=list)
    code: grpc.StatusCode = grpc.StatusCode.OK
    details: str = ""
    trailing: dict[str, str] = field(default_factory=dict)
    details_bin: bytes = b""


async def speak(house: House, *requests: pb.SynthesizeRequest, **metadata: str) -> Answer:
    """Underscores in the names of metadata stand for hyphens."""
    answer = Answer()
    async with house.channel() as channel:
        sent = tuple((name.replace("_", "-"), value) for name, value in metadata.items())
        call = SpeechServiceStub(channel).Synthesize(iter(requests), metadata=sent)
        try:
            async for response in call:
                answer.kinds += [str(response.WhichOneof("response"))]
        except grpc.aio.AioRpcError as error:
            answer.code, answer.details = error.code(), error.details() or ""
            for key, value in error.trailing_metadata() or ():
                if isinstance(value, bytes):
                    answer.details_bin = value
                else:
                    answer.trailing[key] = value
    return answer


HELLO = (config(), *text("Hello there."))


@pytest.mark.parametrize("metadata", [{"authorization": "Bearer one"}, {"x_api_key": "one"}, {"xi_api_key": "one"}])
async def test_a_key_opens_grpc(guarded: House, metadata: dict[str, str]) -> None:
    answer = await speak(guarded, *HELLO, **metadata)
    assert answer.kinds[-1] == "done", answer


@pytest.mark.parametrize("metadata", [{}, {"authorization": "Bearer wrong"}, {"authorization": "Basic one"}])
async def test_without_a_key_grpc_says_how_to_send_one(guarded: House, metadata: dict[str, str]) -> None:
    """Also to a client that goes on writing."""
    answer = await speak(guarded, config(), *text(*["x" * 60000] * 50), **metadata)
    assert answer.code is grpc.StatusCode.UNAUTHENTICATED and "Authorization: Bearer KEY" in answer.details
    assert not answer.kinds


async def test_one_request_is_refused_likewise(guarded: House) -> None:
    async with guarded.channel() as channel:
        call = SpeechServiceStub(channel).SynthesizeText(pb.SynthesizeTextRequest())
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_probes_need_no_key_and_whoever_looks_around_does(guarded: House) -> None:
    async with guarded.channel() as channel:
        for name in ("", "liveness", "readiness"):
            told = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=name))
            assert told.status == health_pb2.HealthCheckResponse.SERVING
        looking = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        )
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await looking.read()
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert (await guarded.fetch("/livez"))[0] == (await guarded.fetch("/readyz"))[0] == 200


async def test_a_voice_that_is_not_granted_is_refused(guarded: House) -> None:
    answer = await speak(guarded, *HELLO, authorization="Bearer other")
    assert answer.code is grpc.StatusCode.PERMISSION_DENIED and "somebody" in answer.details
    answer = await speak(guarded, *HELLO, authorization="Bearer watch")
    assert answer.code is grpc.StatusCode.PERMISSION_DENIED and "not granted 'speak'" in answer.details


async def test_text_beyond_what_is_granted_is_refused_behind_what_was_accepted(guarded: House) -> None:
    """Also to a client that goes on writing."""
    said = text("Hello there, all of you.", *[" More."] * 50)
    answer = await speak(guarded, config(), *said, authorization="Bearer few")
    assert answer.code is grpc.StatusCode.RESOURCE_EXHAUSTED and "20 characters a minute" in answer.details
    assert 0 < int(answer.trailing["retry-after-ms"]) <= 60000
    assert answer.kinds[0] == "started" and "audio" in answer.kinds, "what was accepted is spoken"


async def test_a_key_has_so_many_calls_at_a_time(guarded: House) -> None:
    async with guarded.channel() as channel:
        first = SpeechServiceStub(channel).Synthesize(metadata=(("authorization", "Bearer single"),))
        await first.write(config())
        assert (await first.read()).HasField("started")
        answer = await speak(guarded, *HELLO, authorization="Bearer single")
        assert answer.code is grpc.StatusCode.RESOURCE_EXHAUSTED and "1 streams open" in answer.details
        hint_ms = int(answer.trailing["retry-after-ms"])
        assert answer.trailing["grpc-retry-pushback-ms"] == str(hint_ms) != "0"
        rich = Status.FromString(answer.details_bin)
        assert (rich.code, rich.message) == (grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], answer.details)
        info = RetryInfo()
        assert rich.details[0].Unpack(info) and info.retry_delay.ToMilliseconds() == hint_ms
        first.cancel()

        async def again() -> bool:
            return (await speak(guarded, *HELLO, authorization="Bearer single")).code is grpc.StatusCode.OK

        await until(again)


async def token(house: House, body: bytes = b"", key: str = "one") -> tuple[int, dict[str, object]]:
    status, _, answer = await house.fetch("/v1/tokens", {"Authorization": f"Bearer {key}"}, method="POST", body=body)
    return status, json.loads(answer)


async def test_a_key_is_exchanged_for_a_token_that_speaks_and_does_no_more(guarded: House) -> None:
    status, made = await token(guarded, b'{"expires_in": 60}')
    assert status == 201 and made["token_type"] == "Bearer"
    assert (await speak(guarded, *HELLO, authorization=f"Bearer {made['token']}")).kinds[-1] == "done"
    status, told = await token(guarded, key=str(made["token"]))
    assert status == 403 and "a token is not granted 'tokens'" in str(told)
    assert (await token(guarded, key="watch"))[0] == 403


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        pytest.param(b"[" * 100_000, id="deep"),
        b'{"expires_in": "60"}',
        b'{"expires_in": true}',
        b'{"x": 1}',
        b'{"expires_in": 4000}',
        b'{"expires_in": 60, "expires_in": 70}',
        b'{"expires_in": NaN}',
        '{"expires_in": 60}'.encode("utf-16"),
    ],
)
async def test_a_wrong_wish_for_a_token_is_explained(guarded: House, body: bytes) -> None:
    status, told = await token(guarded, body)
    assert status == 400 and told["error"]["message"]  # type: ignore[index]


async def test_http_wants_a_key_and_says_so_as_openai_does(guarded: House) -> None:
    status, headers, body = await guarded.fetch("/metrics")
    assert status == 401 and headers["www-authenticate"] == "Bearer"
    told = json.loads(body)["error"]
    assert told["code"] == "unauthenticated" and "X-API-Key" in told["message"]
    assert (await guarded.fetch("/metrics", {"xi-api-key": "one"}))[0] == 403
    assert (await guarded.fetch("/metrics?token=watch"))[0] == 401
    status, headers, body = await guarded.fetch("/metrics", {"Authorization": "Token watch"})
    assert status == 200 and headers["content-type"].startswith("text/plain")
    assert b'oscine_refused_total{outcome="unauthenticated",protocol="http"}' in body
    assert b"oscine_build_info" in body


async def test_pages_of_others_are_refused_and_those_that_may_call_are_let_read(guarded: House) -> None:
    key = {"Authorization": "Bearer watch"}
    status, headers, _ = await guarded.fetch("/metrics", {**key, "Origin": "https://evil.example"})
    assert status == 403 and "access-control-allow-origin" not in headers
    status, headers, _ = await guarded.fetch("/metrics", {**key, "Origin": PAGE})
    assert status == 200 and headers["access-control-allow-origin"] == PAGE and "Origin" in headers["vary"]
    ask = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    status, headers, _ = await guarded.fetch("/v1/audio/speech", ask, method="OPTIONS")
    assert status == 204 and headers["access-control-allow-headers"] == "authorization"
    assert headers["access-control-allow-origin"] == PAGE and "POST" in headers["access-control-allow-methods"]
    status, headers, _ = await guarded.fetch("/metrics", {"Origin": PAGE})
    assert status == 401 and headers["access-control-allow-origin"] == PAGE, "a page may read why"


async def test_what_is_granted_counts_over_http_as_well(guarded: House) -> None:
    async def say(key: str) -> tuple[int, Mapping[str, str], bytes]:
        body = json.dumps({"model": "oscine", "input": "Hello there, all of you.", "voice": "synthetic"}).encode()
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        return await guarded.fetch("/v1/audio/speech", headers, method="POST", body=body)

    status, _, sound = await say("web")
    assert status == 200 and len(sound) > 4800, sound[:300]
    status, headers, body = await say("web")
    told = json.loads(body)["error"]
    assert status == 429 and told["code"] == "quota_exceeded" and 0 < int(headers["retry-after"]) <= 60
    status, _, body = await say("other")
    assert status == 403 and "somebody" in body.decode()


async def test_a_body_that_is_too_large_is_not_read(guarded: House) -> None:
    key = {"Authorization": "Bearer one"}
    status, _, body = await guarded.fetch("/v1/tokens", key, method="POST", body=b" " * (MOST_BODY + 1))
    assert status == 413 and str(MOST_BODY) in body.decode()
    assert json.loads(body)["error"]["code"] == "too_large"
    chunked = {**key, "Transfer-Encoding": "chunked"}
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    status, _, _ = await guarded.fetch("/v1/tokens", chunked, method="POST", body=piece * 17 + b"0\r\n\r\n")
    assert status == 413
    assert (await guarded.fetch("/v1/tokens", key, method="POST", body=b" " * MOST_BODY))[0] == 201


async def test_no_more_is_let_in_than_is_taken_there(guarded: House) -> None:
    """What is told of a body is enough to refuse it."""
    host, _, port = guarded.http_address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer one\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1)
    )
    async with asyncio.timeout(20):
        assert b" 413 " in await reader.readline()
    writer.close()


async def test_a_websocket_wants_a_key(guarded: House) -> None:
    address = f"ws://{guarded.http_address}/v1/speech"
    with pytest.raises(websockets.InvalidStatus) as refused:
        await websockets.connect(address, proxy=None)
    assert refused.value.response.status_code == 401
    assert b"unauthenticated" in refused.value.response.body
    async with websockets.connect(address, proxy=None, additional_headers={"X-API-Key": "one"}) as socket:
        assert json.loads(await socket.recv())["type"]


async def test_a_page_opens_a_websocket_with_a_token(guarded: House) -> None:
    address = f"ws://{guarded.http_address}/v1/speech"
    _, made = await token(guarded)
    offered = ["oscine.v1", f"oscine.token.{made['token']}"]
    async with websockets.connect(address, proxy=None, origin=PAGE, subprotocols=offered) as socket:  # type: ignore[arg-type]
        assert socket.subprotocol == "oscine.v1"
        assert json.loads(await socket.recv())["type"]
    async with websockets.connect(f"{address}?token={made['token']}", proxy=None, origin=PAGE) as socket:  # type: ignore[arg-type]
        assert json.loads(await socket.recv())["type"]


@pytest.mark.parametrize(
    ("origin", "offered", "reason"),
    [
        (PAGE, ["oscine.v1", "oscine.token.ost_x.y"], "token"),
        (PAGE, None, "key"),
        ("https://evil.example", None, "evil.example"),
    ],
)
async def test_a_page_is_told_why_by_the_close(
    guarded: House, origin: str, offered: list[str] | None, reason: str
) -> None:
    """All that a browser shows to its page."""
    address = f"ws://{guarded.http_address}/v1/speech"
    async with websockets.connect(address, proxy=None, origin=origin, subprotocols=offered) as socket:  # type: ignore[arg-type]
        with pytest.raises(websockets.ConnectionClosedError) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008
    assert reason in closed.value.rcvd.reason


@pytest.mark.parametrize("name", ["token", "single_use_token"])
async def test_what_is_behind_the_door_sees_no_token(guarded: House, name: str) -> None:
    seen: list[Scope] = []

    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await Response()(scope, receive, send)

    _, made = await token(guarded)
    address = f"/x?a=1%20%C3%A4&{name}={made['token']}&b="
    async with serving(guarded.entrance.around(inside), "127.0.0.1", 0, grace_s=0) as http_address:
        status, _, _ = await replace(guarded, http_address=http_address).fetch(address)
    assert status == 200 and QueryParams(seen[0]["query_string"]).multi_items() == [("a", "1 ä"), ("b", "")]


async def test_a_service_without_keys_asks_for_none(checkpoint: Checkpoint) -> None:
    """Whatever a client or a proxy sends that looks like one."""
    async with house(checkpoint, Settings()) as found:
        for authorization in ("Basic YTpi", "Bearer anything", "nonsense"):
            assert (await speak(found, *HELLO, authorization=authorization)).kinds[-1] == "done"
            assert (await found.fetch("/metrics?token=x", {"Authorization": authorization}))[0] == 200
        status, _, body = await found.fetch("/v1/tokens", method="POST")
        assert status == 400 and b"--keys" in body


async def test_calls_of_both_doors_are_counted(guarded: House) -> None:
    await speak(guarded, *HELLO, authorization="Bearer one")
    await speak(guarded, *HELLO, authorization="Bearer other")
    _, _, body = await guarded.fetch("/metrics", {"Authorization": "Bearer watch"})
    counted = body.decode()
    assert 'oscine_calls_total{outcome="ok",protocol="grpc"}' in counted
    assert 'oscine_refused_total{outcome="forbidden",protocol="grpc"}' in counted
    assert 'oscine_first_packet_seconds_count{protocol="grpc"}' in counted
