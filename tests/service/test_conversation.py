"""How events become replies, and in which thread."""

import asyncio
import itertools
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import grpc
import numpy as np
import pytest

from oscine_codecs.errors import CodecError
from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.events import Audio, Done, Flushed, SessionRequest, Stats
from oscine_engine.front import Front, VoiceInfo, read_front_end
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_service.audio import Encoding, Format
from oscine_service.audio.writers import PLAIN
from oscine_service.conversation import Config, Conversation, replies
from oscine_service.conversation.encoders import Encoders
from oscine_service.conversation.speech import AHEAD_S, FIRST, FRAME, PIECE, Speech
from oscine_service.limits import Limits
from tests.codecs.decoders import FFMPEG
from tests.engine.ports import HandClock, HandPort
from tests.service.calls import FLUSH, config, converse, text
from tests.service.conftest import running

T = TypeVar("T")


class Counting(Encoders):
    """Keeps when what it was asked for was due."""

    def __init__(self) -> None:
        super().__init__(1)
        self.dues: list[float] = []

    async def run(self, work: Callable[[], T], due: float) -> T:
        self.dues.append(round(due, 3))
        return await super().run(work, due)


@pytest.mark.parametrize("encoding", [pb.ENCODING_PCM16, pb.ENCODING_OPUS])
async def test_only_what_takes_long_goes_to_another_thread(
    checkpoint: Checkpoint, encoding: pb.Encoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = Counting()
    monkeypatch.setattr("oscine_service.conversation.talk.encoders", lambda: counting)
    async with running(checkpoint) as service:
        heard = await converse(service.speech, [config(encoding=encoding), *text("Hello there."), FLUSH])
        assert heard.code is grpc.StatusCode.OK and "flushed" in heard.kinds and heard.samples > 0
        # Started, flushed and done take none of their own: of Opus, what they still encode is a packet or two.
        ran = len(counting.dues)
        assert ran == 0 if encoding == pb.ENCODING_PCM16 else 0 < ran <= len(heard.audio)


async def test_what_is_due_when_is_told_by_what_a_listener_plays(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting, clock, port = Counting(), HandClock(), HandPort()
    monkeypatch.setattr("oscine_service.conversation.talk.encoders", lambda: counting)
    front = Front(port, read_front_end(model), {"anna": VoiceInfo("en", "")}, 24000)
    async with Conversation.open(front, Config(SessionRequest(seed=1), Format()), Limits()) as talk:
        monkeypatch.setattr(talk, "_now", clock.time)
        replies = aiter(talk)
        await anext(replies)
        # The second of them comes just in time, the third early, the fourth long after that has been played.
        for now, pieces in ((100.0, 4), (100.97, 2), (101.5, 1), (110.0, 2)):
            clock.now = now
            port.streams[0].sound(24000)
            for _ in range(pieces):
                await anext(replies)
    assert counting.dues == [100.06, 100.26, 101.0, 101.2, 102.0, 110.0, 110.2]


class Works:
    """Works that note when they were done, behind one that holds the only thread until `release` is set."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.release = threading.Event()

    def hold(self) -> None:
        assert self.release.wait(10)

    def note(self, name: str) -> str:
        self.done.append(name)
        return name


async def test_what_is_due_first_is_encoded_first() -> None:
    encoders, works = Encoders(1), Works()
    dues = {"later": 3.0, "soon": 1.0, "left": 0.0, "next": 2.0, "as soon": 1.0}
    holding = asyncio.create_task(encoders.run(works.hold, 9.0))
    await asyncio.sleep(0)
    tasks = {name: asyncio.create_task(encoders.run(partial(works.note, name), due)) for name, due in dues.items()}
    await asyncio.sleep(0)
    # Its call has ended meanwhile.
    tasks.pop("left").cancel()
    await asyncio.sleep(0)
    works.release.set()
    assert await asyncio.gather(*tasks.values()) == [*tasks]
    assert works.done == ["soon", "as soon", "next", "later"]
    await holding


async def test_what_an_encoder_raises_reaches_its_call_alone() -> None:
    encoders = Encoders(1)

    def fail() -> None:
        raise CodecError("it cannot be encoded")

    failing, fine = encoders.run(fail, 0.0), encoders.run(lambda: 1, 1.0)
    told = await asyncio.gather(failing, fine, return_exceptions=True)
    assert isinstance(told[0], CodecError) and told[1] == 1


@pytest.mark.parametrize("encoding", [each for each in Encoding if FFMPEG or each is not Encoding.AAC])
def test_positions_in_what_was_sent_are_told_apart_from_those_in_what_was_made(encoding: Encoding) -> None:
    """A mark behind every flush: where it was sent is where it was made, and in between nothing runs backwards."""
    speech = Speech(Format(encoding=encoding), Limits())
    made, marks, sent = 0, [(0, 0)], 0
    for seq, size in enumerate([1000, 480, 0, 7, 4800, 1]):
        blocks = speech.of(Audio(seq, made, np.zeros(size, np.float32))) if size else []
        made += size
        blocks += speech.of(Flushed(made))
        sent += sum(reply.samples for reply in blocks if isinstance(reply, replies.Audio))
        assert blocks[-1] == replies.Flushed(sent)
        marks.append((made, sent))
    for made, sent in marks:
        assert speech.made(sent) == made
    walk = [speech.made(sample) for sample in range(sent + 100)]
    assert all(0 <= later - earlier <= 1 for earlier, later in itertools.pairwise(walk))
    assert (marks[-1][0] == marks[-1][1]) == (encoding in PLAIN)
    [*_, last] = speech.of(Done(Stats(audio_s=made / 24000, segments=1, speech_tokens=1, first_packet_s=1, busy_s=1)))
    assert last.audio_s == sent / 24000


@pytest.mark.parametrize(
    ("start", "sizes"), [(0, [FRAME, FIRST - FRAME, PIECE, PIECE - FIRST + 1]), (100, [PIECE, PIECE + 1])]
)
def test_what_is_slow_to_encode_is_cut_into_pieces(start: int, sizes: list[int]) -> None:
    samples = np.arange(2 * PIECE + 1, dtype=np.float32)
    event = Audio(3, start, samples)
    opus, pcm = (Speech(Format(encoding=each), Limits()) for each in (Encoding.OPUS, Encoding.PCM16))
    pieces = [piece for piece in opus.pieces(event) if isinstance(piece, Audio)]
    assert [piece.samples.size for piece in pieces] == sizes
    assert [piece.start_sample for piece in pieces] == [start + sum(sizes[:number]) for number in range(len(sizes))]
    assert np.array_equal(np.concatenate([piece.samples for piece in pieces]), samples)
    assert [opus.takes_long(piece) for piece in pieces] == [size > FIRST for size in sizes]
    assert list(opus.pieces(event, AHEAD_S)) == [event]
    assert list(pcm.pieces(event)) == [event] and len(pcm.of(event)) == 1
    assert list(opus.pieces(Flushed(7))) == [Flushed(7)]
