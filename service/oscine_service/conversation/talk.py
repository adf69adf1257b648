"""A conversation: verbs in, replies out, over one engine session."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Self

from oscine_engine import errors, events
from oscine_engine.errors import InvalidInput, OscineError, Stalled, UnknownVoice
from oscine_engine.events import Event, SessionRequest, Stats
from oscine_engine.front import Front
from oscine_engine.marks import TooManyMarks
from oscine_engine.session import NothingToSay, Session
from oscine_engine.voices.catalogue import unknown
from oscine_service import visits
from oscine_service.audio import SAMPLE_RATE, waits
from oscine_service.conversation.backlog import Backlog
from oscine_service.conversation.calls import Calls, closing, stopping
from oscine_service.conversation.encoders import encoders
from oscine_service.conversation.replies import Audio, Cancelled, Done, Reply
from oscine_service.conversation.speech import Speech
from oscine_service.conversation.verbs import Cancel, Config, Flush, Mark, Played, Text, Verb
from oscine_service.limits import Limits
from oscine_service.security import principal
from oscine_service.security.errors import QuotaExceeded
from oscine_service.visits import Attendant


class Conversation:
    """Made by `open`. One task may put verbs while another iterates; leaving the block frees all that it held.

    Iteration ends after `Done` or `Cancelled`, and raises whatever else ends a conversation, behind all replies before
    it: an OscineError, or a CodecError. Verbs never raise that, and do nothing once it has ended.

    sent: samples in the replies that were handed out.
    """

    def __init__(self, session: Session, speech: Speech, limits: Limits, attendant: Attendant) -> None:
        self.sent = 0
        self._session = session
        self._speech = speech
        self._attendant = attendant
        self._patience = limits.write_timeout_s
        self._backlog = Backlog()
        self._closed = False
        self._refusal: OscineError | None = None
        self._interrupted = False
        self._played: int | None = None
        self._now = asyncio.get_running_loop().time
        self._alive_at = self._now()
        self._fault: BaseException | None = None
        self._cut: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._begun = -math.inf
        self._stats: Stats | None = None
        self._error: BaseException | None = None
        self._writing = asyncio.create_task(self._write())

    @classmethod
    @asynccontextmanager
    async def open(
        cls, front: Front, config: Config, limits: Limits, calls: Calls | None = None
    ) -> AsyncIterator[Self]:
        """Start one, as one of `calls`. Raises what `Front.open` raises, Forbidden and QuotaExceeded, and CodecError
        for a format that cannot be written here."""
        calls = calls or Calls()
        if calls.closing:
            raise closing()
        # Whose voices may be named is what the door knows of a client, never what it says of itself.
        request = replace(config.session, owner=principal.current().owner)
        attendant = visits.current().attend(request)
        talk: Self | None = None
        speech: Speech | None = None
        try:
            made = partial(Speech, config.format, limits, request.word_times)
            speech = await asyncio.to_thread(made) if waits(config.format) else made()
            async with await _session(front, request) as session:
                # A recording that came with them has been heard, and nothing of the call is to keep it.
                del config, request
                talk = cls(session, speech, limits, attendant)
                try:
                    with calls.joined(talk.stop):
                        yield talk
                finally:
                    talk._writing.cancel()
                    await asyncio.wait([talk._writing])
        except BaseException as error:
            if talk is not None and talk._error is None and talk._stats is not None:
                # All was said: how the client left then is no matter.
                attendant.ended(talk._stats, None)
            else:
                attendant.ended(None, error if talk is None or talk._error is None else talk._error)
            raise
        else:
            attendant.ended(talk._stats, talk._error)
        finally:
            if speech is not None:
                speech.close()

    async def put(self, verb: Verb) -> None:
        """Do what the client asks, or queue it behind what it sent before: text, flushes and marks keep their order,
        the others act at once. Waits while more text is queued than a client may have waiting.

        Text that is beyond what the client is granted ends the input as `end` with a refusal does. After that, text,
        flushes and marks are left out: why is told in the end. Raises InvalidInput for them after any other `end`.
        """
        match verb:
            case Played(samples=samples):
                self.alive()
                self._played = max(self._played or 0, samples)
                await self._session.played(self._speech.made(samples))
            case Cancel():
                self._interrupted = True
                await self._session.cancel()
            case _:
                if self._closed and self._refusal is None:
                    raise InvalidInput("the text has already ended: nothing may follow its end")
                if self._closed:
                    return None
                if isinstance(verb, Text):
                    try:
                        self._attendant.text(len(verb.text))
                    except QuotaExceeded as refusal:
                        return await self.end(refusal)
                await self._backlog.put(verb)

    @property
    def full(self) -> bool:
        """Text, a flush or a mark would have to wait."""
        return self._backlog.full

    async def end(self, refusal: OscineError | None = None) -> None:
        """No more text follows. refusal: why it ends here, of a request that cannot be served: iteration raises it once
        all that was accepted before has been spoken. Ending again changes nothing. Never waits."""
        if self._closed:
            return
        self._closed = True
        self._refusal = refusal
        await self._backlog.put(None)

    async def reports_end(self) -> None:
        """The client can report no more: it is taken to play on without a pause from its last report."""
        await self._session.reports_end()

    def alive(self) -> None:
        """The client has given a sign of life other than taking a reply."""
        self._alive_at = self._now()

    def stop(self) -> None:
        """End with Unavailable, now: the service cannot wait any longer."""
        self._break_off(stopping(self.sent))

    async def deliver(self, write: Awaitable[object]) -> None:
        """Wait until the client's side has taken what is being written.

        Raises Stalled if it does not within the write timeout of its last sign of life, and what ends the conversation
        from outside. A coroutine is then cancelled; a future is left as it is, for those that cannot be taken back.
        """
        self.alive()
        task = asyncio.ensure_future(write)
        waited: tuple[asyncio.Future[Any], ...] = (task, self._cut)
        try:
            while not task.done():
                left = self._alive_at + self._patience - self._now()
                if left <= 0:
                    raise Stalled(f"no response was taken for {self._patience:g} s: read them as they come")
                await asyncio.wait(
                    waited,
                    timeout=None if math.isinf(left) else left,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if self._fault is not None:
                    raise self._fault
            await task
        finally:
            if task is not write:
                task.cancel()

    async def __aiter__(self) -> AsyncIterator[Reply]:
        try:
            async for reply in self._replies():
                yield reply
        except Exception as error:
            self._error = error
            raise

    async def _replies(self) -> AsyncIterator[Reply]:
        try:
            async for event in self._session:
                ahead_s = 0.0
                if isinstance(event, events.Audio):
                    # When a listener began that plays without a pause; one that has run dry begins anew.
                    latest = self._now() - event.start_sample / SAMPLE_RATE
                    self._begun = max(self._begun, latest)
                    ahead_s = self._begun - latest
                for piece in self._speech.pieces(event, ahead_s):
                    for reply in await self._made(piece):
                        if self._fault is not None:
                            raise self._fault
                        if isinstance(reply, Audio):
                            self.sent += reply.samples
                            self._attendant.sent(reply.samples, len(reply.frames))
                        elif isinstance(reply, Done):
                            self._stats = reply.stats
                            if self._refusal is not None:
                                break  # what was accepted is done, what the client wanted is not
                        yield reply
        except errors.Cancelled:
            if self._fault is not None:
                raise self._fault from None
            # Only the client's own request is an answer; a service that closes is an error.
            if not self._interrupted:
                raise
            yield Cancelled(self.sent if self._played is None else min(self._played, self.sent))
            return
        except NothingToSay:
            # That nothing was said is no wonder where what was to be said could not be taken.
            if self._refusal is None:
                raise
        if self._refusal is not None:
            raise self._refusal

    async def _made(self, piece: Event) -> list[Reply]:
        """The replies that it completes."""
        # Other calls live on this event loop; a way to another thread and back takes time, too.
        if not self._speech.takes_long(piece):
            return self._speech.of(piece)
        work = partial(self._speech.of, piece)
        if isinstance(piece, events.Audio) and not self._speech.waits:
            return await encoders().run(work, self._begun + piece.start_sample / SAMPLE_RATE)
        return await asyncio.to_thread(work)

    async def _write(self) -> None:
        """Hand on what was queued, in order, up to its end."""
        try:
            try:
                while (verb := await self._backlog.get()) is not None:
                    match verb:
                        case Text(text=text):
                            await self._session.append(text)
                        case Flush():
                            await self._session.flush()
                        case Mark(name=name):
                            await self._session.mark(name)
            except TooManyMarks as refusal:
                self._closed, self._refusal = True, refusal
            await self._session.finish()
        except OscineError:
            # The session has ended, and tells why itself, behind all that it made before.
            return
        except Exception as error:
            self._break_off(error)
        finally:
            self._backlog.close()

    def _break_off(self, error: BaseException) -> None:
        if self._fault is None:
            self._fault = error
            self._cut.set_result(None)
            self._cancelling = asyncio.ensure_future(self._session.cancel())


async def _session(front: Front, request: SessionRequest) -> Session:
    """Raises as `Front.open` does; who may not speak in every voice is not told of others."""
    try:
        return await front.open(request)
    except UnknownVoice as error:
        if request.voice is not None and principal.current().voices:
            raise UnknownVoice(unknown(request.voice)) from error
        raise
