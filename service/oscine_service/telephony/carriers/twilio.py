"""Twilio's bidirectional Media Streams (<Connect><Stream>): JSON around base64, mu-law at 8 kHz."""

import base64
import json

from oscine_engine.errors import InvalidInput
from oscine_service.audio import Encoding, Format
from oscine_service.telephony.carriers.carrier import (
    Base,
    Began,
    CallerSound,
    MarkHeard,
    Message,
    News,
    Told,
    event,
    inner,
    payload_size,
)
from oscine_service.websocket.fields import field, shown

FORMAT = Format(Encoding.MULAW, 8000)


class Twilio(Base):
    """A call goes by its CallSid, its StreamSid, and the custom parameter `call`."""

    kind = "twilio"
    _stream = ""

    def read(self, message: Message) -> News:
        kind, found = event(message)
        match kind:
            case "start":
                start = inner(found, "start")
                self._stream = field(start, "streamSid", str, "") or field(found, "streamSid", str)
                encoding = field(inner(start, "mediaFormat"), "encoding", str, "audio/x-mulaw")
                if encoding != "audio/x-mulaw":
                    raise InvalidInput(f"mediaFormat.encoding: {shown(encoding)} is not offered; use audio/x-mulaw")
                parameters = inner(start, "customParameters")
                return Began(self._named(field(start, "callSid", str), self._stream, parameters=parameters), FORMAT)
            case "media":
                return CallerSound(payload_size(found))
            case "mark":
                return MarkHeard(field(inner(found, "mark"), "name", str))
            case "stop":
                return Told.OVER
            case _:
                return Told.NOTHING

    def media(self, sound: bytes) -> str:
        return self._event("media", media={"payload": base64.b64encode(sound).decode()})

    def mark(self, name: str) -> str:
        return self._event("mark", mark={"name": name})

    def clear(self) -> str:
        return self._event("clear")

    def _event(self, kind: str, **fields: object) -> str:
        return json.dumps({"event": kind, "streamSid": self._stream, **fields})
