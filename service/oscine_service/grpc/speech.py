"""oscine.v1.SpeechService onto engine sessions."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import grpc

from oscine_engine.errors import Cancelled, Idle, InvalidInput, OscineError, Unavailable
from oscine_engine.front import Front
from oscine_engine.session import NothingToSay, Session
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_service.grpc.backlog import Backlog
from oscine_service.grpc.requests import Cancel, Config, Flush, Played, Request, Text, parse
from oscine_service.grpc.responses import Responses, cancelled
from oscine_service.grpc.sender import Context, Sender
from oscine_service.grpc.status import KNOWN, retry_after, status
from oscine_service.limits import Limits

Requests: TypeAlias = AsyncIterator[Request | InvalidInput]

QUIET_S, DRAIN_S = 0.1, 2.0
"""A refused client has stopped sending after this long without a message, and is not waited for any longer."""
MAX_DETAILS = 800
"""Characters of a status message, at most nine bytes each on the wire; a client takes 8 KiB of all it is told."""

NAME = pb.DESCRIPTOR.services_by_name["SpeechService"].full_name


@dataclass(slots=True)
class _Input:
    """What ended a call's input before its client closed it, as soon as that is known: all before it is still said.

    refusal: of a request that cannot be served. interrupted: the client wants no more of it. played: how far the client
    has reported to be.
    """

    refusal: InvalidInput | None = None
    interrupted: bool = False
    played: int | None = None


class SpeechService:
    """One handler per call, one session each; `handler` is what a grpc server takes."""

    def __init__(self, front: Front, limits: Limits) -> None:
        self._front = front
        self._limits = limits
        self._calls = 0
        self._ended = asyncio.Event()
        self._stopped = asyncio.Event()

    def handler(self) -> grpc.GenericRpcHandler:
        # Parsed here, not by the generated servicer: a request that cannot be decoded is the client's fault.
        synthesize = grpc.stream_stream_rpc_method_handler(
            self._synthesize,
            request_deserializer=parse,
            response_serializer=pb.SynthesizeResponse.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(NAME, {"Synthesize": synthesize})

    async def ended(self, patience_s: float) -> None:
        """Wait until no call is left, or for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while self._calls:
                    self._ended.clear()
                    await self._ended.wait()

    def stop(self) -> None:
        """End every call, those that are still to come included, with Unavailable."""
        self._stopped.set()

    async def _synthesize(self, requests: Requests, context: Context) -> None:
        self._calls += 1
        try:
            await self._serve(requests, context)
        finally:
            self._calls -= 1
            self._ended.set()

    async def _serve(self, requests: Requests, context: Context) -> None:
        sender = Sender(context, self._limits.write_timeout_s)
        refusal: Exception | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                stopping = tasks.create_task(self._stop(sender))
                refusal = await self._converse(requests, sender)
                stopping.cancel()
        except* KNOWN as group:
            refusal = _first(group)
        if refusal is not None:
            await sender.settle()
            await _drain(requests)
            await context.abort(status(refusal), str(refusal)[:MAX_DETAILS], retry_after(refusal))

    async def _stop(self, sender: Sender) -> NoReturn:
        await self._stopped.wait()
        raise Unavailable(
            f"the service is stopping; {sender.samples} samples of this call were sent, and the rest is lost: "
            "call again, from the start"
        )

    async def _converse(self, requests: Requests, sender: Sender) -> Exception | None:
        """Returns the refusal of a request that came too late to undo what was accepted before it."""
        config = await self._config(requests)
        responses = Responses(config.format)
        heard = _Input()
        async with await self._front.open(config.session) as session, asyncio.TaskGroup() as tasks:
            tasks.create_task(_listen(session, requests, sender, responses, heard))
            try:
                async for event in session:
                    for piece in responses.pieces(event):
                        # Other calls live on this event loop; a way to another thread and back takes time, too.
                        long = responses.takes_long(piece)
                        made = await asyncio.to_thread(responses.of, piece) if long else responses.of(piece)
                        for response in made:
                            await sender.send(response)
            except Cancelled:
                # Only the client's own request is an answer; a service that closes is an error.
                if not heard.interrupted:
                    raise
                had = sender.samples if heard.played is None else min(heard.played, sender.samples)
                await sender.send(cancelled(had))
            except InvalidInput as error:
                # That nothing was said is no wonder where what was to be said could not be taken.
                if heard.refusal is None or not isinstance(error, NothingToSay):
                    raise
        if heard.interrupted:
            # What it still sends must not meet a call that has ended: the client would be told of a fault of grpc's.
            await _drain(requests)
        return heard.refusal

    async def _config(self, requests: Requests) -> Config:
        seconds = self._limits.idle_timeout_s
        try:
            async with asyncio.timeout(None if math.isinf(seconds) else seconds):
                first = await anext(requests, None)
        except TimeoutError as error:
            raise Idle(f"nothing was sent for {seconds:g} s: send a config first") from error
        match first:
            case Config():
                return first
            case None:
                raise InvalidInput("the call has no request: send a config first")
            case InvalidInput():
                raise first
            case _:
                raise InvalidInput("the first request must be a config")


async def _listen(session: Session, requests: Requests, sender: Sender, responses: Responses, heard: _Input) -> None:
    """Feed the session until the client closes its side; a bad request ends the input, and all before it is spoken.

    Text that the session does not take yet waits aside, so that what must act at once is read behind it.
    """
    text = Backlog()
    writing = asyncio.create_task(_write(session, text))
    try:
        async for request in requests:
            match request:
                case Text(text=piece):
                    await text.put(request, len(piece), writing)
                case Flush():
                    await text.put(request, 1, writing)
                case Played(samples=samples):
                    sender.alive()
                    heard.played = max(heard.played or 0, samples)
                    await session.played(responses.made(samples))
                case Cancel():
                    heard.interrupted = True
                    await session.cancel()
                    return
                case Config():
                    heard.refusal = InvalidInput("config is only allowed as the first request")
                case InvalidInput():
                    heard.refusal = request
            if heard.refusal is not None:
                break
        await session.reports_end()
        await text.put(None, 0, writing)
        await writing
    except OscineError:
        # The session has ended, and tells why itself, behind all that it made before.
        return
    finally:
        # Not waited for: what ended the session ends the writing too, and is told by the session itself.
        writing.add_done_callback(lambda task: task.cancelled() or task.exception())
        writing.cancel()


async def _write(session: Session, text: Backlog) -> None:
    """Hand on what was put into `text`, in order, up to its end."""
    while (request := await text.get()) is not None:
        match request:
            case Text(text=piece):
                await session.append(piece)
            case Flush():
                await session.flush()
    await session.finish()


async def _drain(requests: Requests) -> None:
    """Let the client finish what it is sending: a write that fails hides the refusal from it (grpc says INTERNAL)."""
    try:
        async with asyncio.timeout(DRAIN_S):
            while await asyncio.wait_for(anext(requests, None), QUIET_S) is not None:
                pass
    except TimeoutError:
        return


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    """The request's own error where there is one: what else fails then is a consequence."""
    errors = list(_leaves(group))
    return next((error for error in errors if isinstance(error, InvalidInput)), errors[0])


def _leaves(group: BaseExceptionGroup[Exception]) -> "list[Exception]":
    leaves: list[Exception] = []
    for error in group.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves
