"""One conversation on a WebSocket, beside others."""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from starlette.websockets import WebSocketDisconnect

from oscine_engine.errors import InternalError, InvalidInput, OscineError
from oscine_service.conversation import (
    Cancel,
    Cancelled,
    Config,
    Conversation,
    Done,
    Flush,
    Mark,
    Played,
    Reply,
    Text,
    Verb,
    talking,
)
from oscine_service.conversation.backlog import MOST_CHARACTERS, Backlog
from oscine_service.errors import KNOWN

if TYPE_CHECKING:
    from oscine_service.websocket.socket import Message, Socket

log = logging.getLogger(__name__)


class Translator(Protocol):
    """What one conversation is called in a dialect."""

    def said(self, reply: Reply) -> Iterable["Message"]:
        """The messages for a reply, in order."""

    def failed(self, error: Exception) -> Iterable["Message"]:
        """The messages that end a conversation with an error."""


class Channel:
    """Verbs never wait: before the conversation is open they are kept, and text beyond what may wait is refused.

    over: the last reply is on its way, or an error; nothing that is put has an effect any more. ended: no more text is
    taken. refused: that is told by its last message, an error. muted: set it, and no message of it that is not on its
    way already is sent any more. waiting_bytes: of a recording that it is to speak after, until it is open.
    """

    def __init__(self, socket: "Socket", key: str, config: Config, translator: Translator) -> None:
        self.over = False
        self.muted = False
        self._socket = socket
        self._key = key
        self._config: Config | None = config
        self._translator = translator
        self._talk: Conversation | None = None
        self._early = Backlog()
        self._early_report: Played | None = None
        self._early_cancel = False
        self._ended = False
        self._refusal: OscineError | None = None

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def refused(self) -> bool:
        return self._refusal is not None

    @property
    def waiting_bytes(self) -> int:
        config = self._config
        return 0 if config is None or config.session.reference is None else len(config.session.reference.audio)

    async def put(self, verb: Verb) -> None:
        """As `Conversation.put`, at once. Raises InvalidInput for text, a flush or a mark after `end`."""
        if isinstance(verb, Text | Flush | Mark):
            if self.refused:
                return
            if self._ended:
                raise InvalidInput("the text has already ended: nothing may follow its end")
            if self._full:
                why = (
                    f"text: more than {MOST_CHARACTERS} characters wait to be spoken, each flush and mark counted as "
                    "some; send more as it is spoken"
                )
                return await self.end(InvalidInput(why))
        if self._talk is not None:
            await self._talk.put(verb)
            return
        match verb:
            case Played():
                self._early_report = verb
            case Cancel():
                self._early_cancel = True
            case _:
                await self._early.put(verb)

    async def end(self, refusal: OscineError | None = None) -> None:
        """As `Conversation.end`."""
        if self._ended:
            return
        self._ended = True
        self._refusal = refusal
        if self._talk is not None:
            await self._talk.end(refusal)

    @property
    def _full(self) -> bool:
        return self._early.full if self._talk is None else self._talk.full

    async def run(self) -> None:
        """The conversation from its opening to its last message."""
        with self._socket.calls.joined():
            error: Exception | None = None
            try:
                await self._converse()
            except WebSocketDisconnect:
                return
            except KNOWN as known:
                error = known
            except Exception as bug:
                log.exception("a conversation met a fault that was not foreseen")
                error = InternalError(f"a fault that the service did not foresee: {type(bug).__name__}")
            finally:
                self._leave()
            if error is None:
                return
            if self._talk is not None:
                self._socket.lost(error)
            if not self.muted:
                for message in self._translator.failed(error):
                    await self._socket.send(message)

    async def _converse(self) -> None:
        socket = self._socket
        assert self._config is not None
        async with talking(socket.front, self._config, socket.limits, socket.calls) as talk:
            # A recording that came with it has been heard.
            self._config = None
            await self._catch_up(talk)
            self._talk = talk
            if self._ended:
                await talk.end(self._refusal)
            async for reply in talk:
                if isinstance(reply, Done | Cancelled):
                    # Before the client knows: it may use the name again at once.
                    self._leave()
                if self.muted:
                    continue
                for message in self._translator.said(reply):
                    await talk.deliver(self._write(message))

    async def _catch_up(self, talk: Conversation) -> None:
        """What was put while it opened; nothing is waited for behind the last of it."""
        while True:
            if self._early_cancel:
                self._early_cancel = False
                await talk.put(Cancel())
            elif (report := self._early_report) is not None:
                self._early_report = None
                await talk.put(report)
            elif len(self._early) and (verb := await self._early.get()) is not None:
                await talk.put(verb)
            else:
                return

    async def _write(self, message: "Message") -> None:
        if not self.muted:
            await self._socket.write(message)

    def _leave(self) -> None:
        self.over = True
        self._socket.left(self._key, self)
