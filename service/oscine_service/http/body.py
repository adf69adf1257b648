"""Reading what a client sends, as long as it sends it and no more than is taken."""

import asyncio

from starlette.requests import Request

from oscine_engine.errors import Idle, InvalidInput

PATIENCE_S = 30.0
"""For all of a body to come."""


class TooLarge(InvalidInput):
    """A body has more bytes than are taken."""

    code = "too_large"
    http = 413

    def __init__(self, most: int) -> None:
        super().__init__(f"the body has more than {most} bytes, which is the most that is taken here")


class Encoded(InvalidInput):
    """A body is said to be compressed."""

    code = "unsupported_encoding"
    http = 415

    def __init__(self, encoding: str) -> None:
        super().__init__(
            f"Content-Encoding: {encoding[:40]!r} is not taken; send the body not compressed, and without that header"
        )


async def read(request: Request, at_most: int) -> bytes:
    """Raises Encoded for one that is said to be compressed, TooLarge beyond `at_most` bytes, Idle where the rest does
    not come, and ClientDisconnect where the client leaves."""
    if (encoding := request.headers.get("content-encoding", "").strip().lower()) not in ("", "identity"):
        raise Encoded(encoding)
    data = bytearray()
    try:
        async with asyncio.timeout(PATIENCE_S):
            async for piece in request.stream():
                data += piece
                if len(data) > at_most:
                    raise TooLarge(at_most)
    except TimeoutError as error:
        raise Idle(f"the body did not come within {PATIENCE_S:g} s") from error
    return bytes(data)
