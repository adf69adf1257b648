"""float32 samples in [-1, 1] <-> little-endian PCM: signed 16 bits, or floats."""

import numpy as np
import numpy.typing as npt

from oscine_codecs.errors import CodecError

Samples = npt.NDArray[np.float32]

SCALE = 32768.0


def check(samples: npt.ArrayLike) -> Samples:
    """Return `samples` as a contiguous float32 array [n].

    Raises CodecError for other shapes, for integers (their full scale is not 1), and for NaN and infinity. Values
    beyond [-1, 1] pass; converters clip them.
    """
    array = np.asarray(samples)
    if array.ndim != 1:
        raise CodecError(f"expected mono samples of shape [n], got shape {list(array.shape)}")
    if array.dtype.kind != "f":
        raise CodecError(
            f"expected float samples in [-1, 1], got {array.dtype}; divide integer PCM by its full scale first"
        )
    array = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(array).all():
        raise CodecError("samples hold NaN or infinity")
    return array


def steps(samples: npt.ArrayLike) -> npt.NDArray[np.int16]:
    """float samples [n] -> int16 [n], rounded to the nearest step and clipped to the range.

    Scale 32768 in both directions, so every 16-bit value survives a round trip; +1.0 itself clips to 32767.
    """
    nearest = np.rint(check(samples) * np.float32(SCALE))
    clipped: npt.NDArray[np.int16] = np.clip(nearest, -32768, 32767).astype(np.int16)
    return clipped


def encode(samples: npt.ArrayLike) -> bytes:
    """float samples [n] -> 2n bytes: `steps`, little-endian."""
    data: bytes = steps(samples).astype("<i2", copy=False).tobytes()
    return data


def encode_f32(samples: npt.ArrayLike) -> bytes:
    """float samples [n] -> 4n bytes: 32-bit floats, little-endian, as they are (not clipped)."""
    data: bytes = check(samples).astype("<f4", copy=False).tobytes()
    return data


def decode(data: bytes) -> Samples:
    """2n bytes -> float32 samples [n] in [-1, 1). Raises CodecError on an odd number of bytes."""
    if len(data) % 2:
        raise CodecError(f"16-bit PCM needs an even number of bytes, got {len(data)}")
    return np.frombuffer(data, dtype="<i2").astype(np.float32) / np.float32(SCALE)


def decode_f32(data: bytes) -> Samples:
    """4n bytes -> float32 samples [n]. Raises CodecError on another number of bytes."""
    if len(data) % 4:
        raise CodecError(f"PCM of 32-bit floats needs a multiple of four bytes, got {len(data)}")
    return np.frombuffer(data, dtype="<f4").astype(np.float32, copy=False)
