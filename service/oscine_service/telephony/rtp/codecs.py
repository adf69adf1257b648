"""What is spoken over RTP: the codecs, and how RTP counts their sound."""

from dataclasses import dataclass

from oscine_service.audio import Encoding, Format
from oscine_service.telephony.frames import silence

FRAME_MS = 20


@dataclass(frozen=True, slots=True)
class Codec:
    """One as SDP names it: `name/clock_rate`, `/channels` behind it where that is not 1.

    payload_type: that stands for it where nothing else is said; None where that has to be said. clock_rate: of
    timestamps, Hz. silence: a frame of 20 ms without a sound, which every decoder takes at any time.
    """

    name: str
    encoding: Encoding
    clock_rate: int
    channels: int
    payload_type: int | None
    silence: bytes

    @property
    def step(self) -> int:
        """Of the timestamp, from a frame to the next."""
        return self.clock_rate * FRAME_MS // 1000


PCMU = Codec("PCMU", Encoding.MULAW, 8000, 1, 0, silence(Format(Encoding.MULAW, 8000)))
PCMA = Codec("PCMA", Encoding.ALAW, 8000, 1, 8, silence(Format(Encoding.ALAW, 8000)))
# Always two channels and 48 kHz, whatever is in it (RFC 7587, section 4). The packet is one of CELT, at full band and
# 20 ms (RFC 6716, section 3.1: TOC 31), whose first bit is set: silence (section 4.3).
OPUS = Codec("opus", Encoding.OPUS, 48000, 2, None, b"\xf8\xff\xfe")
CODECS = (OPUS, PCMU, PCMA)
