"""What requests of Riva's clients mean."""

import io
from collections.abc import Iterable

import pytest
import soundfile

from oscine_engine.errors import InvalidInput
from oscine_proto.nvidia_riva import riva_tts_pb2 as pb
from oscine_service.compat import riva_requests
from tests.service.recordings import recording

VOICES = {"heart": "en", "yunxi": "zh"}


def request(text: str = "", **fields: object) -> pb.SynthesizeSpeechRequest:
    return pb.SynthesizeSpeechRequest(text=text, **{"language_code": "en-US", **fields})  # type: ignore[arg-type]


def test_a_document_type_is_never_read() -> None:
    for document in ("<speak><!DOCTYPE a>Hm.</speak>", "<speak>&lol;</speak>"):
        with pytest.raises(InvalidInput, match="SSML is broken"):
            riva_requests.text(request(document))


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
