"""A response whose body is spoken while it is sent."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NoReturn, TypeAlias

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from oscine_service.conversation import Conversation
from oscine_service.errors import KNOWN, code, leaf
from oscine_service.http.protocols import ABORT

log = logging.getLogger(__name__)

Chunks: TypeAlias = Callable[[Conversation], AsyncIterator[bytes]]


class _LeftError(ConnectionError):
    """The client has gone."""


class Spoken(Response):
    """opening: a conversation that is about to open. chunks: reads it, from its first reply to its last, and says what
    of that is sent; an empty chunk is not.

    An error before the first chunk is raised, so that it gets a status. After that the connection is cut, so that what
    was sent never looks like the whole of it; `chunks` may catch errors itself where its protocol has words for them.
    """

    def __init__(
        self,
        opening: AbstractAsyncContextManager[Conversation],
        chunks: Chunks,
        media_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status_code = 200
        self.background = None
        self.media_type = media_type
        # Nothing may be made of sound on the way that its listener has to undo.
        self.init_headers({"cache-control": "no-store, no-transform", **(headers or {})})
        del self.headers["content-length"]
        self._opening = opening
        self._chunks = chunks
        self._begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal: Exception | None = None
        try:
            async with self._opening as talk, asyncio.TaskGroup() as tasks:
                watching = tasks.create_task(_left(receive))
                await self._speak(talk, send)
                watching.cancel()
        except* _LeftError:
            log.debug("a client left before its response was complete")
        except* KNOWN as group:
            refusal = leaf(group)
        if refusal is None:
            return
        if not self._begun:
            raise refusal
        log.info("a response was cut off: %s", code(refusal))
        scope["state"][ABORT]()
        with contextlib.suppress(_LeftError):
            # Only once it is known to be cut is a response that is not whole no fault.
            await _left(receive)

    async def _speak(self, talk: Conversation, send: Send) -> None:
        async for chunk in self._chunks(talk):
            if chunk:
                await self._begin(talk, send)
                await talk.deliver(send({"type": "http.response.body", "body": chunk, "more_body": True}))
        await self._begin(talk, send)
        await talk.deliver(send({"type": "http.response.body", "body": b"", "more_body": False}))

    async def _begin(self, talk: Conversation, send: Send) -> None:
        if not self._begun:
            self._begun = True
            start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            await talk.deliver(send(start))


async def _left(receive: Receive) -> NoReturn:
    while (await receive())["type"] != "http.disconnect":
        pass
    raise _LeftError
