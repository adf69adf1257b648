"""The whole service with the embedded voice, and pages that are not its own."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from oscine_service.http.server import serving

COMMAND = (sys.executable, "-c", "import sys; from oscine_service.cli import main; sys.exit(main())", "serve")


@asynccontextmanager
async def speaking(*arguments: str | Path) -> AsyncIterator[str]:
    """The address of its HTTP port."""
    process = await asyncio.create_subprocess_exec(
        *(
            *COMMAND,
            "--port",
            "0",
            "--http-port",
            "0",
            "--utilisation",
            "inf",
            "--grace",
            "0",
            "--hang-timeout",
            "300",
            *map(str, arguments),
        ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        while line := (await process.stdout.readline()).decode():
            if line.startswith("HTTP and WebSocket on "):
                break
        assert line, "the service has ended"
        yield line.split()[-1]
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@asynccontextmanager
async def pages(folder: Path) -> AsyncIterator[str]:
    """The origin of another server, with the files of a folder."""
    app = Starlette(routes=[Mount("/", StaticFiles(directory=folder))])
    async with serving(app, "127.0.0.1", 0, grace_s=0) as address:
        yield f"http://{address}"


def microphone(path: Path) -> Sequence[str]:
    """Flags for a browser that hears a WAV file over and over, and asks nobody whether it may."""
    return (
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={path}",
    )
