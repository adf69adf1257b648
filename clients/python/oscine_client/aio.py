"""The client for programs with an event loop."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import grpc

from oscine_client import _messages as messages
from oscine_client._stubs import speech_pb2 as pb
from oscine_client._stubs import voice_pb2
from oscine_client._stubs.speech_pb2_grpc import SpeechServiceStub
from oscine_client._stubs.voice_pb2_grpc import VoiceServiceStub
from oscine_client.config import Config
from oscine_client.errors import Cut
from oscine_client.events import Event, Voice

if TYPE_CHECKING:
    from oscine_client._stubs.speech_pb2_grpc import SpeechServiceAsyncStub
    from oscine_client._stubs.voice_pb2_grpc import VoiceServiceAsyncStub

T = TypeVar("T")


class AsyncClient:
    """A connection to one service, of the event loop it was made in. Close it, or use it in an `async with` block.

    address: "host:port". key: sent as a bearer token. tls: True for the system's certificates, or grpc's credentials.
    """

    def __init__(
        self, address: str = "localhost:50051", *, key: str | None = None, tls: bool | grpc.ChannelCredentials = False
    ) -> None:
        if tls is False:
            self._channel = grpc.aio.insecure_channel(address, messages.CHANNEL)
        else:
            credentials = grpc.ssl_channel_credentials() if tls is True else tls
            self._channel = grpc.aio.secure_channel(address, credentials, messages.CHANNEL)
        self._metadata = messages.metadata(key)
        self._speech: SpeechServiceAsyncStub = SpeechServiceStub(self._channel)
        self.voices = AsyncVoices(self._channel, key)

    def open(self, config: Config | None = None) -> "AsyncCall":
        """A new call, to append text to as it is written. Raises ValueError for a config that makes no sense."""
        return AsyncCall(self._speech, messages.opening(config or Config()), self._metadata)

    async def speak(
        self, text: str | Iterable[str] | AsyncIterable[str], config: Config | None = None
    ) -> AsyncIterator[Event]:
        """Speak a text, or pieces of it as they come.

        Yields events to the end, and raises SpeechError for one that is not good; what taking the pieces raises is
        raised here. Close the generator (`contextlib.aclosing`) to end the call before that.
        """
        async with self.open(config) as call:
            feeding = asyncio.create_task(_feed(call, text))
            feeding.add_done_callback(lambda task: call.close() if _failed(task) else None)
            try:
                async for event in call:
                    yield event
            except Exception:
                if not _failed(feeding):
                    raise
            finally:
                feeding.cancel()
                await asyncio.wait([feeding])
            if _failed(feeding):
                feeding.result()

    async def close(self) -> None:
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncCall:
    """Text in, events out. One task may send while another iterates.

    Sending waits while the service has more text waiting than it takes, until events are read. Iterate to the end,
    `Done` or `Cancelled`; any other end raises SpeechError. Sending once it has ended changes nothing.
    """

    def __init__(
        self, stub: "SpeechServiceAsyncStub", opening: pb.SynthesizeRequest, metadata: tuple[tuple[str, str], ...]
    ) -> None:
        self._call = stub.Synthesize(metadata=metadata)
        self._opening: pb.SynthesizeRequest | None = opening
        self._turn = asyncio.Lock()
        self._finished = self._closed = False

    async def append(self, text: str) -> None:
        """More text, as it came: single characters, half words, paragraphs."""
        await self._send(*messages.texts(text))

    async def flush(self) -> None:
        """Speak what has come without waiting for more; answered by `Flushed`."""
        await self._send(messages.FLUSH)

    async def mark(self, name: str) -> None:
        """Name this place in the text; answered by `Marked`."""
        await self._send(messages.mark(name))

    async def played(self, samples: int) -> None:
        """Tell how far the player has come, a few times a second; the same number again: it is paused."""
        await self._send(messages.played(samples))

    async def cancel(self) -> None:
        """Stop for a listener who interrupts; answered by `Cancelled`.

        Behind `finish` gRPC takes nothing more: the call is closed, and who iterates is told with `Cut`.
        """
        if self._finished:
            self.close()
        else:
            await self._send(messages.CANCEL)

    async def finish(self) -> None:
        """No more text follows, and no report of what was played."""
        self._finished = True
        await self._send(end=True)

    def close(self) -> None:
        """End the call now, whatever it is doing. Nothing is left of it."""
        self._closed = True
        self._call.cancel()

    async def __aiter__(self) -> AsyncIterator[Event]:
        await self._send()
        try:
            while isinstance(response := await self._call.read(), pb.SynthesizeResponse):
                if (event := messages.event(response)) is not None:
                    yield event
        except grpc.aio.AioRpcError as failure:
            raise messages.error(failure) from failure
        except asyncio.CancelledError:
            if self._task_is_cancelled():
                raise
            raise Cut("the call was closed here", "cancelled") from None

    async def _send(self, *requests: pb.SynthesizeRequest, end: bool = False) -> None:
        """What a call ended with is told to whoever iterates."""
        async with self._turn:
            opening, self._opening = self._opening, None
            try:
                for request in requests if opening is None else (opening, *requests):
                    await self._call.write(request)
                if end:
                    await self._call.done_writing()
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return
            except asyncio.CancelledError:
                if self._task_is_cancelled():
                    raise

    def _task_is_cancelled(self) -> bool:
        """Or else it is the call that was closed, of which grpc tells in the same way."""
        task = asyncio.current_task()
        return not self._closed or (task is not None and task.cancelling() > 0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _feed(call: AsyncCall, text: str | Iterable[str] | AsyncIterable[str]) -> None:
    if isinstance(text, str):
        await call.append(text)
    elif isinstance(text, AsyncIterable):
        async for piece in text:
            await call.append(piece)
    else:
        for piece in text:
            await call.append(piece)
    await call.finish()


def _failed(task: "asyncio.Task[None]") -> bool:
    return task.done() and not task.cancelled() and task.exception() is not None


class AsyncVoices:
    """Voices of the service. Every method raises SpeechError for what is refused."""

    def __init__(self, channel: grpc.aio.Channel, key: str | None) -> None:
        self._stub: VoiceServiceAsyncStub = VoiceServiceStub(channel)
        self._metadata = messages.metadata(key)

    async def list(self) -> AsyncIterator[Voice]:
        """All that the caller may name, the default first."""
        token = ""
        while True:
            request = voice_pb2.ListVoicesRequest(page_token=token)
            page = await _answer(self._stub.ListVoices(request, metadata=self._metadata))
            for each in page.voices:
                yield messages.voice(each)
            if not (token := page.next_page_token):
                return

    async def get(self, name: str) -> Voice:
        request = voice_pb2.GetVoiceRequest(name=name)
        return messages.voice((await _answer(self._stub.GetVoice(request, metadata=self._metadata))).voice)

    async def create(
        self,
        name: str,
        recording: messages.Recording,
        *,
        transcript: str = "",
        language: str = "",
        description: str = "",
        replace: bool = False,
    ) -> Voice:
        """Make a voice of an audio file, given as its bytes or its path: 3 to 10 s of somebody who agreed to it.

        transcript: exactly what is said in it. replace: take the place of your voice of this name.
        """
        requests = messages.upload(name, recording, transcript, language, description, replace)
        return messages.voice((await _answer(self._stub.CreateVoice(requests, metadata=self._metadata))).voice)

    async def delete(self, name: str) -> None:
        request = voice_pb2.DeleteVoiceRequest(name=name)
        await _answer(self._stub.DeleteVoice(request, metadata=self._metadata))


async def _answer(call: Awaitable[T]) -> T:
    try:
        return await call
    except grpc.aio.AioRpcError as failure:
        raise messages.error(failure) from failure
