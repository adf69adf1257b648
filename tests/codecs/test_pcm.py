import numpy as np
import pytest

from oscine_codecs import pcm
from oscine_codecs.errors import CodecError


def test_every_16_bit_value_survives_a_round_trip() -> None:
    data = np.arange(-32768, 32768).astype("<i2").tobytes()
    assert pcm.encode(pcm.decode(data)) == data


def test_values_are_rounded_to_the_nearest_step_and_clipped() -> None:
    step = 1 / 32768
    data = pcm.encode(np.array([0.6 * step, 0.4 * step, -0.6 * step, 1.0, 7.0, -1.0, -7.0], dtype=np.float32))
    assert np.frombuffer(data, "<i2").tolist() == [1, 0, -1, 32767, 32767, -32768, -32768]


def test_bytes_are_little_endian() -> None:
    assert pcm.encode(np.array([1 / 32768, -2 / 32768])) == b"\x01\x00\xfe\xff"


def test_nothing_in_nothing_out() -> None:
    assert pcm.encode(np.zeros(0, np.float32)) == b""
    assert pcm.decode(b"").shape == (0,)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.array([0.0, np.nan], np.float32), "NaN"),
        (np.array([np.inf], np.float32), "NaN or infinity"),
        (np.zeros((2, 3), np.float32), "mono"),
        (np.zeros(3, np.int16), "float samples"),
    ],
)
def test_bad_samples_are_refused(samples: np.ndarray, message: str) -> None:
    with pytest.raises(CodecError, match=message):
        pcm.encode(samples)


def test_half_a_sample_is_refused() -> None:
    with pytest.raises(CodecError, match="even number of bytes, got 3"):
        pcm.decode(b"\0\0\0")
