"""Wire bytes -> what a Synthesize request asks. Pure: every refusal is an InvalidInput that names the field."""

from google.protobuf.message import DecodeError

from oscine_engine.errors import InvalidInput
from oscine_engine.events import Mode, SessionRequest
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_service.audio import SAMPLE_RATE, Container, Encoding, Format
from oscine_service.conversation import (
    MAX_TEXT_BYTES,
    MAX_VOICE,
    Cancel,
    Config,
    Flush,
    Mark,
    Played,
    Text,
    Verb,
    mark_name,
    quiet_s,
    sink_name,
    text_piece,
)
from oscine_service.grpc.many import TOO_MANY, too_many
from oscine_service.grpc.options import options

MAX_REQUEST_BYTES = 1 << 20
"""Of a whole message, which is not even decoded beyond that."""
MAX_CONFIG_BYTES = 9 << 20
"""The same of one with a config, which may hold a recording."""
CONFIG = 1
"""Number of the field that is a config, in every request that has one."""
_CONFIG = b"\x0a"
"""What a message begins with whose field of that number is set."""
MAX_MESSAGE_BYTES = 1 << 24
"""What the transport takes, so that it is we who refuse a message: grpc would end the call and lose the text before."""

MODES = {
    pb.MODE_UNSPECIFIED: Mode.AUTO,
    pb.MODE_AUTO: Mode.AUTO,
    pb.MODE_SENTENCE: Mode.SENTENCE,
    pb.MODE_INTERLEAVED: Mode.INTERLEAVED,
}
ENCODINGS = {
    pb.ENCODING_UNSPECIFIED: Encoding.OPUS,
    pb.ENCODING_OPUS: Encoding.OPUS,
    pb.ENCODING_PCM16: Encoding.PCM16,
    pb.ENCODING_PCM_F32: Encoding.PCM_F32,
    pb.ENCODING_MULAW: Encoding.MULAW,
    pb.ENCODING_ALAW: Encoding.ALAW,
    pb.ENCODING_MP3: Encoding.MP3,
    pb.ENCODING_FLAC: Encoding.FLAC,
    pb.ENCODING_AAC: Encoding.AAC,
}
CONTAINERS = {
    pb.CONTAINER_UNSPECIFIED: Container.RAW,
    pb.CONTAINER_RAW: Container.RAW,
    pb.CONTAINER_OGG: Container.OGG,
    pb.CONTAINER_WAV: Container.WAV,
}


def parse(data: bytes) -> Config | Verb | InvalidInput:
    """One request message. Returns its refusal instead of raising: grpc would turn that into INTERNAL."""
    if len(data) > (MAX_CONFIG_BYTES if data.startswith(_CONFIG) else MAX_REQUEST_BYTES):
        return InvalidInput(
            f"a request of {len(data)} bytes: send text in pieces of at most {MAX_TEXT_BYTES} bytes, one after another"
        )
    if too_many(data, inner=CONFIG):
        return InvalidInput(TOO_MANY)
    try:
        return _request(pb.SynthesizeRequest.FromString(data))
    except DecodeError:
        return InvalidInput("the request is not a SynthesizeRequest message, or its text is not valid UTF-8")
    except InvalidInput as error:
        return error


def parse_text(data: bytes) -> tuple[Config, Text] | InvalidInput:
    """A request of SynthesizeText, as `parse` does."""
    if len(data) > MAX_CONFIG_BYTES:
        return InvalidInput(f"a request of {len(data)} bytes: it may have {MAX_CONFIG_BYTES}")
    if too_many(data, inner=CONFIG):
        return InvalidInput(TOO_MANY)
    try:
        message = pb.SynthesizeTextRequest.FromString(data)
        if (size := len(message.text.encode())) > MAX_REQUEST_BYTES:
            raise InvalidInput(f"text: {size} bytes; send at most {MAX_REQUEST_BYTES}, or more through Synthesize")
        return _config(message.config), Text(message.text)
    except DecodeError:
        return InvalidInput("the request is not a SynthesizeTextRequest message, or its text is not valid UTF-8")
    except InvalidInput as error:
        return error


def _request(message: pb.SynthesizeRequest) -> Config | Verb:
    match message.WhichOneof("request"):
        case "config":
            return _config(message.config)
        case "text":
            return text_piece(message.text)
        case "flush":
            return Flush()
        case "played":
            return Played(message.played.samples)
        case "cancel":
            return Cancel()
        case "mark":
            return Mark(mark_name(message.mark.name))
        case _:
            raise InvalidInput("the request is empty: set one of config, text, flush, mark, played and cancel")


def _config(config: pb.SynthesizeConfig) -> Config:
    if len(config.voice) > MAX_VOICE:
        raise InvalidInput(f"config.voice: a name of {len(config.voice)} characters; it has at most {MAX_VOICE}")
    if config.mode not in MODES:
        raise InvalidInput(f"config.mode: {config.mode} is unknown; use one of {', '.join(pb.Mode.keys()[1:])}")
    if config.sink and config.HasField("audio"):
        raise InvalidInput("config.audio: a telephone call has a format of its own; leave it out beside sink")
    return Config(
        session=SessionRequest(
            voice=config.voice or None,
            mode=MODES[config.mode],
            seed=config.seed if config.HasField("seed") else None,
            trim=config.trim if config.HasField("trim") else True,
            quiet_s=quiet_s(config.quiet_ms, "config.quiet_ms") if config.HasField("quiet_ms") else None,
            **options(config),
        ),
        format=_format(config.audio),
        sink=sink_name(config.sink),
    )


def _format(audio: pb.AudioFormat) -> Format:
    if audio.encoding not in ENCODINGS:
        raise InvalidInput(
            f"config.audio.encoding: {audio.encoding} is unknown; use one of {', '.join(pb.Encoding.keys()[1:])}"
        )
    if audio.container not in CONTAINERS:
        raise InvalidInput(
            f"config.audio.container: {audio.container} is unknown; use one of {', '.join(pb.Container.keys()[1:])}"
        )
    try:
        return Format(
            ENCODINGS[audio.encoding], audio.sample_rate or SAMPLE_RATE, audio.bitrate, CONTAINERS[audio.container]
        )
    except InvalidInput as error:
        raise InvalidInput(f"config.audio.{error}") from error
