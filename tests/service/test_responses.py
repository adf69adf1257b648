"""How events become messages, and in which thread."""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.events import Audio, Flushed
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_service.audio import Encoding, Format
from oscine_service.grpc.responses import PIECE, Responses
from tests.service.calls import FLUSH, config, converse, text
from tests.service.conftest import running


class Counting(ThreadPoolExecutor):
    submitted = 0

    def submit(self, *args: Any, **kwargs: Any) -> "Future[Any]":
        self.submitted += 1
        return super().submit(*args, **kwargs)


@pytest.mark.parametrize("encoding", [pb.ENCODING_PCM16, pb.ENCODING_OPUS])
async def test_only_what_takes_long_goes_to_another_thread(checkpoint: Checkpoint, encoding: pb.Encoding) -> None:
    async with running(checkpoint) as service:
        pool = Counting(1)
        asyncio.get_running_loop().set_default_executor(pool)
        heard = await converse(service.speech, [config(encoding=encoding), *text("Hello there."), FLUSH])
        assert heard.code is grpc.StatusCode.OK and "flushed" in heard.kinds and heard.samples > 0
        # Started, flushed and done take none of their own: of Opus, what they still encode is a packet or two.
        assert pool.submitted <= (len(heard.audio) if encoding == pb.ENCODING_OPUS else 0)


def test_what_is_slow_to_encode_is_cut_behind_a_short_first_piece() -> None:
    samples = np.arange(2 * PIECE + 1, dtype=np.float32)
    event = Audio(3, 100, samples)
    opus, pcm = (Responses(Format(encoding=each)) for each in (Encoding.OPUS, Encoding.PCM16))
    first, rest = (piece for piece in opus.pieces(event) if isinstance(piece, Audio))
    assert (first.start_sample, first.samples.size) == (100, PIECE)
    assert rest.start_sample == 100 + PIECE
    assert np.array_equal(np.concatenate([first.samples, rest.samples]), samples)
    assert list(pcm.pieces(event)) == [event] and len(pcm.of(event)) == 1
    assert list(opus.pieces(Flushed(7))) == [Flushed(7)]
