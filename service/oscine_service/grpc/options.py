"""What a SynthesizeConfig says of how to speak. Pure: every refusal is an InvalidInput that names the field."""

from typing import Any, Literal, TypeAlias, get_args

from oscine_engine.errors import InvalidInput
from oscine_engine.events import SessionRequest
from oscine_engine.options import ColdVoice
from oscine_proto.oscine.v1 import speech_pb2 as pb

_Optional: TypeAlias = Literal[
    "cross_lingual", "speed", "temperature", "top_p", "top_k", "repetition_window", "repetition_limit"
]
_OPTIONAL: tuple[_Optional, ...] = get_args(_Optional)


def options(config: pb.SynthesizeConfig) -> dict[str, Any]:
    """Arguments of `SessionRequest`, which checks their ranges; what is not given is not among them."""
    given: dict[str, Any] = {name: getattr(config, name) for name in _OPTIONAL if config.HasField(name)}
    if config.instruction:
        given["instruction"] = config.instruction
    if config.language:
        given["language"] = config.language
    if config.pronunciations:
        given["pronunciations"] = dict(config.pronunciations)
    if config.HasField("reference"):
        given["reference"] = _reference(config.reference)
    if config.word_times:
        given["word_times"] = True
    return given


def fill(config: pb.SynthesizeConfig, request: SessionRequest) -> None:
    """The same, written into a config by a client."""
    for name in _OPTIONAL:
        if (value := getattr(request, name)) is not None:
            setattr(config, name, value)
    config.instruction = request.instruction or ""
    config.language = request.language or ""
    config.pronunciations.update(request.pronunciations or {})
    config.word_times = request.word_times
    if (cold := request.reference) is not None:
        config.reference.audio = cold.audio
        config.reference.transcript = cold.transcript
        config.reference.language = cold.language or ""


def _reference(message: pb.Reference) -> ColdVoice:
    match message.language:
        case "":
            return ColdVoice(message.audio, message.transcript)
        case "en" | "zh" as language:
            return ColdVoice(message.audio, message.transcript, language)
        case other:
            raise InvalidInput(f"reference.language: {other!r} is unknown; use en or zh, or leave it out")
