"""What the engine's side of the socket makes of what it is sent."""

from collections.abc import AsyncIterator

from google.protobuf.message import DecodeError

from oscine_engine.errors import InternalError
from oscine_engine.port import PortEvent, StreamOptions
from oscine_proto.oscine.unit.v1 import unit_pb2 as pb
from oscine_service.unit.host import _obey
from tests.engine.ports import HandPort


async def test_bytes_that_are_no_request_end_their_stream() -> None:
    told: list[PortEvent] = []
    port = HandPort()
    stream = await port.open(StreamOptions("", 1), told.append)

    async def requests() -> AsyncIterator[pb.StreamRequest]:
        yield pb.StreamRequest(speak=pb.Speak(mark=True))
        raise DecodeError("cut short")

    await _obey(requests(), stream)
    assert isinstance(told[-1], InternalError) and "do not match: cut short" in told[-1].message
    assert port.admitted == 0
