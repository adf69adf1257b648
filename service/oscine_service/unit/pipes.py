"""Pipes to another process."""

import asyncio
import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self


def pipe(undo: ExitStack) -> tuple[int, int]:
    """A new pipe's ends, to read from and to write to; `undo` closes both."""
    ends = os.pipe()
    for end in ends:
        undo.callback(os.close, end)
    return ends


@dataclass(frozen=True, slots=True)
class Reading:
    """The end of a pipe, as it is read."""

    stream: asyncio.StreamReader
    transport: asyncio.ReadTransport

    @classmethod
    async def of(cls, end: int) -> Self:
        """Takes over the file descriptor `end`."""
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(end, "rb", 0)
        )
        return cls(stream, transport)
