"""Asterisk's chan_websocket: binary media of the channel's codec, and commands, as JSON or as lines of text.

Asterisk cuts and times what it can; Opus it passes on as it comes, so there we own the clock, and nothing is marked or
flushed.
"""

import json

from oscine_engine.errors import InvalidInput
from oscine_service.audio import Encoding, Format
from oscine_service.telephony.carriers.carrier import Base, Began, CallerSound, MarkHeard, Message, News, Told
from oscine_service.websocket.fields import Object, field, loads, shown

FORMATS = {
    "ulaw": Format(Encoding.MULAW, 8000),
    "alaw": Format(Encoding.ALAW, 8000),
    "slin": Format(Encoding.PCM16, 8000),
    "slin12": Format(Encoding.PCM16, 12000),
    "slin16": Format(Encoding.PCM16, 16000),
    "slin24": Format(Encoding.PCM16, 24000),
    "slin32": Format(Encoding.PCM16, 32000),
    "slin44": Format(Encoding.PCM16, 44100),
    "slin48": Format(Encoding.PCM16, 48000),
    "opus": Format(Encoding.OPUS, 24000),
}
VARIABLE = "OSCINE_CALL"
"""Of the channel: a name of the call."""


class Asterisk(Base):
    """A call goes by its connection_id and channel_id, and by the channel's variable OSCINE_CALL."""

    kind = "asterisk"
    subprotocols: tuple[str, ...] = ("media",)
    _json = True

    def read(self, message: Message) -> News:
        if isinstance(message, bytes):
            return CallerSound(len(message))
        kind, found = self._parsed(message)
        match kind:
            case "MEDIA_START":
                name = field(found, "format", str)
                if name not in FORMATS:
                    raise InvalidInput(f"format: {shown(name)} is not offered; dial with one of {', '.join(FORMATS)}")
                names = (field(found, each, str, "") for each in ("connection_id", "channel_id"))
                variables = field(found, "channel_variables", dict, {})
                format = FORMATS[name]
                return Began(
                    self._named(*names, field(variables, VARIABLE, str, "")),
                    format,
                    paced=format.encoding is Encoding.OPUS,
                )
            case "MEDIA_MARK_PROCESSED":
                return MarkHeard(field(found, "correlation_id", str, ""))
            case "MEDIA_XOFF":
                return Told.FULL
            case "MEDIA_XON":
                return Told.ROOM
            case "HANGUP" | "MEDIA_END":
                return Told.OVER
            case _:
                return Told.NOTHING

    def media(self, sound: bytes) -> bytes:
        return sound

    def mark(self, name: str) -> str:
        return self._command("MARK_MEDIA", name)

    def clear(self) -> str:
        return self._command("FLUSH_MEDIA")

    def hang_up(self) -> str:
        return self._command("HANGUP")

    def _parsed(self, message: str) -> tuple[str, Object]:
        """We speak as we are spoken to."""
        self._json = message.lstrip().startswith("{")
        if self._json:
            found = loads(message)
            return field(found, "event", str), found
        kind, *words = message.split()[:64] or [""]
        fields = dict(word.partition(":")[::2] for word in words if ":" in word)
        bare = [word for word in words if ":" not in word]
        return kind, {"correlation_id": bare[0], **fields} if bare else fields

    def _command(self, name: str, correlation: str = "") -> str:
        if not self._json:
            return f"{name} {correlation}".strip()
        return json.dumps({"command": name, **({"correlation_id": correlation} if correlation else {})})
