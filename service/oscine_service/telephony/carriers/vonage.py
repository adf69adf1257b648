"""Vonage's WebSockets (an NCCO with connect, endpoint websocket): binary 16-bit PCM, 20 ms a message, and JSON."""

import json
import re

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
)
from oscine_service.websocket.fields import field, shown

RATES = (8000, 16000, 24000)
_TYPE = re.compile(r"audio/l16\s*;\s*rate=(\d{1,6})", re.ASCII | re.IGNORECASE)
NAMES = ("uuid", "call_uuid", "conversation_uuid")
"""Headers that applications give such an endpoint to tell the call by."""


class Vonage(Base):
    """A call goes by what the endpoint's `headers` say: `call`, or one of NAMES; or by its URL."""

    kind = "vonage"
    message_frames = 1

    def read(self, message: Message) -> News:
        if isinstance(message, bytes):
            return CallerSound(len(message))
        kind, found = event(message)
        match kind:
            case "websocket:connected":
                told = field(found, "content-type", str, "audio/l16;rate=16000")
                asked = _TYPE.fullmatch(told.strip())
                if asked is None or (rate := int(asked[1])) not in RATES:
                    offered = ", ".join(f"audio/l16;rate={rate}" for rate in RATES)
                    raise InvalidInput(f"content-type: {shown(told)} is not offered; use one of {offered}")
                names = (field(found, name, str, "") for name in NAMES)
                return Began(self._named(*names, parameters=found), Format(Encoding.PCM16, rate))
            case "websocket:notify":
                return MarkHeard(field(inner(found, "payload"), "mark", str, ""))
            case "websocket:disconnected":
                return Told.OVER
            case _:
                return Told.NOTHING

    def media(self, sound: bytes) -> bytes:
        return sound

    def mark(self, name: str) -> str:
        return json.dumps({"action": "notify", "payload": {"mark": name}})

    def clear(self) -> str:
        return json.dumps({"action": "clear"})
