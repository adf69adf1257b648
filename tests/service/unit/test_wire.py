"""What goes over the socket between the two processes comes out as it went in."""

import inspect
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oscine_engine import errors
from oscine_engine.errors import Cancelled, InternalError, InvalidInput, OscineError, Overloaded, Unavailable
from oscine_engine.events import Audio, Done, Flushed, Stats
from oscine_engine.options import LANGUAGES, Knobs
from oscine_engine.planner import Begin, End, Ids, Step
from oscine_engine.port import HeardVoice, PortEvent, Progress, Sounded, StreamOptions
from oscine_proto.oscine.unit.v1 import unit_pb2 as pb
from oscine_service.unit import wire

COUNTS = st.integers(0, 2**32 - 1)
SECONDS = st.floats(0, 1e9)
STEPS = st.one_of(
    st.builds(Begin, whole=st.booleans(), rate=st.floats(0.5, 2), silence_s=st.floats(0, 10)),
    st.builds(Ids, st.lists(COUNTS, max_size=9).map(tuple)),
    st.builds(End),
)
STATS = st.builds(
    Stats, SECONDS, COUNTS, COUNTS, st.none() | SECONDS, st.none() | SECONDS, COUNTS, SECONDS, COUNTS, SECONDS
)
EVENTS = st.one_of(
    st.builds(Sounded, st.integers(0, 2**63)),
    st.builds(Flushed, st.integers(0, 2**63)),
    st.builds(Progress, st.booleans(), st.integers(0, 2**63)),
    st.builds(Done, STATS),
)


KNOBS = st.builds(
    Knobs,
    temperature=st.none() | st.floats(0.1, 2),
    top_p=st.none() | st.floats(0.01, 1),
    top_k=st.none() | st.integers(1, 100),
    repetition_window=st.none() | st.integers(0, 100),
    repetition_limit=st.none() | st.integers(1, 100),
)


@given(
    st.builds(
        StreamOptions,
        voice=st.text(),
        seed=st.integers(0, 2**63 - 1),
        trim=st.booleans(),
        owner=st.text(),
        instruction=st.none() | st.text(),
        cross_lingual=st.none() | st.booleans(),
        language=st.none() | st.sampled_from(LANGUAGES),
        speed=st.floats(0.5, 2),
        knobs=KNOBS,
        word_times=st.booleans(),
    )
)
def test_options(options: StreamOptions) -> None:
    assert wire.options(sent(wire.open_request(options)).open) == options


@pytest.mark.parametrize("language", [None, "en", "zh"])
def test_a_recording_keeps_every_bit(language: Literal["en", "zh"] | None) -> None:
    samples = np.random.default_rng(0).standard_normal(2000).astype(np.float32)
    heard = HeardVoice(samples, 44100, "what was said", language)
    back = wire.options(sent(wire.open_request(StreamOptions("", 1, reference=heard))).open).reference
    assert back is not None and np.array_equal(back.samples, samples) and back.samples.dtype == np.float32
    assert (back.rate, back.transcript, back.language) == (44100, "what was said", language)


def sent(message: pb.StreamRequest) -> pb.StreamRequest:
    return pb.StreamRequest.FromString(message.SerializeToString())


@given(st.lists(STEPS, max_size=9), st.booleans(), st.booleans())
def test_text(steps: list[Step], mark: bool, end: bool) -> None:
    message = pb.StreamRequest.FromString(wire.speak_request(steps, mark=mark, end=end).SerializeToString()).speak
    assert (wire.steps(message.steps), message.mark, message.end) == (steps, mark, end)


@given(EVENTS)
def test_events(event: PortEvent) -> None:
    assert wire.event(pb.StreamResponse.FromString(wire.response(event).SerializeToString())) == event


@pytest.mark.parametrize("stride", [1, 2], ids=["contiguous", "strided"])
def test_audio_keeps_every_bit(stride: int) -> None:
    samples = np.random.default_rng(0).standard_normal(2000).astype(np.float32)[::stride]
    heard = wire.event(pb.StreamResponse.FromString(wire.response(Audio(3, 2**40, samples)).SerializeToString()))
    assert isinstance(heard, Audio)
    assert (heard.seq, heard.start_sample) == (3, 2**40)
    assert heard.samples.dtype == np.float32 and np.array_equal(heard.samples, samples)


def kinds() -> list[type[OscineError]]:
    return [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, OscineError)]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_error_keeps_its_class_and_message(kind: type[OscineError]) -> None:
    error = kind("what to do", 1.5) if kind is Overloaded else kind("what to do")  # type: ignore[call-arg]
    back = wire.error(wire.error_message(error))
    assert type(back) is (InternalError if kind is OscineError else kind)
    assert (back.code, back.message) == (kind.code, "what to do")


def test_hints_to_try_again_are_kept() -> None:
    for error in (Overloaded("full", 0.25), Unavailable("gone", 3.0), Unavailable("gone")):
        back = wire.error(wire.error_message(error))
        assert isinstance(back, type(error))
        assert back.retry_after_s == error.retry_after_s


def test_an_error_of_another_room_is_internal() -> None:
    assert type(wire.error(pb.Error(code="nobody_knows", message="m"))) is InternalError


def test_processes_that_do_not_match_say_so() -> None:
    with pytest.raises(InternalError, match="do not match"):
        wire.event(pb.StreamResponse())
    with pytest.raises(InternalError, match="do not match"):
        wire.steps([pb.Step()])
    with pytest.raises(InternalError, match="do not match"):
        wire.event(pb.StreamResponse(audio=pb.Audio(samples=b"abc")))
    with pytest.raises(InternalError, match="do not match"):
        wire.options(pb.Open(reference=pb.Recording(samples=b"abc")))


def test_a_hint_more_or_less_changes_no_error_into_another() -> None:
    assert type(wire.error(pb.Error(code="invalid_input", retry_after_seconds=1.0))) is InvalidInput
    refused = wire.error(pb.Error(code="overloaded"))
    assert isinstance(refused, Overloaded) and refused.retry_after_s == 0.0
    left = wire.error(pb.Error(code="cancelled", retry_after_seconds=7.5))
    assert isinstance(left, Cancelled) and left.heard == 0
