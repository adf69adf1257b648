"""Words from the planner in one process and samples from another, told over the wire."""

from itertools import pairwise
from pathlib import Path

import grpc
import pytest

from oscine_engine.checkpoint.load import Checkpoint
from oscine_proto.oscine.v1 import speech_pb2 as pb
from tests.service.calls import FLUSH, Heard, config, converse, text
from tests.service.conftest import running as in_one_process
from tests.service.unit.conftest import running

pytestmark = pytest.mark.asyncio

FIRST, SECOND = "Good morning, dear friend.", "It rains on 3 May."
WORDS = ["Good", "morning", "dear", "friend", "It", "rains", "on", "3", "May"]


def asked(word_times: bool = True) -> list[pb.SynthesizeRequest]:
    opening = config(seed=3)
    opening.config.word_times = word_times
    return [opening, *text(FIRST[:9], FIRST[9:]), FLUSH, *text(SECOND)]


def words(heard: Heard) -> list[pb.Word]:
    return [word for response in heard.responses for word in response.words.words]


async def test_words_come_with_their_audio_and_before_the_end_of_their_sentence(
    model: Path, checkpoint: Checkpoint
) -> None:
    async with in_one_process(checkpoint) as service:
        near = await converse(service.speech, asked())
        without = await converse(service.speech, asked(word_times=False))
    async with running(model) as apart:
        far = await converse(apart.speech, asked())
        await apart.idle()
    for heard in (near, far):
        assert heard.code is grpc.StatusCode.OK and heard.responses[0].started.word_times
        assert [word.text for word in words(heard)] == WORDS
        assert all(a.end_sample <= b.start_sample for a, b in pairwise(words(heard)))
        flushed = heard.kinds.index("flushed")
        end, sent = heard.responses[flushed].flushed.end_sample, 0
        for number, response in enumerate(heard.responses):
            sent += response.audio.samples
            for word in response.words.words:
                assert word.start_sample <= word.end_sample <= sent
                assert (word.end_sample <= end) if number < flushed else (word.start_sample >= end)
        assert sum(len(each.words.words) for each in heard.responses[:flushed]) == 4
    assert [word.text for word in words(near)] == [word.text for word in words(far)]
    assert not words(without) and not without.responses[0].started.word_times
    assert without.samples == near.samples
