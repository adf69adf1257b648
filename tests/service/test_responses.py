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
from oscine_service.grpc.responses import PIECE, in_pieces
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


def test_pieces_are_all_of_it_in_order() -> None:
    samples = np.arange(2 * PIECE + 1, dtype=np.float32)
    pieces = [piece for piece in in_pieces(Audio(3, 100, samples)) if isinstance(piece, Audio)]
    assert [piece.samples.size for piece in pieces] == [PIECE, PIECE, 1]
    assert [piece.start_sample for piece in pieces] == [100, 100 + PIECE, 100 + 2 * PIECE]
    assert np.array_equal(np.concatenate([piece.samples for piece in pieces]), samples)
    assert list(in_pieces(Flushed(7))) == [Flushed(7)]
