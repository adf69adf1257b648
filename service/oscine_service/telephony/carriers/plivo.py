"""Plivo's audio streams (<Stream bidirectional="true">): JSON around base64, mu-law at 8 kHz."""

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

ENCODING, RATE = "audio/x-mulaw", 8000


class Plivo(Base):
    """A call goes by its callId and its streamId."""

    kind = "plivo"
    _stream = ""

    def read(self, message: Message) -> News:
        kind, found = event(message)
        match kind:
            case "start":
                start = inner(found, "start")
                self._stream = field(start, "streamId", str)
                media = inner(start, "mediaFormat")
                encoding, rate = field(media, "encoding", str, ENCODING), field(media, "sampleRate", int, RATE)
                if (encoding, rate) != (ENCODING, RATE):
                    raise InvalidInput(
                        f"mediaFormat: {shown(dict(media))} is not offered; use contentType={ENCODING};rate={RATE}"
                    )
                names = self._named(field(start, "callId", str), self._stream)
                return Began(names, Format(Encoding.MULAW, RATE))
            case "media":
                return CallerSound(payload_size(found))
            case "playedStream":
                return MarkHeard(field(found, "name", str))
            case "stop":
                return Told.OVER
            case _:
                return Told.NOTHING

    def media(self, sound: bytes) -> str:
        media = {"contentType": ENCODING, "sampleRate": RATE, "payload": base64.b64encode(sound).decode()}
        return json.dumps({"event": "playAudio", "media": media, "streamId": self._stream})

    def mark(self, name: str) -> str:
        return json.dumps({"event": "checkpoint", "streamId": self._stream, "name": name})

    def clear(self) -> str:
        return json.dumps({"event": "clearAudio", "streamId": self._stream})
