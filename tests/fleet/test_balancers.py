"""nginx and Envoy, as deploy/ configures them, in front of units: `make fleet`."""

import asyncio
import contextlib
import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

from bench.chaos import engines_of
from bench.fleet.__main__ import faults
from bench.fleet.balancers import BALANCERS, HOST, Balancer, NoBalancer, Place, free_port
from bench.fleet.scenario import fleet, stubs
from bench.fleet.unit import RECORDING, SECONDS
from bench.served import Served, served
from oscine_engine.checkpoint import synthetic
from oscine_proto.oscine.v1 import speech_pb2 as pb
from tests.fleet.environments import MISSING
from tests.service.calls import Heard, config, converse, text
from tests.service.waiting import until

pytestmark = pytest.mark.fleet

LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. "
SPEECH = {"model": "tts-1", "voice": "alloy", "input": "Hello."}
SLOW_S = 30.0
"""A call may wait for so long: how fast the machine is, is not tested here. `python -m bench.fleet` holds a second."""


@pytest.fixture(params=list(BALANCERS))
def kind(request: pytest.FixtureRequest) -> str:
    try:
        with BALANCERS[request.param]([Place("nobody", free_port(), free_port())]):
            return str(request.param)
    except NoBalancer as error:
        pytest.skip(f"{error} ({MISSING})")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write(tmp_path_factory.mktemp("model"))


def test_nobody_loses_a_call_but_those_whose_unit_is_killed(kind: str) -> None:
    result = asyncio.run(fleet(kind, 200, 8.0))
    assert faults(result, SLOW_S) == []
    first, second = result["shares"]
    assert min(first, second) >= 60 and result["calls"] > 600


class Units:
    """Two of a small model of random weights."""

    def __init__(self, stack: ExitStack, model: Path, *flags: str) -> None:
        self.places = [Place(name, free_port(), free_port()) for name in ("one", "two")]
        self._stack, self._flags, self._model = stack, ("--utilisation", "inf", *flags), model

    def start(self, place: Place) -> Served:
        ports = ("--port", str(place.grpc), "--http-port", str(place.http))
        return self._stack.enter_context(served(*ports, *self._flags, model=self._model, http=True))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def metric(place: Place, name: str) -> float:
    """The sum over its labels, as a unit itself tells it."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{HOST}:{place.http}/metrics", timeout=60) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))


async def open_calls(places: list[Place]) -> int:
    return int(sum([await asyncio.to_thread(metric, place, "oscine_calls_open") for place in places]))


async def hear(balancer: Balancer, *requests: pb.SynthesizeRequest, pause_s: float = 0.0) -> Heard:
    async with asyncio.timeout(120), stubs(balancer.grpc, 1) as (speech,):
        return await converse(speech, requests, pause_s)


def refused(balancer: Balancer, asked: dict[str, str]) -> tuple[int, str, str]:
    """Status, body and hint."""
    request = urllib.request.Request(
        f"http://{balancer.http}/v1/audio/speech", json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with pytest.raises(urllib.error.HTTPError) as caught:
        opener.open(request, timeout=120)
    with caught.value as error:
        return error.code, error.read().decode(), error.headers["Retry-After"] or ""


async def test_what_a_unit_says_arrives(kind: str, model: Path, stack: ExitStack) -> None:
    units = Units(stack, model)
    for place in units.places:
        units.start(place)
    balancer = stack.enter_context(BALANCERS[kind](units.places))
    heard = await hear(balancer, config(), *text("Hello ", "there."))
    assert (heard.code, heard.kinds[0], heard.kinds[-1]) == (grpc.StatusCode.OK, "started", "done")
    # A refusal, while the client goes on writing.
    unknown = await hear(balancer, config("nobody"), *text(*["More of it. "] * 50), pause_s=0.01)
    assert unknown.code is grpc.StatusCode.NOT_FOUND and "nobody" in unknown.details
    assert unknown.trailing["oscine-code"] == "unknown_voice"
    # A first message of two megabytes, which this service does not want.
    large = config()
    large.config.reference.audio = b"\0" * (2 << 20)
    unwanted = await hear(balancer, large)
    assert unwanted.code in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT), unwanted.details
    assert unwanted.trailing["oscine-code"]
    status, told, _ = await asyncio.to_thread(refused, balancer, SPEECH | {"voice": "nobody"})
    assert (status, json.loads(told)["error"]["code"]) == (404, "unknown_voice")


async def test_who_cancels_leaves_nothing(kind: str, model: Path, stack: ExitStack) -> None:
    units = Units(stack, model)
    for place in units.places:
        units.start(place)
    balancer = stack.enter_context(BALANCERS[kind](units.places))
    async with asyncio.timeout(120), stubs(balancer.grpc, 1) as (speech,):
        calls = [speech.Synthesize(iter([config(seed=seed), *text(LONG * 20)])) for seed in range(6)]
        for call in calls:
            assert (await call.read()).HasField("started")
        # One connection to the balancer, and yet three calls at each unit.
        each = [await open_calls([place]) for place in units.places]
        assert sum(each) == 6 and (kind == "envoy" or each == [3, 3])
        for call in calls:
            call.cancel()

        async def nobody() -> bool:
            return await open_calls(units.places) == 0

        await until(nobody)


async def test_a_unit_whose_engine_is_lost_gets_no_calls_until_it_is_back(
    kind: str, model: Path, stack: ExitStack
) -> None:
    units = Units(stack, model)
    first, _ = (units.start(place) for place in units.places)
    balancer = stack.enter_context(BALANCERS[kind](units.places))
    good = 0
    async with asyncio.timeout(120):
        while good < 5:
            for engine in engines_of(first.pid):  # as often as it comes back
                with contextlib.suppress(ProcessLookupError):
                    os.kill(engine, signal.SIGKILL)
            heard = await hear(balancer, config(), *text("Hello."))
            # nginx cannot see a refusal over gRPC: until its follower has seen the unit, a call may end with a hint.
            assert heard.code in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE), heard.details
            good = good + 1 if heard.code is grpc.StatusCode.OK else 0

    async def both() -> bool:
        before = [await asyncio.to_thread(metric, place, "oscine_calls_total") for place in units.places]
        async with asyncio.timeout(120), stubs(balancer.grpc, 1) as (speech,):
            await asyncio.gather(*(converse(speech, [config(), *text("Hello.")]) for _ in range(4)))
        after = [await asyncio.to_thread(metric, place, "oscine_calls_total") for place in units.places]
        return all(later > earlier for earlier, later in zip(before, after, strict=True))

    await until(both, patience_s=120)


async def test_where_no_unit_is_left_clients_are_told_when_to_come_back(kind: str) -> None:
    with BALANCERS[kind]([Place(name, free_port(), free_port()) for name in ("one", "two")]) as balancer:
        heard = await hear(balancer, config())
        assert heard.code is grpc.StatusCode.UNAVAILABLE
        status, told, hint = await asyncio.to_thread(refused, balancer, SPEECH)
        assert status == 503
        if kind == "nginx":
            assert heard.trailing["retry-after-ms"] == "1000" and heard.trailing["oscine-code"] == "unavailable"
            assert (json.loads(told)["error"]["code"], hint) == ("unavailable", "1")


async def test_one_connection_carries_hundreds_of_calls(kind: str) -> None:
    places = [Place(name, free_port(), free_port()) for name in ("one", "two")]

    async def waiting(leave: asyncio.Event) -> AsyncIterator[pb.SynthesizeRequest]:
        yield config()
        await leave.wait()

    with ExitStack() as stack:
        for number, place in enumerate(places):
            flags = ("--port", str(place.grpc), "--http-port", str(place.http))
            told = {RECORDING: str(number), SECONDS: "1"}
            stack.enter_context(served(*flags, module="bench.fleet.unit", http=True, environment=told))
        balancer = stack.enter_context(BALANCERS[kind](places))
        async with asyncio.timeout(120), stubs(balancer.grpc, 1) as (speech,):
            leave = asyncio.Event()
            calls = [speech.Synthesize(waiting(leave)) for _ in range(300)]
            for call in calls:
                assert (await call.read()).HasField("started")
            assert await open_calls(places) == 300
            assert min([await open_calls([place]) for place in places]) > 100
            for call in calls:
                call.cancel()
