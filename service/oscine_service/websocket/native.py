"""The native WebSocket protocol on one socket: docs/websocket.md."""

import asyncio
from itertools import count

from starlette.websockets import WebSocket

from oscine_engine.errors import InvalidInput, Overloaded
from oscine_engine.front import Front
from oscine_service.conversation import Calls, Cancel, Config, Played
from oscine_service.http.server import MAX_MESSAGE_BYTES
from oscine_service.limits import Limits
from oscine_service.strict_json import LONG
from oscine_service.websocket import messages
from oscine_service.websocket.accepting import accepted
from oscine_service.websocket.messages import End, Rendering
from oscine_service.websocket.socket import MOST_CONTEXTS, Message, Socket

PATH = "/v1/speech"


class Native:
    """Messages of one client onto its conversations."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._numbers = count(1)

    async def hear(self, message: Message) -> None:
        long = len(message) > LONG
        request = await asyncio.to_thread(messages.parse, message) if long else messages.parse(message)
        channel = self._socket.channel(request.context)
        try:
            match request.asks:
                case Config() as config:
                    if channel is not None:
                        raise InvalidInput(
                            f"the context {request.context!r} is still running: end it, or take another name"
                        )
                    rendering = Rendering(request.context, next(self._numbers), config.format)
                    self._socket.open(request.context, config, rendering)
                case InvalidInput() as refusal:
                    raise refusal
                case Cancel() | Played() if channel is None:
                    return  # it has just ended, and its last message is on the way
                case _ if channel is None:
                    raise InvalidInput(f"the context {request.context!r} is not running: send a start first")
                case End():
                    await channel.end()
                case verb:
                    await channel.put(verb)
        except (InvalidInput, Overloaded) as refusal:
            if channel is None:
                await self._socket.send(messages.error(request.context, refusal))
            elif not channel.ended:
                # All that was accepted before is spoken first.
                await channel.end(refusal)
            elif not channel.refused:
                # With the name, the error would say that the context has ended: it is speaking.
                about = InvalidInput(f"context {request.context!r}: {refusal}")
                await self._socket.send(messages.error(None, about))

    def refused(self, error: InvalidInput) -> str:
        return messages.error(None, error)


async def serve(websocket: WebSocket, front: Front, limits: Limits, calls: Calls) -> None:
    """One client, from its request to the end of its socket."""
    if not await accepted(websocket, calls, (messages.PROTOCOL,)):
        return
    socket = Socket(websocket, front, limits, calls, MAX_MESSAGE_BYTES)
    await socket.send(messages.ready(limits, MOST_CONTEXTS, MAX_MESSAGE_BYTES))
    await socket.run(Native(socket))
