"""The same calls over a WebSocket, for where gRPC does not get through: install `oscine-client[websocket]`.

    from oscine_client.websocket import AsyncClient, Client

One socket, many calls at a time. What comes is always read, so that the service knows that somebody is there: report
with `played` what was heard, or all speech there is comes as soon as it is made.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from itertools import count
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeAlias

try:
    from websockets.asyncio.client import ClientConnection as AsyncConnection
    from websockets.asyncio.client import connect as connect_async
    from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
    from websockets.sync.client import ClientConnection, connect
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("WebSockets need another package: pip install 'oscine-client[websocket]'") from error

from oscine_client import _frames as frames
from oscine_client.config import Config
from oscine_client.errors import Cut, SpeechError, Unavailable
from oscine_client.events import Cancelled, Done, Event

_Told: TypeAlias = "Event | SpeechError"
_OPTIONS: dict[str, Any] = {
    # Audio does not get smaller by it.
    "compression": None,
    "max_size": 1 << 24,
    "ping_interval": 20,
    "ping_timeout": 10,
}


def _address(url: str) -> str:
    """url: "ws://host:port" or "wss://host", with a path of its own or without."""
    scheme, _, rest = url.partition("://")
    if scheme not in ("ws", "wss") or not rest:
        raise ValueError(f"{url!r} is not ws://HOST:PORT or wss://HOST")
    return url if "/" in rest.rstrip("/") else url.rstrip("/") + frames.PATH


def _headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def _unreachable(error: Exception) -> SpeechError:
    if isinstance(error, InvalidStatus):
        response = error.response
        return frames.refused(response.status_code, response.body or b"", response.headers.get("Retry-After"))
    return Unavailable(f"the service cannot be reached: {error}", "unavailable")


def _closing(error: ConnectionClosed) -> SpeechError:
    return frames.closed(error.rcvd.code if error.rcvd else None, error.rcvd.reason if error.rcvd else "")


def _last(told: "_Told") -> bool:
    return isinstance(told, SpeechError | Done | Cancelled)


class Client:
    """For programs with threads. Connects at once; `close` it, or use it in a `with` block.

    url: "ws://host:port". key: sent as a bearer token. Raises SpeechError where nobody answers, or refuses.
    """

    def __init__(self, url: str = "ws://localhost:8080", *, key: str | None = None) -> None:
        address = _address(url)
        self._left = contextlib.ExitStack()
        try:
            self._socket: ClientConnection = self._left.enter_context(
                connect(address, additional_headers=_headers(key), subprotocols=_subprotocols(), **_OPTIONS)
            )
        except (OSError, WebSocketException) as error:
            raise _unreachable(error) from error
        self._names = count(1)
        self._calls: dict[str, Call] = {}
        self._lock = threading.Lock()
        self._lost: SpeechError | None = None
        threading.Thread(target=self._read, name="oscine-events", daemon=True).start()

    def open(self, config: Config | None = None) -> "Call":
        """A new call, to append text to as it is written."""
        name = str(next(self._names))
        call = Call(self, name)
        with self._lock:
            self._calls[name] = call
            lost = self._lost
        if lost is not None:
            call._tell(lost)
        else:
            self._send(frames.start(name, config or Config()))
        return call

    def speak(self, text: str | Iterable[str], config: Config | None = None) -> Iterator[Event]:
        """Speak a text, or pieces of it as they come: they are taken in a thread of their own.

        Yields events to the end, and raises SpeechError for one that is not good; what taking the pieces raises is
        raised here. Leaving the loop ends the call.
        """
        with self.open(config) as call:
            failures: list[BaseException] = []
            feeding = threading.Thread(
                target=_feed, args=([text] if isinstance(text, str) else text, call, failures), daemon=True
            )
            feeding.start()
            try:
                yield from call
            except SpeechError:
                if not failures:
                    raise
            if failures:
                raise failures[0]

    def close(self) -> None:
        self._left.close()

    def _send(self, *messages: str) -> None:
        """That the socket is closed is told to whoever iterates."""
        with contextlib.suppress(ConnectionClosed):
            for message in messages:
                self._socket.send(message)

    def _forget(self, name: str) -> None:
        with self._lock:
            self._calls.pop(name, None)

    def _read(self) -> None:
        answers = frames.Answers()
        try:
            while True:
                name, told = answers.read(self._socket.recv())
                if name is not None and told is not None:
                    self._deliver(name, told)
        except ConnectionClosed as error:
            lost = _closing(error)
        except SpeechError as error:
            lost = error
            self._socket.close()
        with self._lock:
            self._lost = lost
            left = list(self._calls.values())
        for call in left:
            call._tell(lost)

    def _deliver(self, name: str, told: "_Told") -> None:
        with self._lock:
            call = self._calls.get(name)
        if call is not None:
            call._tell(told)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Call:
    """Text in, events out. One thread may send while another iterates.

    Iterate to the end, `Done` or `Cancelled`; any other end raises SpeechError. Sending after that changes nothing.

    ended: nothing more comes, and nothing is taken.
    """

    def __init__(self, client: Client, name: str) -> None:
        self.ended = self._over = False
        self._client, self._name = client, name
        self._told: SimpleQueue[_Told] = SimpleQueue()

    def append(self, text: str) -> None:
        """More text, as it came: single characters, half words, paragraphs."""
        self._send(*frames.texts(self._name, text))

    def flush(self) -> None:
        """Speak what has come without waiting for more; answered by `Flushed`."""
        self._send(frames.ask("flush", self._name))

    def mark(self, name: str) -> None:
        """Name this place in the text; answered by `Marked`."""
        self._send(frames.ask("mark", self._name, name=name))

    def played(self, samples: int) -> None:
        """Tell how far the player has come, a few times a second; the same number again: it is paused."""
        self._send(frames.ask("played", self._name, samples=samples))

    def cancel(self) -> None:
        """Stop for a listener who interrupts; answered by `Cancelled`."""
        self._send(frames.ask("cancel", self._name))

    def finish(self) -> None:
        """No more text follows."""
        self._send(frames.ask("end", self._name))

    def close(self) -> None:
        """End the call now, whatever it is doing."""
        if not self.ended:
            self._send(frames.ask("cancel", self._name))
            self._tell(Cut("the call was closed here", "cancelled"))

    def _send(self, *messages: str) -> None:
        if not self.ended:
            self._client._send(*messages)

    def _tell(self, told: "_Told") -> None:
        if _last(told):
            self.ended = True
            self._client._forget(self._name)
        self._told.put(told)

    def __iter__(self) -> Iterator[Event]:
        while not self._over:
            told = self._told.get()
            if isinstance(told, SpeechError):
                self._told.put(told)
                raise told
            self._over = _last(told)
            yield told

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _feed(pieces: Iterable[str], call: Call, failures: list[BaseException]) -> None:
    try:
        for piece in pieces:
            if call.ended:
                return
            call.append(piece)
        call.finish()
    except BaseException as error:
        failures.append(error)
        call.close()


class AsyncClient:
    """For programs with an event loop: `async with AsyncClient(url) as client:` connects and closes.

    url: "ws://host:port". key: sent as a bearer token. Entering raises SpeechError where nobody answers, or refuses.
    """

    def __init__(self, url: str = "ws://localhost:8080", *, key: str | None = None) -> None:
        self._url, self._key = _address(url), key
        self._socket: AsyncConnection | None = None
        self._names = count(1)
        self._calls: dict[str, AsyncCall] = {}
        self._lost: SpeechError | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self, config: Config | None = None) -> "AsyncCall":
        """A new call, to append text to as it is written."""
        name = str(next(self._names))
        call = self._calls[name] = AsyncCall(self, name)
        if self._lost is not None:
            call._tell(self._lost)
        else:
            await self._send(frames.start(name, config or Config()))
        return call

    async def speak(
        self, text: str | Iterable[str] | AsyncIterable[str], config: Config | None = None
    ) -> AsyncIterator[Event]:
        """Speak a text, or pieces of it as they come.

        Yields events to the end, and raises SpeechError for one that is not good; what taking the pieces raises is
        raised here. Close the generator (`contextlib.aclosing`) to end the call before that.
        """
        async with await self.open(config) as call:
            failures: list[Exception] = []
            feeding = asyncio.create_task(_feed_async(call, text, failures))
            try:
                async for event in call:
                    yield event
            except SpeechError:
                if not failures:
                    raise
            finally:
                feeding.cancel()
                await asyncio.wait([feeding])
            if failures:
                raise failures[0]

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()
        if self._reading is not None:
            await self._reading

    async def _send(self, *messages: str) -> None:
        """That the socket is closed is told to whoever iterates."""
        assert self._socket is not None, "enter the client first: async with AsyncClient(...) as client"
        with contextlib.suppress(ConnectionClosed):
            for message in messages:
                await self._socket.send(message)

    async def _read(self, socket: AsyncConnection) -> None:
        answers = frames.Answers()
        try:
            while True:
                name, told = answers.read(await socket.recv())
                if name is not None and told is not None and (call := self._calls.get(name)) is not None:
                    call._tell(told)
        except ConnectionClosed as error:
            self._lost = _closing(error)
        except SpeechError as error:
            self._lost = error
            await socket.close()
        for call in list(self._calls.values()):
            call._tell(self._lost)

    async def __aenter__(self) -> Self:
        try:
            self._socket = await connect_async(
                self._url, additional_headers=_headers(self._key), subprotocols=_subprotocols(), **_OPTIONS
            )
        except (OSError, WebSocketException) as error:
            raise _unreachable(error) from error
        self._reading = asyncio.create_task(self._read(self._socket))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncCall:
    """Text in, events out. One task may send while another iterates.

    Iterate to the end, `Done` or `Cancelled`; any other end raises SpeechError. Sending after that changes nothing.

    ended: nothing more comes, and nothing is taken.
    """

    def __init__(self, client: AsyncClient, name: str) -> None:
        self.ended = self._over = False
        self._client, self._name = client, name
        self._told: asyncio.Queue[_Told] = asyncio.Queue()

    async def append(self, text: str) -> None:
        """More text, as it came: single characters, half words, paragraphs."""
        await self._send(*frames.texts(self._name, text))

    async def flush(self) -> None:
        """Speak what has come without waiting for more; answered by `Flushed`."""
        await self._send(frames.ask("flush", self._name))

    async def mark(self, name: str) -> None:
        """Name this place in the text; answered by `Marked`."""
        await self._send(frames.ask("mark", self._name, name=name))

    async def played(self, samples: int) -> None:
        """Tell how far the player has come, a few times a second; the same number again: it is paused."""
        await self._send(frames.ask("played", self._name, samples=samples))

    async def cancel(self) -> None:
        """Stop for a listener who interrupts; answered by `Cancelled`."""
        await self._send(frames.ask("cancel", self._name))

    async def finish(self) -> None:
        """No more text follows."""
        await self._send(frames.ask("end", self._name))

    async def close(self) -> None:
        """End the call now, whatever it is doing."""
        if not self.ended:
            await self._send(frames.ask("cancel", self._name))
            self._tell(Cut("the call was closed here", "cancelled"))

    async def _send(self, *messages: str) -> None:
        if not self.ended:
            await self._client._send(*messages)

    def _tell(self, told: "_Told") -> None:
        if _last(told):
            self.ended = True
            self._client._calls.pop(self._name, None)
        self._told.put_nowait(told)

    async def __aiter__(self) -> AsyncIterator[Event]:
        while not self._over:
            told = await self._told.get()
            if isinstance(told, SpeechError):
                self._told.put_nowait(told)
                raise told
            self._over = _last(told)
            yield told

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def _feed_async(
    call: AsyncCall, text: str | Iterable[str] | AsyncIterable[str], failures: list[Exception]
) -> None:
    try:
        if isinstance(text, str):
            await call.append(text)
        elif isinstance(text, AsyncIterable):
            async for piece in text:
                await call.append(piece)
        else:
            for piece in text:
                await call.append(piece)
        await call.finish()
    except Exception as error:
        failures.append(error)
        await call.close()


def _subprotocols() -> list[Any]:
    return [frames.PROTOCOL]
