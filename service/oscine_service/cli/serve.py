"""`oscine serve`: one engine behind a gRPC server until it is told to stop."""

import asyncio
import signal

from oscine_engine.engine import Engine, EngineSettings
from oscine_service.grpc.server import serving


async def serve(settings: EngineSettings, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; running calls are then given time to end."""
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with Engine.load(settings) as engine, serving(engine, host, port) as running:
        print(f"serving on {running.address}, voices: {', '.join(engine.voices)}", flush=True)
        await stop.wait()
        print("stopping", flush=True)
