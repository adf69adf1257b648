"""A connection that can be cut without a word."""

import asyncio
import contextlib


class Wire:
    """A way to a server through which, once it is `cut`, nothing passes, without a word to either side."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._whole = asyncio.Event()
        self._whole.set()

    def cut(self) -> None:
        self._whole.clear()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._to)
        await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                await self._whole.wait()
                writer.write(data)
                await writer.drain()
        # What ended after the cut goes no further either, while this lasts.
        await self._whole.wait()
        writer.close()

    def mend(self) -> None:
        self._whole.set()
