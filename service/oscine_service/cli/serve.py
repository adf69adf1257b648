"""`oscine serve`: one engine behind a gRPC server until it is told to stop."""

import asyncio
import signal
import sys

from oscine_codecs import opus
from oscine_codecs.errors import CodecMissing
from oscine_engine.engine import Engine, EngineSettings
from oscine_service.grpc.server import serving
from oscine_service.limits import Limits

SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve(settings: EngineSettings, host: str, port: int, limits: Limits) -> None:
    """Serve until SIGINT or SIGTERM; running calls then get time to end, unless the signal comes again."""
    try:
        opus.require()
    except CodecMissing as error:
        print(f"oscine: only PCM16 is served: {error}", file=sys.stderr, flush=True)
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for name in SIGNALS:
        loop.add_signal_handler(name, stop.set)
    async with Engine.load(settings) as engine, serving(engine, host, port, limits=limits) as running:
        print(f"serving on {running.address}, voices: {', '.join(engine.voices)}", flush=True)
        await stop.wait()
        task = asyncio.current_task()
        assert task is not None
        for name in SIGNALS:
            loop.add_signal_handler(name, task.cancel)
        print("stopping: running calls may end; signal again to cut them off", flush=True)
