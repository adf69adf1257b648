"""Calls of every gRPC method with requests that are none, or not in that order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import grpc

from bench.fuzz import draw, protobuf
from bench.fuzz.recordings import recording
from bench.fuzz.verdict import FaultError
from oscine_proto.nvidia_riva import riva_tts_pb2 as riva
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1 import voice_pb2 as voice_pb

OSCINE, RIVA = "grpc", "riva"
TYPED = frozenset(
    "OK INVALID_ARGUMENT NOT_FOUND ALREADY_EXISTS FAILED_PRECONDITION RESOURCE_EXHAUSTED PERMISSION_DENIED "
    "UNAUTHENTICATED".split()
)
"""What a call may end with that nobody cut off."""
_SPEECH, _VOICE, _RIVA = (
    "/oscine.v1.SpeechService/",
    "/oscine.v1.VoiceService/",
    "/nvidia.riva.tts.RivaSpeechSynthesis/",
)
_OVERSIZED = (pb.SynthesizeRequest(text="a").SerializeToString(), 1 << 20, 9 << 20, 17 << 20)


class GrpcDoor:
    """One kind of service on one port."""

    def __init__(self, name: str, channel: grpc.aio.Channel, key: str) -> None:
        self._name = name
        self._channel = channel
        self._key = key

    async def case(self, random: Random) -> list[str]:
        """The status that a call ends with. Raises FaultError."""
        path, requests, streamed = drawn(self._name, random)
        if draw.chance(random, 0.02):
            path += random.choice(("x", "/", "é"))[: 1 + random.randrange(2)].encode("ascii", "ignore").decode()
        metadata = self._metadata(random)
        leaves = draw.chance(random, 0.05)
        call = self._channel.stream_stream(path)(_sent(random.random(), requests), metadata=metadata)
        try:
            async for _ in call:
                if leaves:
                    call.cancel()
                    return ["left"]
            code = await call.code()
            details = await call.details()
        except grpc.aio.AioRpcError as error:
            code, details = error.code(), error.details()
        except asyncio.CancelledError:
            if leaves:
                return ["left"]
            raise
        # There grpc hangs up at once, and a client that is still writing may hear of that only.
        if code.name in ("UNIMPLEMENTED", "INTERNAL") and path not in _METHODS:
            return [code.name]
        # grpc's own words for more than one request of a method that takes one, or none.
        if not streamed and len(requests) != 1 and code.name in ("INTERNAL", "UNIMPLEMENTED", "CANCELLED"):
            return ["not one request"]
        if code.name not in TYPED:
            raise FaultError(f"{path} ended with {code.name}: {details}; requests: {draw.shown(requests)}")
        if code.name != "OK" and not details:
            raise FaultError(f"{path} ended with {code.name} and no reason; requests: {draw.shown(requests)}")
        return [code.name]

    def _metadata(self, random: Random) -> Sequence[tuple[str, str]]:
        if draw.chance(random, 0.03):
            nonsense = "".join(chr(random.randrange(32, 127)) for _ in range(random.randrange(60))).strip()
            return random.choice(
                (
                    (),
                    (("authorization", nonsense),),
                    (("authorization", f"Bearer {nonsense}"),),
                    (("x-api-key", f"ost_{nonsense}"),),
                )
            )
        metadata = [("authorization", f"Bearer {self._key}")]
        if draw.chance(random, 0.05):
            metadata.append(("traceparent", "".join(random.choices("0123456789abcdef-", k=random.randrange(70)))))
        return metadata


def drawn(name: str, random: Random) -> tuple[str, list[bytes], bool]:
    """A method, what is sent to it, and whether it takes a stream."""
    path = random.choice(_OSCINE if name == OSCINE else _RIVAS)
    make, streamed = _METHODS[path]
    requests = list(make(random))
    if draw.chance(random, 0.01):
        requests.insert(random.randrange(len(requests) + 1), draw.noise(random, 4096))
    if draw.chance(random, 0.003):
        head, *sizes = _OVERSIZED
        requests.append(head + bytes(random.choice(sizes)))
    return path, requests, streamed


async def _sent(pause: float, requests: Sequence[bytes]) -> AsyncIterator[bytes]:
    for number, request in enumerate(requests):
        if pause < 0.2 and number:
            await asyncio.sleep(pause / 50)
        yield request


def _config(random: Random) -> pb.SynthesizeConfig:
    config = pb.SynthesizeConfig(voice=random.choice(("", "ada", "li")), seed=random.randrange(1 << 63))
    config.mode = random.choice(pb.Mode.values())
    config.audio.encoding = random.choice((pb.ENCODING_PCM16, pb.ENCODING_OPUS, pb.ENCODING_MULAW))
    if draw.chance(random, 0.25):
        protobuf.fill(random, config, 0.1)
        config.ClearField("reference")
    if draw.chance(random, 0.03):
        config.reference.audio = recording(random)
        config.reference.transcript = draw.plain(random, 60)
    return config


def _verb(random: Random, wild: float) -> bytes:
    """wild: the chance of one that is nothing, or at the wrong place."""
    if draw.chance(random, wild):
        match random.randrange(4):
            case 0:
                return pb.SynthesizeRequest(config=_config(random)).SerializeToString()
            case 1:
                return protobuf.wire(random, protobuf.filled(random, pb.SynthesizeRequest.DESCRIPTOR))
            case 2:
                return draw.noise(random, 200)
            case _:
                return pb.SynthesizeRequest(
                    text=draw.plain(random, random.choice((300, 300, 300, 80_000)))
                ).SerializeToString()
    match random.randrange(8):
        case 0:
            request = pb.SynthesizeRequest(flush=pb.Flush())
        case 1:
            request = pb.SynthesizeRequest(mark=pb.Mark(name=draw.plain(random, 210)))
        case 2:
            request = pb.SynthesizeRequest(played=pb.Played(samples=random.choice((0, 960, 2**64 - 1))))
        case 3 if draw.chance(random, 0.4):
            request = pb.SynthesizeRequest(cancel=pb.Cancel())
        case _:
            request = pb.SynthesizeRequest(text=draw.plain(random, 300))
    return protobuf.wire(random, request, wild)


def _synthesize(random: Random) -> Iterator[bytes]:
    wild = random.choice((0.0, 0.0, 0.1, 0.5))
    if not draw.chance(random, wild / 5):
        yield pb.SynthesizeRequest(config=_config(random)).SerializeToString()
    for _ in range(random.randrange(8)):
        yield _verb(random, wild)


def _synthesize_text(random: Random) -> Iterator[bytes]:
    request = pb.SynthesizeTextRequest(config=_config(random), text=draw.plain(random))
    yield protobuf.wire(random, request)


def _one(random: Random, kind: Any) -> bytes:
    return protobuf.wire(random, protobuf.filled(random, kind.DESCRIPTOR, 0.7))


def _create(random: Random) -> Iterator[bytes]:
    if draw.chance(random, 0.9):
        config = voice_pb.CreateVoiceConfig(name=f"v{random.randrange(50)}", transcript=draw.plain(random, 60))
        if draw.chance(random, 0.4):
            protobuf.fill(random, config, 0.3)
        yield protobuf.wire(random, voice_pb.CreateVoiceRequest(config=config))
    sound = recording(random)
    for piece in (sound[:1000], sound[1000:]) if draw.chance(random, 0.8) else ():
        yield voice_pb.CreateVoiceRequest(audio=piece).SerializeToString()
    if draw.chance(random, 0.2):
        yield _one(random, voice_pb.CreateVoiceRequest)


def _riva(random: Random) -> riva.SynthesizeSpeechRequest:
    request = riva.SynthesizeSpeechRequest(text=draw.plain(random), voice_name=random.choice(("", "ada", "li")))
    request.encoding = random.choice((riva.LINEAR_PCM, riva.FLAC, riva.OGGOPUS, riva.MULAW))
    if draw.chance(random, 0.3):
        request.text = f"<speak>{request.text}</speak>"
    if draw.chance(random, 0.1):
        request.custom_dictionary = random.choice(("a  b", "Hi  [HH][AY1],b  c", draw.plain(random, 60)))
    if draw.chance(random, 0.25):
        protobuf.fill(random, request, 0.12)
    return request


def _riva_online(random: Random) -> Iterator[bytes]:
    first = _riva(random)
    for _ in range(random.randrange(6)):
        yield protobuf.wire(random, first if draw.chance(random, 0.7) else _riva(random))


_METHODS: dict[str, tuple[Any, bool]] = {
    f"{_SPEECH}Synthesize": (_synthesize, True),
    f"{_SPEECH}SynthesizeText": (_synthesize_text, False),
    f"{_VOICE}CreateVoice": (_create, True),
    f"{_VOICE}ListVoices": (lambda random: [_one(random, voice_pb.ListVoicesRequest)], False),
    f"{_VOICE}GetVoice": (lambda random: [_one(random, voice_pb.GetVoiceRequest)], False),
    f"{_VOICE}DeleteVoice": (lambda random: [_one(random, voice_pb.DeleteVoiceRequest)], False),
    f"{_RIVA}Synthesize": (lambda random: [protobuf.wire(random, _riva(random))], False),
    f"{_RIVA}SynthesizeOnline": (_riva_online, True),
    f"{_RIVA}GetRivaSynthesisConfig": (lambda random: [_one(random, riva.RivaSynthesisConfigRequest)], False),
}
_OSCINE = [*[f"{_SPEECH}Synthesize"] * 6, *[path for path in _METHODS if not path.startswith(_RIVA)]]
_RIVAS = [path for path in _METHODS if path.startswith(_RIVA)]


@asynccontextmanager
async def opened(name: str, address: str, key: str) -> AsyncIterator[GrpcDoor]:
    options = (("grpc.enable_http_proxy", 0), ("grpc.max_send_message_length", -1))
    async with grpc.aio.insecure_channel(address, options) as channel:
        yield GrpcDoor(name, channel, key)
