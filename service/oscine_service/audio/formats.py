"""What a listener may ask for."""

from dataclasses import dataclass
from enum import StrEnum

from oscine_codecs import aac, mp3, opus
from oscine_engine.errors import InvalidInput

SAMPLE_RATE = 24000
"""Of what the engine makes, in Hz."""
RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
MIN_OPUS, MAX_OPUS = 6000, 128000
"""bit/s"""


class Encoding(StrEnum):
    """pcm16 and pcm_f32 are little-endian. mp3, flac and aac (in ADTS frames) are files by themselves."""

    OPUS = "opus"
    PCM16 = "pcm16"
    PCM_F32 = "pcm_f32"
    MULAW = "mulaw"
    ALAW = "alaw"
    MP3 = "mp3"
    FLAC = "flac"
    AAC = "aac"


class Container(StrEnum):
    """What is around the encoded sound. raw: nothing."""

    RAW = "raw"
    OGG = "ogg"
    WAV = "wav"


CONTAINERS = {
    Encoding.OPUS: (Container.RAW, Container.OGG),
    Encoding.PCM16: (Container.RAW, Container.WAV),
    Encoding.PCM_F32: (Container.RAW, Container.WAV),
    Encoding.MULAW: (Container.RAW, Container.WAV),
    Encoding.ALAW: (Container.RAW, Container.WAV),
    Encoding.MP3: (Container.RAW,),
    Encoding.FLAC: (Container.RAW,),
    Encoding.AAC: (Container.RAW,),
}
_MEDIA_TYPES = {
    Encoding.PCM16: "audio/pcm",
    Encoding.PCM_F32: "audio/pcm",
    Encoding.MULAW: "audio/pcmu",
    Encoding.ALAW: "audio/pcma",
    Encoding.OPUS: "audio/opus",
    Encoding.MP3: "audio/mpeg",
    Encoding.FLAC: "audio/flac",
    Encoding.AAC: "audio/aac",
}


def rates(encoding: Encoding) -> tuple[int, ...]:
    """The sample rates, in Hz, that there are with `encoding`."""
    return opus.SAMPLE_RATES if encoding is Encoding.OPUS else RATES


def bitrates(encoding: Encoding, sample_rate: int) -> tuple[int, ...] | range:
    """The bit rates, in bit/s, that there are with them; none where the encoding has no choice."""
    match encoding:
        case Encoding.OPUS:
            return range(MIN_OPUS, MAX_OPUS + 1)
        case Encoding.AAC:
            return range(aac.MIN_BITRATE, aac.MAX_BITRATE + 1)
        case Encoding.MP3:
            return mp3.bitrates(sample_rate)
        case _:
            return ()


def default_bitrate(encoding: Encoding, sample_rate: int) -> int:
    """In bit/s; 0 where the encoding has no choice."""
    match encoding:
        case Encoding.OPUS:
            return opus.DEFAULT_BITRATE
        case Encoding.AAC:
            # A frame of AAC holds so much and no more, and at low rates frames are few.
            return min(64000, 5 * sample_rate)
        case Encoding.MP3:
            return 64000 if sample_rate < 32000 else 128000
        case _:
            return 0


@dataclass(frozen=True, slots=True)
class Format:
    """What a listener asked for, defaults filled in. `sample_rate` in Hz; `bitrate` in bit/s: 0 takes the default, and
    stays where an encoding has no choice. Raises InvalidInput, naming the field and what is legal, for others."""

    encoding: Encoding = Encoding.OPUS
    sample_rate: int = SAMPLE_RATE
    bitrate: int = 0
    container: Container = Container.RAW

    def __post_init__(self) -> None:
        if self.container not in (legal := CONTAINERS[self.encoding]):
            raise InvalidInput(
                f"container: {self.container} does not hold {self.encoding}; use {' or '.join(legal)} with it"
            )
        if self.sample_rate not in (known := rates(self.encoding)):
            raise InvalidInput(
                f"sample_rate: {self.sample_rate} Hz is not offered with {self.encoding}; use one of "
                f"{', '.join(map(str, known))}"
            )
        if not self.bitrate:
            object.__setattr__(self, "bitrate", default_bitrate(self.encoding, self.sample_rate))
        elif self.bitrate not in (possible := bitrates(self.encoding, self.sample_rate)):
            raise InvalidInput(f"bitrate: {self.bitrate} bit/s {_instead(self, possible)}")

    @property
    def media_type(self) -> str:
        """As HTTP names it."""
        match self.container:
            case Container.WAV:
                return "audio/wav"
            case Container.OGG:
                return "audio/ogg"
            case _:
                return _MEDIA_TYPES[self.encoding]


def _instead(format: Format, possible: tuple[int, ...] | range) -> str:
    if not possible:
        return f"with {format.encoding}, which has no choice of it; leave it 0"
    if isinstance(possible, range):
        return f"is out of range; use {possible[0]} to {possible[-1]} with {format.encoding}, or 0"
    return (
        f"is not offered with {format.encoding} at {format.sample_rate} Hz; use one of "
        f"{', '.join(map(str, possible))}, or 0"
    )
