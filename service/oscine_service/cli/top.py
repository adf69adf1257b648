"""`oscine top`: what services are doing, in the terminal, from their metrics."""

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import shutil
import ssl
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from oscine_engine.errors import InvalidInput, OscineError
from oscine_service import asking
from oscine_service.cli.addresses import address
from oscine_service.cli.files import contents
from oscine_service.config import parse
from oscine_service.top import screen, standing
from oscine_service.top.samples import Samples, Span, read
from oscine_service.top.standing import Service

HELP = "watch what services are doing: streams, stages, batches"
PORT = 8080
OVER_S = 10.0
"""What is shown is of the last so many seconds, or since it looks."""
PATIENCE_S = 5.0
QUIT = b"qQ\x03\x04"
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""A screen of its own without a cursor, and back to what was there before."""
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


@dataclass(frozen=True, slots=True)
class Door:
    """How to get in. key: granted `metrics`. tls: None where it is not encrypted."""

    key: str | None
    tls: ssl.SSLContext | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "services",
        nargs="*",
        type=partial(address, port=PORT),
        default=[f"127.0.0.1:{PORT}"],
        metavar="HOST[:PORT]",
        help=f"their HTTP ports (default: 127.0.0.1:{PORT})",
    )
    parser.add_argument("--every", type=parse.seconds, default=1.0, metavar="SECONDS", help="between two looks (1)")
    parser.add_argument("--once", action="store_true", help="look twice, print what happened in between, and end")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each look")
    parser.add_argument("--key", help="a key that is granted metrics, where they ask for one (default: $OSCINE_KEY)")
    parser.add_argument("--tls", action="store_true", help="speak to them over TLS")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="trust the authorities in this PEM file, over TLS")


async def top(options: argparse.Namespace, key: str | None) -> None:
    """Until it is told to end. Raises OSError and InvalidInput for authorities that cannot be read, and InvalidInput
    where it looks once and nobody answers."""
    watch = Watch(options.services, Door(options.key or key, _tls(options)))
    if options.once:
        await watch.look()
        await asyncio.sleep(options.every)
        services = await watch.look()
        _print(services, options.json)
        if all(each.trouble is not None for each in services):
            raise InvalidInput(f"none of these answers: {', '.join(options.services)}")
    elif options.json or not sys.stdout.isatty():
        await watch.look()
        while True:
            await asyncio.sleep(options.every)
            _print(await watch.look(), options.json)
    else:
        await _live(watch, options.every)


def _tls(options: argparse.Namespace) -> ssl.SSLContext | None:
    if options.ca is None:
        return ssl.create_default_context() if options.tls else None
    try:
        return ssl.create_default_context(cadata=contents(options.ca, "the authorities").decode())
    except (ssl.SSLError, ValueError) as error:
        raise InvalidInput(f"--ca: {options.ca} holds no certificates in PEM") from error


class Watch:
    """Looks at services, and remembers what it saw for as long as that is of use."""

    def __init__(self, addresses: Sequence[str], door: Door) -> None:
        self._door = door
        self._seen: dict[str, deque[Samples]] = {address: deque() for address in addresses}

    async def look(self) -> list[Service]:
        """All of them at once; one that does not answer is told as such."""
        return list(await asyncio.gather(*(self._look(*each) for each in self._seen.items())))

    async def _look(self, address: str, seen: deque[Samples]) -> Service:
        try:
            now = await asyncio.to_thread(_fetch, address, self._door)
        except (OSError, http.client.HTTPException, OscineError, ValueError) as error:
            # The last is for keys that no header can hold, and for pages that are no text.
            seen.clear()
            return Service(address, trouble=_why(error))
        seen.append(now)
        while len(seen) > 2 and now.at - seen[1].at >= OVER_S:
            seen.popleft()
        return standing.service(address, Span(seen[0], now))


def _fetch(address: str, door: Door) -> Samples:
    """Raises OSError, HTTPException and InvalidInput."""
    headers = {"Authorization": f"Bearer {door.key}"} if door.key else {}
    answer = asking.get(address, "/metrics", tls=door.tls, patience_s=PATIENCE_S, headers=headers)
    if answer.status in (401, 403):
        raise InvalidInput("wants a key that is granted metrics: --key")
    if answer.status == 404:
        raise InvalidInput("has no metrics: it runs with --no-metrics, or is something else")
    if answer.status != 200:
        raise InvalidInput(f"answers {answer.status} {answer.reason}")
    return read(answer.body.decode(), time.monotonic())


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"does not answer within {PATIENCE_S:g} s"
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(said.split()) or type(error).__name__


def _print(services: Sequence[Service], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"services": [asdict(each) for each in services]}), flush=True)
    else:
        print("\n".join(screen.lines(services, _clock(), shutil.get_terminal_size().columns)), flush=True)


def _clock() -> str:
    return time.strftime("%H:%M:%S")


async def _live(watch: Watch, every_s: float) -> None:
    """On a screen of its own, until q is pressed. Where a terminal changes its size, the next look fits it again."""
    ended = asyncio.Event()
    with _own_screen(), _keys(ended):
        while not ended.is_set():
            size = shutil.get_terminal_size()
            drawn = screen.lines(await watch.look(), _clock(), size.columns, size.lines - 1)
            body = "".join(f"{line}{CLEAR_LINE}\n" for line in drawn)
            sys.stdout.write(f"{HOME}{body}q quits{CLEAR_BELOW}")
            sys.stdout.flush()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), every_s)


@contextmanager
def _own_screen() -> Iterator[None]:
    sys.stdout.write(ENTER)
    try:
        yield
    finally:
        sys.stdout.write(LEAVE)
        sys.stdout.flush()


@contextmanager
def _keys(ended: asyncio.Event) -> Iterator[None]:
    """Keys count at once and are not shown, where standard input is a terminal."""
    if not sys.stdin.isatty():
        yield
        return
    number, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(number)

    def pressed() -> None:
        if any(each in QUIT for each in os.read(number, 64) or QUIT):
            ended.set()

    tty.setcbreak(number)
    loop.add_reader(number, pressed)
    try:
        yield
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)
