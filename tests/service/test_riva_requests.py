"""What requests of Riva's clients mean."""

import contextlib
import io
from collections.abc import Iterable

import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from oscine_engine.errors import InvalidInput
from oscine_proto.nvidia_riva import riva_tts_pb2 as pb
from oscine_service.compat import riva_requests
from tests.service.recordings import recording

VOICES = {"heart": "en", "yunxi": "zh"}


def request(text: str = "", **fields: object) -> pb.SynthesizeSpeechRequest:
    return pb.SynthesizeSpeechRequest(text=text, **{"language_code": "en-US", **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("<speak><!DOCTYPE a>Hm.</speak>", "SSML is broken"),
        ("<speak>&lol;</speak>", "SSML is broken"),
        ('<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "b">]><speak>&b;</speak>', "document types"),
        ("<speak><?php x?>Hm.</speak>", "instructions"),
        ("<speak><![CDATA[<b>]]></speak>", "CDATA"),
        ('<speak><sub alias="a &gt; b">x</sub></speak>', "attribute"),
        ("<speak>Hm.</speak> and more", "SSML is broken"),
        ('<?xml version="1.0"?>Hm.', "SSML is broken"),
    ],
)
def test_ssml_that_would_not_be_read_as_it_is_meant_is_refused(document: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        riva_requests.text(request(document))


def test_a_declaration_is_left_out() -> None:
    document = ' <?xml version="1.0"?> <speak version="1.0" xml:lang="en-US">Hm.</speak>'
    assert riva_requests.text(request(document)).strip() == '<speak version="1.0" xml:lang="en-US">Hm.</speak>'


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_a_refusal(data: bytes) -> None:
    found = riva_requests.parse(data)
    assert isinstance(found, InvalidInput | pb.SynthesizeSpeechRequest)


@given(
    text=st.text(max_size=60) | st.text('<speak/>&;!?[]CDATA"= ', max_size=40).map("<speak".__add__),
    language_code=st.text(max_size=8) | st.sampled_from(("en-US", "zh-CN")),
    encoding=st.integers(-(2**31), 2**31 - 1) | st.integers(0, 21),
    sample_rate_hz=st.integers(-(2**31), 2**31 - 1) | st.sampled_from((0, 8000, 24000)),
    voice_name=st.text(max_size=220),
    custom_dictionary=st.text(max_size=40),
    custom_configuration=st.dictionaries(
        st.sampled_from(("seed", "speed", "top_k", "instruction", "x")), st.text(max_size=40) | st.text("0123456789.e-")
    ),
    zero_shot_data=st.builds(
        pb.ZeroShotData,
        audio_prompt=st.binary(max_size=50),
        sample_rate_hz=st.integers(-(2**31), 2**31 - 1),
        encoding=st.integers(0, 21),
        quality=st.integers(-1, 41),
    )
    | st.none(),
)
def test_any_fields_are_understood_or_refused(**fields: object) -> None:
    asked = pb.SynthesizeSpeechRequest(**fields)  # type: ignore[arg-type]
    for read in (riva_requests.text, lambda asked: riva_requests.config(asked, VOICES)):
        with contextlib.suppress(InvalidInput):
            read(asked)


def test_a_client_left_at_rivas_own_voice_gets_one_of_its_language() -> None:
    def voice(**fields: object) -> str | None:
        return riva_requests.config(request(**fields), VOICES).session.voice

    assert voice(voice_name="Magpie-Multilingual.EN-US.Aria") == "heart"
    assert voice(voice_name="English-US.Female-1") == "heart"
    assert voice(voice_name="Magpie-Multilingual.EN-US", language_code="zh-CN") == "yunxi"
    assert voice() == "heart" and voice(language_code="cmn-Hans-CN") == "yunxi" and voice(language_code="") is None
    assert voice(voice_name="anna") == "anna" and voice(voice_name="anna.b") == "anna.b"


def test_a_recording_and_readings_come_through() -> None:
    data = pb.ZeroShotData(audio_prompt=recording(), quality=20, transcript="Hm.")
    session = riva_requests.config(request(voice_name="Magpie-ZeroShot.Leo", zero_shot_data=data), VOICES).session
    assert session.voice is None and session.reference is not None
    assert (session.reference.audio, session.reference.transcript) == (data.audio_prompt, "Hm.")
    bare = pb.ZeroShotData(audio_prompt=bytes(48000), encoding=pb.LINEAR_PCM, sample_rate_hz=24000)
    reference = riva_requests.config(request(zero_shot_data=bare), VOICES).session.reference
    assert reference is not None and soundfile.info(io.BytesIO(reference.audio)).duration == 1.0
    asked = request(custom_dictionary="tomato  tuh mah toe,行  [h][áng]", enable_word_time_offsets=True)
    session = riva_requests.config(asked, VOICES).session
    assert session.pronunciations == {"tomato": "tuh mah toe", "行": "[h][áng]"} and session.word_times


@pytest.mark.parametrize(
    ("before", "after", "between"), [("", "a", ""), ("a.", "b", " "), ("a ", "b", ""), ("a", " b", ""), ("a", "b", " ")]
)
def test_texts_are_joined_by_one_blank(before: str, after: str, between: str) -> None:
    assert riva_requests.joint(before, after) == between


def ends(texts: Iterable[str]) -> list[bool]:
    return [riva_requests.ends_a_sentence(text) for text in texts]


def test_a_request_that_ends_a_sentence_is_not_kept_waiting() -> None:
    assert all(ends(("One.", "One!  ", "“One.”", "一。", "One:", "<speak>One</speak>")))
    assert not any(ends(("One", "One,", "3.5", "")))
