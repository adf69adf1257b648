"""SpeechService.Synthesize over a real socket: clients that report playback, interrupt, leave or vanish."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import grpc
import pytest

from oscine_engine.checkpoint.load import Checkpoint
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.limits import Limits
from tests.service.calls import CANCEL, FLUSH, config, converse, played, text
from tests.service.conftest import Service, running
from tests.service.waiting import until
from tests.service.wires import Wire

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 8


async def interrupt(service: Service, reports: list[int], say: str = LONG) -> tuple[int, pb.Cancelled]:
    """Cancel after the first audio, having reported so many samples as played; what was sent, and the answer."""
    sounded = asyncio.Event()

    async def sending() -> AsyncIterator[pb.SynthesizeRequest]:
        for request in (config(), *text(say)):
            yield request
        await sounded.wait()
        for report in reports:
            yield played(report)
        yield CANCEL

    sent = 0
    async for response in service.speech.Synthesize(sending()):
        if response.HasField("audio"):
            sent += response.audio.samples
            sounded.set()
    assert response.HasField("cancelled")
    return sent, response.cancelled


async def test_a_listener_who_interrupts_is_told_what_it_had(service: Service) -> None:
    sent, answer = await interrupt(service, [])
    assert answer.heard_samples == sent > 0
    await service.idle()


MANY = "Yes it is. " * 1500
"""More sentences than a session lets wait."""


async def test_an_interruption_is_read_behind_more_text_than_a_session_takes(service: Service) -> None:
    async with asyncio.timeout(30):
        sent, answer = await interrupt(service, [], MANY)
    assert answer.heard_samples == sent
    await service.idle()


async def test_reports_are_read_behind_more_text_than_a_session_takes(service: Service) -> None:
    """They let the engine run on, beyond what it makes ready unheard: without them the call would stand still."""
    reports: asyncio.Queue[pb.SynthesizeRequest | None] = asyncio.Queue()

    async def sending() -> AsyncIterator[pb.SynthesizeRequest]:
        for request in (config(), played(0), *text(MANY)):
            yield request
        while (report := await reports.get()) is not None:
            yield report
        yield CANCEL

    sent = 0
    async with asyncio.timeout(60):
        async for response in service.speech.Synthesize(sending()):
            sent += response.audio.samples
            reports.put_nowait(played(sent) if sent < 25 * 24_000 else None)
    assert response.HasField("cancelled")
    await service.idle()


@pytest.mark.parametrize(
    ("reports", "heard"),
    [([100], 100), ([100, 900], 900), ([900, 100], 900), ([0], 0)],
    ids=["one", "two", "late", "nothing"],
)
async def test_what_was_played_counts_where_it_was_reported(service: Service, reports: list[int], heard: int) -> None:
    _, answer = await interrupt(service, reports)
    assert answer.heard_samples == heard


async def test_nobody_has_heard_more_than_was_sent(service: Service) -> None:
    sent, answer = await interrupt(service, [2**63])
    assert 0 < answer.heard_samples <= sent


async def test_an_interruption_before_any_text_is_answered_too(service: Service) -> None:
    heard = await converse(service.speech, [config(), CANCEL, *text("Not this.")])
    assert heard.code is grpc.StatusCode.OK
    assert heard.kinds == ["started", "cancelled"] or heard.kinds == ["cancelled"]
    assert heard.responses[-1].cancelled.heard_samples == 0


async def test_an_interruption_is_answered_to_a_client_that_goes_on_writing(service: Service) -> None:
    async with asyncio.timeout(60):
        for _ in range(100):
            heard = await converse(
                service.speech, [config(), *text("Hello."), CANCEL, *text(*["Not this."] * 20), CANCEL]
            )
            assert heard.code is grpc.StatusCode.OK
            assert heard.kinds[-1] == "cancelled"


async def test_what_was_heard_is_counted_as_it_was_sent(service: Service) -> None:
    """With Opus, whose flushes add silence."""
    flushed, sent = asyncio.Queue[int](), 0

    async def sending() -> AsyncIterator[pb.SynthesizeRequest]:
        yield config(encoding=pb.ENCODING_OPUS)
        for _ in range(5):
            yield text("Yes it is.")[0]
            yield FLUSH
            end = await flushed.get()
            yield played(end)
        yield CANCEL

    async for response in service.speech.Synthesize(sending()):
        sent += response.audio.samples
        if response.HasField("flushed"):
            flushed.put_nowait(response.flushed.end_sample)
    assert response.HasField("cancelled")
    assert response.cancelled.heard_samples == sent > 0


async def test_reports_do_not_change_what_is_said(service: Service) -> None:
    plain = await converse(service.speech, [config(), *text("Good morning. ", "It rains.")])
    told = await converse(
        service.speech, [config(), played(0), *text("Good morning. "), played(5), *text("It rains."), played(2**40)]
    )
    assert told.code is grpc.StatusCode.OK
    assert told.samples == plain.samples
    done = told.responses[-1].done
    assert done.underrun_seconds >= 0 and done.starved_seconds >= 0


async def test_text_that_may_be_complete_is_spoken_when_it_is_quiet(service: Service) -> None:
    def request(quiet_ms: int) -> pb.SynthesizeRequest:
        return pb.SynthesizeRequest(
            config=pb.SynthesizeConfig(
                audio=pb.AudioFormat(encoding=pb.ENCODING_PCM16), mode=pb.MODE_SENTENCE, seed=1, quiet_ms=quiet_ms
            )
        )

    sounded, ended = asyncio.Event(), asyncio.Event()

    async def sending(quiet_ms: int) -> AsyncIterator[pb.SynthesizeRequest]:
        yield request(quiet_ms)
        # Whether "U.S." ends this sentence only what follows would tell.
        yield pb.SynthesizeRequest(text="We left the U.S.")
        await (sounded if quiet_ms else ended).wait()

    async with asyncio.timeout(60):
        async for response in service.speech.Synthesize(sending(20)):
            if response.HasField("audio"):
                sounded.set()
        assert response.HasField("done")
        never = service.speech.Synthesize(sending(0))
        assert (await never.read()).HasField("started")
        reading = asyncio.ensure_future(never.read())
        await asyncio.wait([reading], timeout=1)
        assert not reading.done()
        ended.set()
        assert (await reading).HasField("audio")
        never.cancel()
    await service.idle()


async def test_forty_listeners_who_leave_after_the_first_audio(service: Service) -> None:
    tasks = len(asyncio.all_tasks())

    async def leave() -> None:
        call = service.speech.Synthesize(iter([config(), *text(LONG)]))
        async for response in call:
            if response.HasField("audio"):
                call.cancel()
                break

    for _ in range(10):
        await asyncio.gather(*(leave() for _ in range(4)))
        await service.idle()

    async def settled() -> bool:
        return len(asyncio.all_tasks()) <= tasks + 2

    await until(settled)


@pytest.mark.parametrize("quiet", [False, True], ids=["speaking", "quiet"])
async def test_a_client_that_vanishes_without_a_word_is_missed(checkpoint: Checkpoint, quiet: bool) -> None:
    patience = Limits(ping_after_s=0.5, ping_timeout_s=1.0)
    async with running(checkpoint, patience) as service, asyncio.timeout(60):
        host, _, port = service.address.rpartition(":")
        wire = Wire(host, int(port))
        async with await asyncio.start_server(wire.carry, "127.0.0.1", 0) as way:
            address = "{}:{}".format(*way.sockets[0].getsockname())
            channel = grpc.aio.insecure_channel(address, (("grpc.enable_http_proxy", 0),))
            held = asyncio.Event()

            async def sending() -> AsyncIterator[pb.SynthesizeRequest]:
                yield config()
                if not quiet:
                    yield text(LONG * 12)[0]
                await held.wait()

            call = SpeechServiceStub(channel).Synthesize(sending())
            assert (await call.read()).HasField("started")
            if quiet:
                await asyncio.sleep(4)  # several times asked and answered, with nothing else said in between
            assert service.engine.load_now.streams == 1
            wire.cut()
            await service.idle()
            wire.mend()
            held.set()
            with contextlib.suppress(grpc.aio.AioRpcError):
                while await call.read() is not grpc.aio.EOF:
                    pass
            assert await call.code() is grpc.StatusCode.UNAVAILABLE
            await channel.close()


async def test_a_slow_reader_is_waited_for_and_disturbs_nobody(service: Service) -> None:
    slow = service.speech.Synthesize(iter([config(), *text(LONG)]))
    assert (await slow.read()).HasField("started")

    async def steady() -> bool:
        before = service.engine.load_now
        await asyncio.sleep(1)
        return service.engine.load_now == before

    await until(steady)
    heard = await converse(service.speech, [config(), *text("Good morning. It rains.")])
    assert heard.code is grpc.StatusCode.OK and heard.samples > 0
    samples = 0
    while (response := await slow.read()).HasField("audio"):
        assert response.audio.start_sample == samples
        samples += response.audio.samples
    assert response.HasField("done") and response.done.audio_seconds == samples / 24000
