"""Telnyx' media streaming with `stream_bidirectional_mode: rtp`: JSON around base64, G.711 at 8 kHz."""

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

ENCODINGS = {"PCMU": Encoding.MULAW, "PCMA": Encoding.ALAW}


class Telnyx(Base):
    """A call goes by its call_control_id, its stream_id, and the custom parameter `call`."""

    kind = "telnyx"

    def read(self, message: Message) -> News:
        kind, found = event(message)
        match kind:
            case "start":
                start = inner(found, "start")
                media = inner(start, "media_format")
                encoding = field(media, "encoding", str, "PCMU")
                if encoding not in ENCODINGS or field(media, "sample_rate", int, 8000) != 8000:
                    raise InvalidInput(
                        f"stream_codec, stream_bidirectional_codec: use {' or '.join(ENCODINGS)}, which "
                        f"{shown(dict(media))} is not"
                    )
                names = (field(start, "call_control_id", str), field(found, "stream_id", str, ""))
                parameters = inner(start, "custom_parameters")
                return Began(self._named(*names, parameters=parameters), Format(ENCODINGS[encoding], 8000))
            case "media":
                return CallerSound(payload_size(found))
            case "mark":
                return MarkHeard(field(inner(found, "mark"), "name", str))
            case "stop":
                return Told.OVER
            case _:
                return Told.NOTHING

    def media(self, sound: bytes) -> str:
        return json.dumps({"event": "media", "media": {"payload": base64.b64encode(sound).decode()}})

    def mark(self, name: str) -> str:
        return json.dumps({"event": "mark", "mark": {"name": name}})

    def clear(self) -> str:
        return json.dumps({"event": "clear"})
