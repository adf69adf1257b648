"""Opus packets <-> mono float32 samples, over opuslib and the system's libopus.

opuslib's high-level classes are passed by: their FEC setter asks without a value, and their error text fails on the
messages they raise themselves. We call the C functions opuslib binds and word errors with libopus' own text.
"""

import ctypes
import ctypes.util
import functools
import weakref
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from oscine_codecs import pcm
from oscine_codecs.errors import CodecError, CodecMissing

SAMPLE_RATES = (8000, 12000, 16000, 24000, 48000)
MIN_BITRATE, MAX_BITRATE = 6000, 510000
DEFAULT_BITRATE = 32000
FRAME_RATE = 50  # 20 ms frames
# RFC 6716: section 3.2.1 bounds one frame's bytes, section 3.2.5 a packet's duration (120 ms).
_MAX_PACKET_BYTES = 1276
_MAX_PACKET_FRAMES_OF_20_MS = 6


@functools.cache
def _opuslib() -> ModuleType:
    """opuslib with its low-level modules loaded; it cannot even be imported without libopus, so not at our import."""
    require()
    import opuslib.api.ctl
    import opuslib.api.decoder
    import opuslib.api.encoder
    import opuslib.api.info

    module: ModuleType = opuslib
    return module


@functools.cache
def available() -> bool:
    """Whether libopus is installed, so that Opus can be offered at all. Looked up once: a search starts processes."""
    return ctypes.util.find_library("opus") is not None


def require() -> None:
    """Raise CodecMissing, which tells how to install it, if libopus is not there."""
    if not available():
        raise CodecMissing("the Opus library is missing; install libopus0 (apt-get install libopus0), then start again")


@functools.cache
def _encode() -> Any:
    """libopus' function by address: what opuslib declares wants a pointer object for every frame."""
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int32
    )
    return kind(("opus_encode_float", _opuslib().api.libopus))


def _checked(result: int, doing: str) -> int:
    """`result` if it is not an error code of libopus; otherwise raise CodecError with libopus' text for it."""
    if result < 0:
        text = _opuslib().api.info.strerror(result).decode()
        raise CodecError(f"Opus could not {doing}: {text} ({result})")
    return result


def _check_rate(sample_rate: int) -> None:
    if sample_rate not in SAMPLE_RATES:
        raise CodecError(f"Opus takes sample rates {', '.join(map(str, SAMPLE_RATES))} Hz, got {sample_rate}")


def _floats(samples: pcm.Samples) -> Any:
    return samples.ctypes.data_as(_opuslib().api.c_float_pointer)


class OpusEncoder:
    """One stream's encoder: 20 ms frames in order, one packet each. It carries state, so never share it.

    `bitrate` in bit/s, `complexity` 0 to 10, `fec` adds in-band error correction tuned for `packet_loss` percent.
    """

    def __init__(
        self,
        sample_rate: int = 24000,
        *,
        bitrate: int = DEFAULT_BITRATE,
        complexity: int = 5,
        fec: bool = False,
        packet_loss: int = 0,
    ) -> None:
        _check_rate(sample_rate)
        if not MIN_BITRATE <= bitrate <= MAX_BITRATE:
            raise CodecError(f"Opus bitrate must be {MIN_BITRATE} to {MAX_BITRATE} bit/s, got {bitrate}")
        if not 0 <= complexity <= 10:
            raise CodecError(f"Opus complexity must be 0 to 10, got {complexity}")
        if not 0 <= packet_loss <= 100:
            raise CodecError(f"packet_loss must be 0 to 100 percent, got {packet_loss}")
        self.sample_rate = sample_rate
        self.frame_size = sample_rate // FRAME_RATE

        opuslib = _opuslib()
        code = ctypes.c_int()
        create = opuslib.api.encoder.libopus_create
        self._state = create(sample_rate, 1, opuslib.APPLICATION_AUDIO, ctypes.byref(code))
        _checked(code.value, "create an encoder")
        weakref.finalize(self, opuslib.api.encoder.destroy, self._state)
        for request, value in (
            (opuslib.SET_BITRATE_REQUEST, bitrate),
            (opuslib.SET_COMPLEXITY_REQUEST, complexity),
            (opuslib.SET_SIGNAL_REQUEST, opuslib.SIGNAL_VOICE),
            (opuslib.SET_INBAND_FEC_REQUEST, int(fec)),
            (opuslib.SET_PACKET_LOSS_PERC_REQUEST, packet_loss),
        ):
            self._control(request, ctypes.c_int(value))
        self.lookahead = self._get(opuslib.GET_LOOKAHEAD_REQUEST)
        """Samples, at this encoder's rate, by which decoded sound lags its input."""

    @property
    def pre_skip(self) -> int:
        """The lookahead in 48 kHz units, as Ogg Opus headers state it."""
        return self.lookahead * 48000 // self.sample_rate

    @property
    def bitrate(self) -> int:
        """The bit rate libopus aims for, bit/s."""
        return self._get(_opuslib().GET_BITRATE_REQUEST)

    @property
    def fec(self) -> bool:
        """Whether libopus adds in-band error correction."""
        return bool(self._get(_opuslib().GET_INBAND_FEC_REQUEST))

    def encode(self, frame: npt.ArrayLike) -> bytes:
        """Float samples [frame_size] in [-1, 1] (clipped beyond) -> one packet. Raises CodecError on other lengths."""
        samples = pcm.check(frame)
        if len(samples) != self.frame_size:
            raise CodecError(f"an Opus frame here has {self.frame_size} samples, got {len(samples)}; use a Framer")
        return self.encode_all(samples)[0]

    def encode_all(self, frames: npt.ArrayLike) -> list[bytes]:
        """Any number of frames in a row -> their packets. Python's lock is held for some microseconds a packet only."""
        samples = np.clip(pcm.check(frames), -1.0, 1.0)
        size = self.frame_size
        if len(samples) % size:
            raise CodecError(f"Opus frames here have {size} samples each, got {len(samples)} in all; use a Framer")
        encode, state, room = _encode(), self._state, ctypes.create_string_buffer(_MAX_PACKET_BYTES)
        first, step = samples.ctypes.data, size * samples.itemsize
        packets = []
        for place in range(first, first + samples.nbytes, step):
            count = encode(state, place, size, room, _MAX_PACKET_BYTES)
            packets.append(room.raw[: _checked(count, "encode a frame")])
        return packets

    def _control(self, request: int, value: Any) -> None:
        _checked(_opuslib().api.encoder.libopus_ctl(self._state, request, value), f"apply encoder request {request}")

    def _get(self, request: int) -> int:
        value = ctypes.c_int()
        self._control(request, ctypes.byref(value))
        return value.value


class OpusDecoder:
    """One stream's decoder: packets in order, mono samples out (stereo packets are mixed down by libopus)."""

    def __init__(self, sample_rate: int = 24000) -> None:
        _check_rate(sample_rate)
        self.sample_rate = sample_rate
        self.frame_size = sample_rate // FRAME_RATE
        opuslib = _opuslib()
        code = ctypes.c_int()
        self._state = opuslib.api.decoder.libopus_create(sample_rate, 1, ctypes.byref(code))
        _checked(code.value, "create a decoder")
        weakref.finalize(self, opuslib.api.decoder.destroy, self._state)

    def decode(self, packet: bytes) -> pcm.Samples:
        """One packet -> its float32 samples [n], up to 120 ms. Raises CodecError if it is empty or corrupt."""
        if not packet:
            raise CodecError("an Opus packet cannot be empty; use conceal() for a lost one")
        return self._decode(packet, self.frame_size * _MAX_PACKET_FRAMES_OF_20_MS)

    def conceal(self) -> pcm.Samples:
        """The decoder's guess for one lost 20 ms packet: float32 samples [frame_size]."""
        return self._decode(None, self.frame_size)

    def _decode(self, packet: bytes | None, room: int) -> pcm.Samples:
        samples = np.empty(room, dtype=np.float32)
        decode = _opuslib().api.decoder.libopus_decode_float
        count = decode(self._state, packet, len(packet or b""), _floats(samples), room, 0)
        return samples[: _checked(count, "decode a packet")]
