"""gRPC messages that would take seconds to decode are refused before that."""

import pytest

from oscine_engine.errors import InvalidInput
from oscine_engine.options import MAX_LEXICON, MAX_REFERENCE_BYTES
from oscine_proto.nvidia_riva import riva_tts_pb2 as riva
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_service.compat import riva_requests
from oscine_service.conversation import Config
from oscine_service.grpc import requests
from oscine_service.grpc.many import LARGE, MOST_FIELDS, too_many


def config(words: int, audio: bytes = b"") -> pb.SynthesizeConfig:
    made = pb.SynthesizeConfig(pronunciations={f"word{number}": "x" * 100 for number in range(words)})
    if audio:
        made.reference.audio = audio
    return made


def undecodable(*_: object) -> None:
    pytest.fail("it was decoded")


class Undecoded:
    FromString = staticmethod(undecodable)


def test_what_is_as_large_as_may_be_is_taken() -> None:
    made = config(MAX_LEXICON, bytes(MAX_REFERENCE_BYTES))
    assert isinstance(requests.parse(pb.SynthesizeRequest(config=made).SerializeToString()), Config)
    whole = pb.SynthesizeTextRequest(config=made, text="x" * 60_000).SerializeToString()
    assert not isinstance(requests.parse_text(whole), InvalidInput)
    assert not isinstance(requests.parse(pb.SynthesizeRequest(text="x" * 65536).SerializeToString()), InvalidInput)


def test_a_map_of_very_many_entries_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    many = config(MOST_FIELDS + 1)
    data = pb.SynthesizeRequest(config=many).SerializeToString()
    whole = pb.SynthesizeTextRequest(config=many, text="Hello.").SerializeToString()
    entries = {f"key{number}": "x" * 100 for number in range(MOST_FIELDS + 1)}
    other = riva.SynthesizeSpeechRequest(text="Hello.", custom_configuration=entries).SerializeToString()
    # In many configs, which become one.
    pieces = b"".join(
        pb.SynthesizeRequest(config=pb.SynthesizeConfig(pronunciations={key: text})).SerializeToString()
        for key, text in entries.items()
    )
    with monkeypatch.context() as patched:
        for name in ("SynthesizeRequest", "SynthesizeTextRequest"):
            patched.setattr(pb, name, Undecoded)
        patched.setattr(riva, "SynthesizeSpeechRequest", Undecoded)
        answers = [requests.parse(data), requests.parse_text(whole), riva_requests.parse(other), requests.parse(pieces)]
    for refused in answers:
        assert isinstance(refused, InvalidInput) and "more than 1000 fields" in str(refused)


@pytest.mark.parametrize(
    ("data", "many"),
    [
        (b"\x0a\xff\xff\xff\xff\x0f" + bytes(LARGE), True),  # a length beyond the end, around fields of number 0
        (b"\x0b" + b"x" * LARGE, True),  # a group
        (b"\x08\x00" * LARGE, True),
        (b"\x0d1234" * LARGE, True),
        (b"\x0912345678" * LARGE, True),
        (b"\x0f" + b"x" * LARGE, False),  # no kind of field: it is refused by who decodes it
        (b"\xff" * LARGE * 2, False),
        (b"\x08\x00" * (LARGE // 2), False),  # small
    ],
    ids=range(8),
)
def test_any_bytes_are_counted(data: bytes, many: bool) -> None:
    assert too_many(data, inner=1) is many
