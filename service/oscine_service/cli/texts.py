"""Where the text to speak comes from: an argument, or standard input as it arrives."""

import asyncio
import codecs
import os
import sys
import threading
from collections.abc import AsyncIterator

from oscine_engine.errors import InvalidInput

READ_BYTES = 4096


def pieces_of(text: str) -> AsyncIterator[str]:
    """`text`, or standard input if it is "-"."""
    return standard_input() if text == "-" else _whole(text)


async def standard_input() -> AsyncIterator[str]:
    """Text as it arrives, not line by line. Raises InvalidInput where it cannot be read or is not UTF-8."""
    arrived: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    if sys.stdin is None:
        raise InvalidInput("standard input is closed: pipe a text in, or give it as an argument")

    def read() -> None:
        data: bytes | OSError = b" "
        while data and not isinstance(data, OSError):
            try:
                data = os.read(0, READ_BYTES)
            except OSError as error:
                data = error
            try:
                loop.call_soon_threadsafe(arrived.put_nowait, data)
            except RuntimeError:  # the command has ended before its input
                return

    # A daemon: a read that waits for a terminal or a pipe cannot be cancelled, and must not hold the exit up.
    threading.Thread(target=read, name="oscine-stdin", daemon=True).start()
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while data := await arrived.get():
            if isinstance(data, OSError):
                raise InvalidInput(f"cannot read standard input: {data.strerror}") from data
            yield decoder.decode(data)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise InvalidInput("standard input is not valid UTF-8 text") from error


async def _whole(text: str) -> AsyncIterator[str]:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput("the text is not valid UTF-8") from error
    yield text
