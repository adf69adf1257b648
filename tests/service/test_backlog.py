"""What waits between a client and its session: how much of it, in whatever messages it came."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.marks import MOST
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_service.conversation import Flush, Mark, Text
from oscine_service.conversation.backlog import JOINED, MESSAGE, MOST_CHARACTERS, Backlog
from tests.service.calls import config, converse, text
from tests.service.conftest import running


@pytest.mark.parametrize("verb", [Mark("m"), Mark("m" * 200), Flush()])
async def test_whatever_waits_takes_room(verb: Mark | Flush) -> None:
    backlog = Backlog()
    while not backlog.full:
        await backlog.put(verb)
    # Of a mark some hundred bytes are kept, and its name.
    assert len(backlog) <= MOST_CHARACTERS // (MESSAGE + len(getattr(verb, "name", ""))) + 1
    await backlog.get()
    assert not backlog.full


async def test_text_in_many_messages_is_kept_as_that_in_one() -> None:
    backlog, pieces = Backlog(), [f"{number} " for number in range(50_000)]
    for piece in pieces:
        await backlog.put(Text(piece))
    assert not backlog.full and len(backlog) <= len("".join(pieces)) // JOINED * 2 + 1
    await backlog.put(Mark("between"))
    await backlog.put(Text("\ud83d"))
    await backlog.put(Text("\ude42"))
    await backlog.put(Flush())
    await backlog.put(None)
    taken = [verb async for verb in _taken(backlog)]
    assert [type(verb) for verb in taken[-3:]] == [Mark, Text, Flush] and taken[-2] == Text("\ud83d\ude42")
    assert "".join(verb.text for verb in taken[:-3] if isinstance(verb, Text)) == "".join(pieces)


async def test_a_full_backlog_lets_wait_until_there_is_room_or_no_use() -> None:
    for end in ("get", "close"):
        backlog = Backlog()
        await backlog.put(Text("x" * (MOST_CHARACTERS + 1)))
        waiting = asyncio.create_task(backlog.put(Flush()))
        await asyncio.sleep(0)
        assert not waiting.done()
        if end == "get":
            assert isinstance(await backlog.get(), Text)
        else:
            backlog.close()
        await waiting
        assert len(backlog) == (end == "get")


async def test_more_marks_in_a_sentence_than_may_stand_there_end_the_input(checkpoint: Checkpoint) -> None:
    marks = [pb.SynthesizeRequest(mark=pb.Mark(name=str(number))) for number in range(MOST + 1)]
    async with running(checkpoint) as service:
        heard = await converse(service.speech, [config(), *text("Hello th"), *marks, *text("ere.")])
    assert heard.code is grpc.StatusCode.INVALID_ARGUMENT and "stand in this sentence" in heard.details
    assert heard.samples > 0 and heard.kinds.count("marked") == MOST, "all before the refusal is said"


async def _taken(backlog: Backlog) -> AsyncIterator[Text | Flush | Mark]:
    while (verb := await backlog.get()) is not None:
        yield verb
