"""The client for programs with threads."""

import threading
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from types import TracebackType
from typing import Self, TypeVar

import grpc

from oscine_client import _messages as messages
from oscine_client._stubs import speech_pb2 as pb
from oscine_client._stubs import voice_pb2
from oscine_client._stubs.speech_pb2_grpc import SpeechServiceStub
from oscine_client._stubs.voice_pb2_grpc import VoiceServiceStub
from oscine_client.config import Config
from oscine_client.errors import SpeechError
from oscine_client.events import Event, Voice

T = TypeVar("T")


class Client:
    """A connection to one service. May be used from many threads; `close` it, or use it in a `with` block.

    address: "host:port". key: sent as a bearer token. tls: True for the system's certificates, or grpc's credentials.
    """

    def __init__(
        self, address: str = "localhost:50051", *, key: str | None = None, tls: bool | grpc.ChannelCredentials = False
    ) -> None:
        if tls is False:
            self._channel = grpc.insecure_channel(address, messages.CHANNEL)
        else:
            credentials = grpc.ssl_channel_credentials() if tls is True else tls
            self._channel = grpc.secure_channel(address, credentials, messages.CHANNEL)
        self._metadata = messages.metadata(key)
        self._speech = SpeechServiceStub(self._channel)
        self.voices = Voices(self._channel, key)

    def open(self, config: Config | None = None) -> "Call":
        """A new call, to append text to as it is written. Raises ValueError for a config that makes no sense."""
        return Call(self._speech, messages.opening(config or Config()), self._metadata)

    def speak(self, text: str | Iterable[str], config: Config | None = None) -> Iterator[Event]:
        """Speak a text, or pieces of it as they come: they are taken in a thread of their own.

        Yields events to the end, and raises SpeechError for one that is not good; what taking the pieces raises is
        raised here. Leaving the loop ends the call.
        """
        with self.open(config) as call:
            feeding = _Feeding([text] if isinstance(text, str) else text, call)
            try:
                yield from call
            except SpeechError:
                feeding.check()
                raise
            feeding.check()

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Call:
    """Text in, events out. One thread may send while another iterates; what is sent never waits.

    Iterate to the end, `Done` or `Cancelled`; any other end raises SpeechError. Sending after that changes nothing.

    ended: nothing more comes, and nothing is taken.
    """

    def __init__(
        self, stub: SpeechServiceStub, opening: pb.SynthesizeRequest, metadata: tuple[tuple[str, str], ...]
    ) -> None:
        self.ended = self._finished = False
        self._requests: SimpleQueue[pb.SynthesizeRequest | None] = SimpleQueue()
        self._requests.put(opening)
        self._responses = stub.Synthesize(iter(self._requests.get, None), metadata=metadata)

    def append(self, text: str) -> None:
        """More text, as it came: single characters, half words, paragraphs."""
        for request in messages.texts(text):
            self._requests.put(request)

    def flush(self) -> None:
        """Speak what has come without waiting for more; answered by `Flushed`."""
        self._requests.put(messages.FLUSH)

    def mark(self, name: str) -> None:
        """Name this place in the text; answered by `Marked`."""
        self._requests.put(messages.mark(name))

    def played(self, samples: int) -> None:
        """Tell how far the player has come, a few times a second; the same number again: it is paused."""
        self._requests.put(messages.played(samples))

    def cancel(self) -> None:
        """Stop for a listener who interrupts; answered by `Cancelled`.

        Behind `finish` gRPC takes nothing more: the call is closed, and who iterates is told with `Cut`.
        """
        if self._finished:
            self.close()
        else:
            self._requests.put(messages.CANCEL)

    def finish(self) -> None:
        """No more text follows, and no report of what was played."""
        self._finished = True
        self._requests.put(None)

    def close(self) -> None:
        """End the call now, whatever it is doing. Nothing is left of it."""
        self._responses.cancel()
        self._end()

    def __iter__(self) -> Iterator[Event]:
        try:
            for response in self._responses:
                if (event := messages.event(response)) is not None:
                    yield event
        except grpc.RpcError as failure:
            self._end()
            raise messages.error(failure) from failure
        # Only here: a loop that is left leaves the call open.
        self._end()

    def _end(self) -> None:
        self.ended = True
        # The thread in which grpc takes requests ends with them.
        self._requests.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Feeding:
    """A thread that appends pieces to a call. Where taking one fails, the call is closed and `check` raises it."""

    def __init__(self, pieces: Iterable[str], call: Call) -> None:
        self._pieces, self._call = pieces, call
        self._failure: BaseException | None = None
        threading.Thread(target=self._feed, name="oscine-text", daemon=True).start()

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _feed(self) -> None:
        try:
            for piece in self._pieces:
                if self._call.ended:
                    return
                self._call.append(piece)
        except BaseException as error:
            self._failure = error
            self._call.close()
        else:
            self._call.finish()


class Voices:
    """Voices of the service. Every method raises SpeechError for what is refused."""

    def __init__(self, channel: grpc.Channel, key: str | None) -> None:
        self._stub, self._metadata = VoiceServiceStub(channel), messages.metadata(key)

    def list(self) -> Iterator[Voice]:
        """All that the caller may name, the default first."""
        token = ""
        while True:
            page = self._page(voice_pb2.ListVoicesRequest(page_token=token))
            yield from (messages.voice(each) for each in page.voices)
            if not (token := page.next_page_token):
                return

    def _page(self, request: voice_pb2.ListVoicesRequest) -> voice_pb2.ListVoicesResponse:
        return _answer(lambda: self._stub.ListVoices(request, metadata=self._metadata))

    def get(self, name: str) -> Voice:
        request = voice_pb2.GetVoiceRequest(name=name)
        return messages.voice(_answer(lambda: self._stub.GetVoice(request, metadata=self._metadata)).voice)

    def create(
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
        return messages.voice(_answer(lambda: self._stub.CreateVoice(requests, metadata=self._metadata)).voice)

    def delete(self, name: str) -> None:
        request = voice_pb2.DeleteVoiceRequest(name=name)
        _answer(lambda: self._stub.DeleteVoice(request, metadata=self._metadata))


def _answer(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except grpc.RpcError as failure:
        raise messages.error(failure) from failure
