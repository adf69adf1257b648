"""`oscine serve`: one engine behind a gRPC server until it is told to stop."""

import asyncio
import signal

from oscine_engine.engine import Engine, EngineSettings
from oscine_service.grpc.server import serving

SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve(settings: EngineSettings, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; running calls then get time to end, unless the signal comes again."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for name in SIGNALS:
        loop.add_signal_handler(name, stop.set)
    async with Engine.load(settings) as engine, serving(engine, host, port) as running:
        print(f"serving on {running.address}, voices: {', '.join(engine.voices)}", flush=True)
        await stop.wait()
        task = asyncio.current_task()
        assert task is not None
        for name in SIGNALS:
            loop.add_signal_handler(name, task.cancel)
        print("stopping: running calls may end; signal again to cut them off", flush=True)
