"""Options of `oscine say`, and the same in a request to a service."""

import argparse
from pathlib import Path

import pytest

from oscine_engine.errors import InvalidInput
from oscine_engine.events import SessionRequest
from oscine_engine.options import ColdVoice
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_service.cli import speaking
from oscine_service.grpc.options import fill, options

REQUESTS = [
    SessionRequest(),
    SessionRequest(speed=1.5, language="ja", instruction="Whisper.", cross_lingual=False, word_times=True),
    SessionRequest(temperature=0.7, top_p=0.9, top_k=40, repetition_window=0, repetition_limit=2),
    SessionRequest(pronunciations={"Nguyen": "win"}, reference=ColdVoice(b"RIFF", "what was said", "en")),
    SessionRequest(cross_lingual=True, reference=ColdVoice(b"RIFF")),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=range(len(REQUESTS)))
def test_what_a_client_writes_a_service_reads(request_: SessionRequest) -> None:
    config = pb.SynthesizeConfig()
    fill(config, request_)
    assert SessionRequest(**options(pb.SynthesizeConfig.FromString(config.SerializeToString()))) == request_


def asked(*arguments: str) -> SessionRequest:
    parser = argparse.ArgumentParser()
    speaking.add_arguments(parser)
    return SessionRequest(**speaking.fields(parser.parse_args(arguments)))


def test_a_shell_asks_for_the_same(tmp_path: Path) -> None:
    assert asked() == SessionRequest()
    recording, lexicon = tmp_path / "anna.wav", tmp_path / "lexicon.tsv"
    recording.write_bytes(b"RIFF")
    lexicon.write_text("Nguyen\twin\n\n行\t[h][áng]\n", encoding="utf-8")
    request = asked(
        *("--speed", "0.8", "--language", "en", "--instruction", "Whisper.", "--lexicon", str(lexicon)),
        *("--reference", str(recording), "--transcript", "Hello.", "--temperature", "0.5", "--top-p", "1"),
        *("--top-k", "3"),
    )
    assert request == SessionRequest(
        speed=0.8,
        language="en",
        instruction="Whisper.",
        pronunciations={"Nguyen": "win", "行": "[h][áng]"},
        reference=ColdVoice(b"RIFF", "Hello."),
        temperature=0.5,
        top_p=1.0,
        top_k=3,
    )
    with pytest.raises(InvalidInput, match=r"speed: 3 is out of range; use 0\.5 to 2"):
        asked("--speed", "3")
    lexicon.write_text("Nguyen win\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match="line 1"):
        asked("--lexicon", str(lexicon))


def test_a_file_that_is_not_there_is_named_as_what_it_was_wanted_for(tmp_path: Path) -> None:
    for option, what in (("--reference", "recording"), ("--lexicon", "lexicon")):
        with pytest.raises(InvalidInput, match=rf"^cannot read the {what} '.*none': No such file"):
            asked(option, str(tmp_path / "none"))
