import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oscine_codecs.errors import CodecError
from oscine_codecs.framer import Framer


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 17))
def test_frames_hold_exactly_the_stream_however_it_was_cut(sizes: list[int], frame_size: int) -> None:
    stream = np.arange(1, sum(sizes) + 1, dtype=np.float32)
    framer = Framer(frame_size)
    frames = []
    at = 0
    for size in sizes:
        frames += framer.push(stream[at : at + size])
        at += size
        assert framer.total == at
        assert at - sum(frame.length for frame in frames) < frame_size, "a complete frame was held back"
    last = framer.finish()
    frames += [] if last is None else [last]

    assert all(frame.samples.shape == (frame_size,) for frame in frames)
    assert [frame.start for frame in frames] == list(range(0, len(stream), frame_size))
    assert framer.total == len(stream) == sum(frame.length for frame in frames)
    assert np.array_equal(np.concatenate([np.zeros(0), *(f.samples[: f.length] for f in frames)]), stream)
    assert all(not frame.samples[frame.length :].any() for frame in frames)


def test_frames_do_not_change_when_the_caller_reuses_its_buffer() -> None:
    framer = Framer(4)
    buffer = np.ones(6, np.float32)
    (frame,) = framer.push(buffer)
    buffer[:] = 9
    last = framer.finish()
    assert frame.samples.tolist() == [1, 1, 1, 1]
    assert last is not None
    assert last.samples.tolist() == [1, 1, 0, 0]


def test_a_finished_stream_takes_no_more() -> None:
    framer = Framer(4)
    assert framer.finish() is None
    with pytest.raises(ValueError, match="finished"):
        framer.push(np.zeros(1, np.float32))


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Framer(0)
    with pytest.raises(CodecError, match="NaN"):
        Framer(4).push(np.array([np.nan]))
