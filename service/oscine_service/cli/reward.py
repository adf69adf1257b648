"""`oscine reward`: an HTTP service that listens to speech and says how well it says its text."""

import argparse
import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

from oscine_service.config import parse

HELP = "serve rewards for speech over HTTP: audio and text in, how well one says the other out"
PORT = 8090


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    parser.add_argument("--port", type=parse.port, default=PORT, help="0 picks a free one (default %(default)s)")
    parser.add_argument(
        "--workers",
        type=parse.count,
        default=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1,
        metavar="N",
        help="pieces of speech that are listened to at once, each on a core (default %(default)s)",
    )
    parser.add_argument(
        "--language",
        choices=["en", "zh"],
        action="append",
        help="load this language's recogniser at once, not with its first request; may be given twice",
    )


async def reward(options: argparse.Namespace) -> None:
    """Serve until interrupted; requests that are being answered may end. Raises MissingPackage, with the command that
    installs it, and InvalidInput for an address that cannot be had."""
    from oscine_service.conversation import Calls
    from oscine_service.http.server import serving
    from oscine_service.listening.recogniser import require
    from oscine_service.reward.app import application
    from oscine_service.reward.judge import Judge

    require()
    judge, calls = Judge(options.workers), Calls()
    with ThreadPoolExecutor(options.workers, thread_name_prefix="oscine-judge") as threads:
        for language in options.language or ():
            await asyncio.to_thread(judge.load, language)
        app = application(judge, threads, calls)
        async with serving(app, options.host, options.port, calls=calls) as address:
            print(f"judging on http://{address}/v1/reward", flush=True)
            await asyncio.Event().wait()
