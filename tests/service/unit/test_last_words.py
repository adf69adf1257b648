"""The last event of a stream, over the socket of a unit."""

from pathlib import Path

import grpc

from oscine_proto.oscine.v1 import speech_pb2 as pb
from tests.service.calls import FLUSH, converse, text
from tests.service.unit.conftest import running


async def test_a_call_is_not_lost_at_its_end(model: Path) -> None:
    """Words are listened to between the audio and its end, so that the service still tells what was taken when the
    engine has nothing left to say."""
    timed = pb.SynthesizeConfig(audio=pb.AudioFormat(encoding=pb.ENCODING_PCM16), seed=1, word_times=True)
    async with running(model) as service:
        for _ in range(3):
            said = [request for word in ("Good ", "morning.") for request in (*text(word), FLUSH)]
            heard = await converse(service.speech, [pb.SynthesizeRequest(config=timed), *said])
            assert heard.code is grpc.StatusCode.OK, heard.details
            assert heard.kinds[-1] == "done" and heard.kinds.count("words") >= 2
        await service.idle()
