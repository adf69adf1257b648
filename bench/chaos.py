"""Kill the engine process in the middle of running calls, and see what the service makes of it.

    python -m bench.chaos [--model DIR] [--streams N] [--json]

Starts `oscine serve` in a process of its own, lets N calls speak, kills the engine process behind it with SIGKILL and
watches. Keys of the printed object:

* `benchmark`, `model` ("embedded" or the directory's name), `host` (as in first_packet);
* `streams`: calls that were speaking when the engine was killed; `refused`: those that admission had turned away;
* `errors`: how the speaking ones ended, by status; `hinted`: how many were told when to try again, `retry_after_ms`: in
  how many milliseconds at most;
* `not_serving_s`, `serving_s`: from the kill until health said that no calls are taken, and that they are again;
* `speaking_s`: from the kill until a new call to the same service process sounded.

The exit status is 1 unless every speaking call ended with UNAVAILABLE and a hint.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bench.client import connect
from bench.figures import host
from bench.served import ServerFailed, served
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub

if TYPE_CHECKING:
    from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceAsyncStub

TEXT = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 40
POLL_S = 0.01
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Report:
    """As the top of this file has it."""

    streams: int
    refused: int
    errors: dict[str, int]
    hinted: int
    retry_after_ms: int | None
    not_serving_s: float
    serving_s: float
    speaking_s: float

    @property
    def good(self) -> bool:
        return self.errors == {"UNAVAILABLE": self.streams} and self.hinted == self.streams > 0


@contextmanager
def service(model: Path | None, streams: int) -> Iterator[tuple[int, str]]:
    """`oscine serve` on a free port: its process id and address. Raises ServerFailed, also if it ends by itself."""
    # As many as asked for, whether or not this machine keeps up with them: they are here to be cut off.
    with served("--max-streams", str(streams), "--utilisation", "inf", model=model) as running:
        yield running.pid, running.grpc
        if running.process.poll() is not None:
            raise ServerFailed(f"the service ended with status {running.process.returncode}")


def engines_of(service: int) -> list[int]:
    """The engine processes of a service process."""
    tasks = Path(f"/proc/{service}/task").iterdir()
    children = [child for task in tasks for child in (task / "children").read_text().split()]
    return sorted(int(child) for child in children if b"oscine_service.unit" in _command(child))


def _command(process: str) -> bytes:
    """Nothing of one that has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def engine_of(service: int) -> int:
    """The engine process of a service process."""
    for engine in engines_of(service):
        return engine
    raise ServerFailed("the service has no engine process")


@dataclass(frozen=True, slots=True)
class End:
    """How a call ended: whether it had sounded, its status, and the hint when to try again."""

    spoke: bool
    status: str
    retry_after_ms: int | None


async def measure(service_pid: int, address: str, streams: int) -> Report:
    async with connect(address) as channel, asyncio.timeout(PATIENCE_S):
        stub = SpeechServiceStub(channel)
        health = health_pb2_grpc.HealthStub(channel)
        decided = [asyncio.Event() for _ in range(streams)]
        calls = [asyncio.create_task(_speak(stub, each)) for each in decided]
        await asyncio.gather(*(each.wait() for each in decided))
        os.kill(engine_of(service_pid), signal.SIGKILL)
        killed = time.monotonic()
        not_serving_s = await _until(health, health_pb2.HealthCheckResponse.NOT_SERVING) - killed
        ends = await asyncio.gather(*calls)
        serving_s = await _until(health, health_pb2.HealthCheckResponse.SERVING) - killed
        again = asyncio.Event()
        new = asyncio.create_task(_speak(stub, again))
        await again.wait()
        speaking_s = time.monotonic() - killed
        new.cancel()
        spoken = [end for end in ends if end.spoke]
        hints = [end.retry_after_ms for end in spoken if end.retry_after_ms is not None]
        return Report(
            streams=len(spoken),
            refused=len(ends) - len(spoken),
            errors=dict(Counter(end.status for end in spoken)),
            hinted=len(hints),
            retry_after_ms=max(hints, default=None),
            not_serving_s=round(not_serving_s, 3),
            serving_s=round(serving_s, 3),
            speaking_s=round(speaking_s, 3),
        )


async def _until(health: health_pb2_grpc.HealthStub, status: health_pb2.HealthCheckResponse.ServingStatus) -> float:
    while (await health.Check(health_pb2.HealthCheckRequest())).status != status:
        await asyncio.sleep(POLL_S)
    return time.monotonic()


async def _speak(stub: SpeechServiceAsyncStub, decided: asyncio.Event) -> End:
    """Speak for long; `decided` is set once the call has sounded or has ended without."""
    spoke = False

    async def requests() -> AsyncIterator[pb.SynthesizeRequest]:
        yield pb.SynthesizeRequest(config=pb.SynthesizeConfig())
        yield pb.SynthesizeRequest(text=TEXT)

    try:
        async for response in stub.Synthesize(requests()):
            if response.HasField("audio"):
                spoke = True
                decided.set()
    except grpc.aio.AioRpcError as error:
        hint = dict(error.trailing_metadata() or ()).get("retry-after-ms")
        return End(spoke, error.code().name, None if hint is None else int(hint))
    finally:
        decided.set()
    return End(spoke, "OK", None)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, metavar="DIR", help="model directory (default: the embedded voice)")
    parser.add_argument("--streams", type=int, default=8, help="calls at once (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one object")
    options = parser.parse_args()
    with service(options.model, options.streams) as (pid, address):
        report = asyncio.run(measure(pid, address, options.streams))
    if options.json:
        about = {"benchmark": "chaos", "model": options.model.name if options.model else "embedded", "host": host()}
        print(json.dumps(about | asdict(report)))
        return 0 if report.good else 1
    ends = ", ".join(f"{count} with {name}" for name, count in report.errors.items())
    print(f"{report.streams} calls spoke ({report.refused} had been refused) when the engine was killed; ended: {ends}")
    print(f"{report.hinted} of them were told when to try again, in {report.retry_after_ms} ms at most")
    print(f"not serving after {report.not_serving_s:.2f} s, serving again after {report.serving_s:.2f} s")
    print(f"a new call to the same service sounded {report.speaking_s:.2f} s after the kill")
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
