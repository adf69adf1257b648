"""Methods of gRPC services called without a server of ours: whoever has the connection brings bytes and takes bytes."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, TypeAlias

import grpc

Metadata: TypeAlias = "Sequence[tuple[str, str | bytes]]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a call ends that does not end well."""

    code: grpc.StatusCode
    details: str
    trailing: Metadata


class _Aborted(Exception):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.details)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class _Details:
    """What interceptors are told of a call."""

    method: str
    invocation_metadata: Metadata


@dataclass(frozen=True, slots=True)
class _Given:
    data: bytes
    taken: asyncio.Future[None]


class _Context:
    """What our methods use of grpc's context."""

    def __init__(self) -> None:
        self.given: asyncio.Queue[_Given | None] = asyncio.Queue()
        self.serialize: Callable[[Any], bytes] = bytes

    async def write(self, response: Any) -> None:
        """Returns once it has been taken."""
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.given.put_nowait(_Given(self.serialize(response), taken))
        await taken

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()) -> NoReturn:
        raise _Aborted(Refusal(code, details, trailing_metadata))


class Methods:
    """handlers: of each service. interceptors: the first is outermost, as in a server."""

    def __init__(
        self,
        handlers: Sequence[grpc.GenericRpcHandler],
        interceptors: "Sequence[grpc.aio.ServerInterceptor]" = (),  # type: ignore[type-arg,unused-ignore]
    ) -> None:
        self._handlers, self._interceptors = handlers, interceptors

    async def call(
        self, method: str, metadata: Metadata, requests: AsyncIterator[bytes]
    ) -> AsyncGenerator[bytes | Refusal, None]:
        """The responses of one call; a refusal is the last. Leaving it early cancels the call.

        method: "/package.Service/Method". What a response's writer waits for is that the next one is asked for.
        """
        context = _Context()
        # Interceptors, too: what they set for the call is the task's own.
        running = asyncio.create_task(self._run(_Details(method, metadata), requests, context))
        running.add_done_callback(lambda _: context.given.put_nowait(None))
        try:
            while (given := await context.given.get()) is not None:
                yield given.data
                if not given.taken.done():
                    given.taken.set_result(None)
            refusal = await running
            if refusal is not None:
                yield refusal
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def _run(self, details: _Details, requests: AsyncIterator[bytes], context: _Context) -> Refusal | None:
        handler = await self._handler(details)
        if handler is None:
            return Refusal(grpc.StatusCode.UNIMPLEMENTED, f"there is no method {details.method}", ())
        context.serialize = handler.response_serializer or bytes
        parse = handler.request_deserializer or bytes
        kinds = (handler.unary_unary, handler.unary_stream, handler.stream_unary, handler.stream_stream)
        act: Any = next(each for each in kinds if each is not None)
        try:
            if handler.request_streaming:
                answer = await act(_parsed(requests, parse), context)
            else:
                answer = await act(parse(await anext(requests)), context)
            if not handler.response_streaming:
                await context.write(answer)
        except _Aborted as aborted:
            return aborted.refusal
        return None

    async def _handler(self, details: _Details) -> "Handler | None":
        async def found(told: grpc.HandlerCallDetails) -> "Handler | None":
            return next((handler for each in self._handlers if (handler := each.service(told))), None)

        ask: Any = found
        for interceptor in reversed(self._interceptors):
            ask = partial(interceptor.intercept_service, ask)
        handler: Handler | None = await ask(details)
        return handler


async def _parsed(requests: AsyncIterator[bytes], parse: Callable[[bytes], Any]) -> AsyncIterator[Any]:
    async for request in requests:
        yield parse(request)
