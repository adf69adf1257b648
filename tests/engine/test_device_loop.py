"""The loop's thread: opening, closing, and what it does when it cannot go on."""

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future

import pytest

from oscine_engine.checkpoint import synthetic
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.errors import Cancelled, InternalError, OscineError, Overloaded, Unavailable
from oscine_engine.events import Audio, Done
from oscine_engine.planner import Begin, End, Ids
from oscine_engine.port import PortEvent, StreamOptions
from oscine_engine.runtime.core import Core
from oscine_engine.runtime.device import Device, DeviceLimits

HELLO = (Begin(whole=True), Ids((100, 101, 102, 103, 104, 105, 106, 107)), End())


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return load(synthetic.write(tmp_path_factory.mktemp("model")))


@pytest.fixture
async def device(checkpoint: Checkpoint) -> AsyncIterator[Device]:
    async with Device(checkpoint, DeviceLimits(max_streams=2, utilisation=float("inf"))) as device:
        yield device


class Heard:
    """Collects a stream's events in the test's event loop."""

    def __init__(self) -> None:
        self.events: list[PortEvent] = []
        self.ended = asyncio.Event()
        self._home = asyncio.get_running_loop()

    def __call__(self, event: PortEvent) -> None:
        self._home.call_soon_threadsafe(self._take, event)

    def _take(self, event: PortEvent) -> None:
        self.events.append(event)
        if isinstance(event, Done | OscineError):
            self.ended.set()

    async def end(self) -> PortEvent:
        async with asyncio.timeout(30):
            await self.ended.wait()
        return self.events[-1]


def options(seed: int = 1) -> StreamOptions:
    return StreamOptions("synthetic", seed)


async def test_a_stream_speaks_and_ends(device: Device) -> None:
    heard = Heard()
    stream = await device.loop.open(options(), heard)
    assert device.load_now.streams == 1
    stream.speak(HELLO, end=True)
    assert isinstance(await heard.end(), Done)
    assert any(isinstance(event, Audio) for event in heard.events)
    stream.speak(HELLO)
    stream.stop(Cancelled("too late"))
    assert device.load_now == (0, 0)


async def test_one_more_than_the_limit_is_refused_with_a_hint(device: Device) -> None:
    streams = [await device.loop.open(options(), Heard()) for _ in range(2)]
    with pytest.raises(Overloaded) as refused:
        await device.loop.open(options(), Heard())
    assert refused.value.retry_after_s > 0
    for stream in streams:
        stream.stop(Cancelled("enough"))
    await device.loop.open(options(), Heard())


async def test_whoever_goes_while_it_is_let_in_leaves_nothing_behind(device: Device) -> None:
    blocked, entered = threading.Event(), threading.Event()

    def block() -> None:
        entered.set()
        blocked.wait()

    device.loop.ping(block)
    await asyncio.to_thread(entered.wait)
    heard = Heard()
    opening = asyncio.create_task(device.loop.open(options(), heard))
    await asyncio.sleep(0.01)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    blocked.set()
    await answered(device)
    assert device.load_now == (0, 0)


async def answered(device: Device) -> None:
    """Wait until the loop has obeyed everything it was told."""
    answer: Future[None] = Future()
    device.loop.ping(lambda: answer.set_result(None))
    await asyncio.wrap_future(answer)


async def test_a_loop_that_does_not_run_opens_nothing(checkpoint: Checkpoint) -> None:
    device = Device(checkpoint, DeviceLimits(max_streams=2))
    assert not device.loop.serving
    with pytest.raises(Cancelled, match="not running"):
        await device.loop.open(options(), Heard())
    heard = Heard()
    async with device:
        assert device.loop.serving
        stream = await device.loop.open(options(), heard)
        stream.speak(HELLO)
    assert isinstance(await heard.end(), Cancelled)
    assert not device.loop.serving and not device.loop.failed
    assert "oscine-device" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(Cancelled, match="not running"):
        await device.loop.open(options(), Heard())
    assert device.load_now == (0, 0)


async def test_a_model_that_cannot_be_warmed_up_fails_the_start(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(checkpoint, DeviceLimits(max_streams=2))

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(device.vocoder, "step", broken)
    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(device.start)
    assert not device.loop.serving


async def test_a_loop_that_cannot_go_on_tells_everybody(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    stream = await device.loop.open(options(), heard)

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Core, "_look", broken)
    stream.speak(HELLO)
    error = await heard.end()
    assert isinstance(error, InternalError) and "restart" in error.message
    assert device.failed and not device.loop.serving
    with pytest.raises(Unavailable, match="restart"):
        await device.loop.open(options(), Heard())
    assert device.load_now == (0, 0)


async def test_a_listener_that_cannot_be_told_ends_its_own_stream_only(device: Device) -> None:
    def deaf(_: PortEvent) -> None:
        raise ZeroDivisionError

    beside, heard = await device.loop.open(options(), deaf), Heard()
    stream = await device.loop.open(options(), heard)
    beside.speak(HELLO)
    stream.speak(HELLO, end=True)
    assert isinstance(await heard.end(), Done)
    assert device.load_now == (0, 0)
