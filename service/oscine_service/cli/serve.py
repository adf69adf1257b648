"""`oscine serve`: an engine behind a gRPC server until it is told to stop."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from oscine_codecs import opus
from oscine_codecs.errors import CodecMissing
from oscine_engine.front import Front
from oscine_engine.session import SessionLimits
from oscine_engine.settings import EngineSettings
from oscine_service.cli.progress import waiting
from oscine_service.grpc.server import check_address, serving
from oscine_service.limits import Limits
from oscine_service.unit.front import unit
from oscine_service.unit.times import Times

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Serve:
    """grace_s: how long running calls may take to end after the first signal. in_process: the engine has no process of
    its own; a fault in it then ends the service. hang_s: see `Times.hang`."""

    host: str
    port: int
    grace_s: float
    in_process: bool
    hang_s: float


async def serve(settings: EngineSettings, how: Serve, limits: Limits) -> None:
    """Serve until SIGINT or SIGTERM; running calls then get time to end, unless the signal comes again.

    Raises what keeps the engine from starting: a service that cannot speak ends at once, and whoever started it may try
    again. An engine that is lost later is started again for as long as this runs.
    """
    try:
        opus.require()
    except CodecMissing as error:
        print(f"oscine: only PCM16 is served: {error}", file=sys.stderr, flush=True)
    check_address(how.host, how.port)
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    task = asyncio.current_task()
    assert task is not None
    for name in SIGNALS:
        loop.add_signal_handler(name, task.cancel)
    patience = SessionLimits(idle_s=limits.idle_timeout_s, stall_s=limits.write_timeout_s)
    async with (
        _engine(replace(settings, session=patience), how) as (front, close),
        serving(front, how.host, how.port, limits=limits, grace_s=how.grace_s) as running,
    ):
        for name in SIGNALS:
            loop.add_signal_handler(name, stop.set)
        print(f"serving on {running.address}, voices: {', '.join(front.voices)}", flush=True)
        await stop.wait()
        for name in SIGNALS:
            loop.add_signal_handler(name, task.cancel)
        close()
        print("stopping: running calls may end; signal again to cut them off", flush=True)


@asynccontextmanager
async def _engine(settings: EngineSettings, how: Serve) -> AsyncIterator[tuple[Front, Callable[[], None]]]:
    """A front, and what to call when it gets no more calls."""
    if how.in_process:
        # Loads networks, which a service with an engine process never does.
        from oscine_engine.engine import Engine

        async with Engine.load(settings) as engine:
            yield engine, lambda: None
    else:
        async with AsyncExitStack() as stack:
            async with waiting("starting the engine"):
                started = await stack.enter_async_context(unit(settings, Times(hang=how.hang_s)))
            yield started.front, started.supervisor.close
