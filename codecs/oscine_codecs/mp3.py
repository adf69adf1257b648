"""The frames of an MP3 stream (ISO 11172-3 and 13818-3, layer III): what their headers say."""

from dataclasses import dataclass

from oscine_codecs.errors import CodecError

SAMPLE_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
DELAY = 1105
"""Samples by which decoded sound lags: 576 by the encoder, 529 by a decoder."""
_BITS = {1: 3, 2: 2, 25: 0}
_RATES = {1: (44100, 48000, 32000), 2: (22050, 24000, 16000), 25: (11025, 12000, 8000)}
_LONG = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_SHORT = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
ENCODER_RANGE = {1: (32, 320), 2: (8, 160), 25: (8, 64)}
"""Lowest and highest kbit/s that the encoder gives, by version."""


def version(sample_rate: int) -> int:
    """1, 2 or 25 (which is 2.5). Raises CodecError for a rate that MP3 does not have."""
    for number, rates in _RATES.items():
        if sample_rate in rates:
            return number
    raise CodecError(f"MP3 takes sample rates {', '.join(map(str, SAMPLE_RATES))} Hz, got {sample_rate}")


def bitrates(sample_rate: int) -> tuple[int, ...]:
    """Those there are at this sample rate, in bit/s, rising."""
    number = version(sample_rate)
    low, high = ENCODER_RANGE[number]
    return tuple(1000 * rate for rate in (_LONG if number == 1 else _SHORT) if low <= rate <= high)


def check(sample_rate: int, bitrate: int) -> None:
    """Raise CodecError, naming what there is, for a pair that MP3 does not have."""
    if bitrate not in (legal := bitrates(sample_rate)):
        raise CodecError(f"MP3 at {sample_rate} Hz has bit rates {', '.join(map(str, legal))}, got {bitrate}")


def frame_samples(sample_rate: int) -> int:
    return 1152 if version(sample_rate) == 1 else 576


@dataclass(frozen=True, slots=True)
class Header:
    """Of one frame: bit/s, Hz, and its size in bytes, this header included."""

    bitrate: int
    sample_rate: int
    size: int


def header(data: bytes) -> Header:
    """What the first four bytes of a mono frame say. Raises CodecError where they are no such header."""
    number = next((number for number, bits in _BITS.items() if (data[1] >> 3) & 3 == bits), None)
    if data[0] != 0xFF or data[1] & 0xE6 != 0xE2 or number is None:
        raise CodecError(f"not a header of an MP3 frame: {data[:4].hex()}")
    rate, place = data[2] >> 4, (data[2] >> 2) & 3
    if not 0 < rate < 15 or place == 3:
        raise CodecError(f"not a header of an MP3 frame: {data[:4].hex()}")
    bitrate, sample_rate = 1000 * (_LONG if number == 1 else _SHORT)[rate], _RATES[number][place]
    size = frame_samples(sample_rate) // 8 * bitrate // sample_rate + ((data[2] >> 1) & 1)
    return Header(bitrate, sample_rate, size)


class Frames:
    """Looks at a stream of frames as it is written, in pieces of any size."""

    def __init__(self) -> None:
        self.begun = 0
        """Frames of sound that have begun to go by."""
        self._left = 0
        """Bytes to come of the frame that is going by."""
        self._held = b""
        self._started = False

    def push(self, data: bytes, *, keep_info: bool) -> bytes:
        """`data` again, as far as it is known what it is. A frame at the start that only tells of the others is left
        out, unless it is to be kept. Raises CodecError where a frame should begin and does not."""
        data, self._held = self._held + data, b""
        kept, at = b"", 0
        while True:
            passing = min(self._left, len(data) - at)
            at += passing
            self._left -= passing
            if self._left or len(data) - at < 4:
                break
            frame = header(data[at : at + 4])
            if not self._started:
                if len(data) - at < frame.size:
                    break
                self._started = True
                # Its words are filled in when all is known; until then only that frame has nothing at all in it.
                if not any(data[at + 4 : at + frame.size]):
                    kept = data[: frame.size] if keep_info else b""
                    data = data[frame.size :]
                    continue
            self._left = frame.size
            self.begun += 1
        self._held = data[at:]
        return kept + data[:at]
