"""Where the text to speak comes from: an argument, or standard input as it arrives.

An argument is all there before anything is said, so one that is no text is refused at once. Of standard input some may
have been heard when it turns out to go wrong: what came before that is spoken to its end, and then the fault is told.
"""

import asyncio
import codecs
import os
import sys
import threading
from collections.abc import AsyncIterator

from oscine_engine.errors import InvalidInput

READ_BYTES = 4096


class Unreadable(InvalidInput):
    """The text cannot be read on from here; what came before is good."""


def pieces_of(text: str) -> AsyncIterator[str]:
    """`text`, or standard input if it is "-". Raises InvalidInput for an argument that is no text, or no input at all;
    iteration raises Unreadable where standard input goes wrong, behind all text before."""
    if text == "-":
        if sys.stdin is None:
            raise InvalidInput("standard input is closed: pipe a text in, or give it as an argument")
        return _standard_input()
    _, fault = Decoder("the text to say").push(os.fsencode(text), last=True)
    if fault is not None:
        raise fault
    return _whole(text)


async def _whole(text: str) -> AsyncIterator[str]:
    yield text


async def _standard_input() -> AsyncIterator[str]:
    """Text as it arrives, not line by line."""
    arrived: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        read: bytes | OSError = b" "
        while read and not isinstance(read, OSError):
            try:
                read = os.read(0, READ_BYTES)
            except OSError as error:
                read = error
            try:
                loop.call_soon_threadsafe(arrived.put_nowait, read)
            except RuntimeError:  # the command has ended before its input
                return

    # A daemon: a read that waits for a terminal or a pipe cannot be cancelled, and must not hold the exit up.
    threading.Thread(target=read, name="oscine-stdin", daemon=True).start()
    decoder = Decoder("standard input")
    data: bytes | OSError = b" "
    while data:
        if isinstance(data := await arrived.get(), OSError):
            raise Unreadable(f"cannot read standard input on from byte {decoder.end}: {data.strerror}") from data
        text, fault = decoder.push(data, last=not data)
        yield text
        if fault is not None:
            raise fault


class Decoder:
    """UTF-8 in pieces, of what is called `name`. end: how many bytes have come in."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._held = b""
        self.end = 0

    def push(self, data: bytes, last: bool = False) -> tuple[str, Unreadable | None]:
        """The text that `data` completes, or that comes before what is wrong with it, and what that is."""
        whole, start = self._held + data, self.end - len(self._held)
        self.end += len(data)
        try:
            text, used = codecs.utf_8_decode(whole, "strict", last)
        except UnicodeDecodeError as error:
            at = error.start
            place = f"byte {start + at} (0x{whole[at]:02x})"
            return whole[:at].decode(), Unreadable(f"{self._name} is not valid UTF-8 at {place}: {error.reason}")
        self._held = whole[used:]
        return text, None
