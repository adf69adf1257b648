"""What a request of NVIDIA Riva's text to speech asks, in our terms. Pure.

What Riva has and this service lacks is refused with a word of what to do instead, never left out in silence.
docs/riva.md has the table.
"""

import io
import re
import wave
from collections.abc import Iterable, Mapping
from typing import Any
from xml.parsers import expat

from google.protobuf.message import DecodeError

from oscine_engine.errors import InvalidInput
from oscine_engine.events import Mode, SessionRequest
from oscine_engine.options import MAX_REFERENCE_BYTES, ColdVoice
from oscine_proto.nvidia_riva import riva_tts_pb2 as pb
from oscine_service.audio import SAMPLE_RATE, Container, Encoding, Format
from oscine_service.conversation import Config
from oscine_service.conversation.verbs import MAX_TEXT_BYTES, MAX_VOICE
from oscine_service.grpc.many import TOO_MANY, too_many

MAX_MESSAGE_BYTES = MAX_REFERENCE_BYTES + (1 << 20)
LANGUAGES = {"en": "en-US", "zh": "zh-CN"}
"""Of voices, and the code that Riva's clients know each by."""
_ENCODINGS = {
    pb.ENCODING_UNSPECIFIED: (Encoding.PCM16, Container.RAW),
    pb.LINEAR_PCM: (Encoding.PCM16, Container.RAW),
    pb.FLAC: (Encoding.FLAC, Container.RAW),
    pb.MULAW: (Encoding.MULAW, Container.RAW),
    pb.ALAW: (Encoding.ALAW, Container.RAW),
    pb.OGGOPUS: (Encoding.OPUS, Container.OGG),
}
_NUMBERS = {
    "speed": float,
    "seed": int,
    "temperature": float,
    "top_p": float,
    "top_k": int,
    "repetition_window": int,
    "repetition_limit": int,
}
_LONGEST_NUMBER = 32
"""Characters; what is cut off is out of every range."""
_STOCK_VOICE = re.compile(r"Magpie-[\w-]+\.[A-Za-z]{2}-[A-Za-z]{2}(\.[\w-]+)?|[A-Z][a-z]+-[A-Z]{2}\.[\w-]+")
"""What Riva's own voices are called: Magpie-Multilingual.EN-US.Aria, English-US.Female-1."""
_ELEMENTS = frozenset("speak p s break sub phoneme say-as prosody".split())
_UNCHANGED = frozenset(("", "default", "medium", "0", "+0", "-0", "0%", "+0%", "+0st", "0st", "+0dB", "0dB", "100%"))
_IPA = re.compile(r"[\u0250-\u02ff\u1d00-\u1dbf\u0361\u0329\u0325\u032f\u03b2\u03b8\u03c7\u00f0\u014b\u00e6\u0153]")
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_ENDS_A_SENTENCE = re.compile(r"""[.!?…。！？;；:：]["'”’)）」』\]*]*\s*$""")
_WAV_HEADS = (b"RIFF", b"fLaC", b"OggS", b"ID3", b"FORM")


def parse(data: bytes) -> pb.SynthesizeSpeechRequest | InvalidInput:
    """Returns a refusal instead of raising it: grpc would turn that into INTERNAL."""
    if len(data) > MAX_MESSAGE_BYTES:
        return InvalidInput(f"a request of {len(data)} bytes; at most {MAX_MESSAGE_BYTES} are taken")
    if too_many(data):
        return InvalidInput(TOO_MANY)
    try:
        return pb.SynthesizeSpeechRequest.FromString(data)
    except DecodeError:
        return InvalidInput("the request is not a SynthesizeSpeechRequest message, or its text is not valid UTF-8")


def config(request: pb.SynthesizeSpeechRequest, voices: Mapping[str, str]) -> Config:
    """What the first request of a call settles. voices: name -> language, of those that came with the model.

    Raises InvalidInput that names the field.
    """
    language = _language(request.language_code)
    cold = _reference(request.zero_shot_data) if request.HasField("zero_shot_data") else None
    options = _options(request.custom_configuration)
    session = SessionRequest(
        # Clients name the model's voice beside a recording: the recording is what they want to hear.
        voice=None if cold is not None else _voice(request.voice_name, language, voices),
        reference=cold,
        mode=Mode.AUTO,
        pronunciations=_pronunciations(request.custom_dictionary) or None,
        word_times=request.enable_word_time_offsets,
        **options,
    )
    return Config(session, _format(request))


def same(first: pb.SynthesizeSpeechRequest, later: pb.SynthesizeSpeechRequest) -> None:
    """Raises InvalidInput if a later request of a call asks for something else than its first, text apart."""
    for field, value in later.ListFields():
        if field.name not in ("text", "id") and value != getattr(first, field.name):
            raise InvalidInput(f"{field.name}: it cannot change within a call; open another one for that")


def text(request: pb.SynthesizeSpeechRequest) -> str:
    """What is to be said. Raises InvalidInput for too much at once, and for SSML that is broken or beyond us."""
    if (size := len(request.text.encode())) > MAX_TEXT_BYTES:
        raise InvalidInput(f"text: {size} bytes in one request; send at most {MAX_TEXT_BYTES} and go on in another")
    if not request.text.lstrip().startswith(("<speak", "<?xml")):
        return request.text
    _check_ssml(request.text.strip())
    return _DECLARATION.sub("", request.text)


def ends_a_sentence(said: str) -> bool:
    """Riva speaks each request as it comes; one that ends a sentence is not kept waiting here either."""
    return bool(_ENDS_A_SENTENCE.search(said)) or said.rstrip().endswith("</speak>")


def joint(before: str, after: str) -> str:
    """Between the texts of two requests, which clients send stripped of blanks."""
    return "" if not before or before[-1].isspace() or after[:1].isspace() else " "


def _format(request: pb.SynthesizeSpeechRequest) -> Format:
    if request.encoding not in _ENCODINGS:
        names = ", ".join(pb.AudioEncoding.Name(known) for known in _ENCODINGS if known)
        raise InvalidInput(f"encoding: {request.encoding} is unknown; use one of {names}")
    encoding, container = _ENCODINGS[request.encoding]
    try:
        return Format(encoding, request.sample_rate_hz or SAMPLE_RATE, container=container)
    except InvalidInput as error:
        raise InvalidInput(error.message.replace("sample_rate:", "sample_rate_hz:")) from error


def _language(code: str) -> str:
    """ "" for none. Only what a default voice speaks: how a text is read, its script says."""
    language = code.partition("-")[0].lower()
    language = "zh" if language == "cmn" else language
    if language and language not in LANGUAGES:
        raise InvalidInput(f"language_code: {code[:40]!r} is not spoken here; use {' or '.join(LANGUAGES.values())}")
    return language


def _voice(name: str, language: str, voices: Mapping[str, str]) -> str | None:
    """None is the model's default. A client that is left at Riva's own voice gets the first one of its language."""
    if len(name) > MAX_VOICE:
        raise InvalidInput(f"voice_name: {len(name)} characters; it has at most {MAX_VOICE}")
    if name and (name in voices or not _STOCK_VOICE.fullmatch(name)):
        return name
    return next((known for known, spoken in voices.items() if spoken == language), None)


def _reference(data: pb.ZeroShotData) -> ColdVoice:
    if not 0 <= data.quality <= 40:
        raise InvalidInput(f"zero_shot_data.quality: {data.quality} is out of range; use 1 to 40, or leave it out")
    audio = data.audio_prompt
    if data.encoding not in (pb.ENCODING_UNSPECIFIED, pb.LINEAR_PCM, pb.FLAC, pb.OGGOPUS):
        raise InvalidInput("zero_shot_data.encoding: send LINEAR_PCM, FLAC or OGGOPUS, or a whole audio file")
    if audio and data.encoding == pb.LINEAR_PCM and not audio.startswith(_WAV_HEADS):
        audio = _wav(audio, data.sample_rate_hz)
    return ColdVoice(audio, data.transcript)


def _wav(samples: bytes, rate: int) -> bytes:
    """Bare 16-bit samples as a file."""
    if not 8000 <= rate <= 192000:
        raise InvalidInput("zero_shot_data.sample_rate_hz: needed for samples without a header, 16000 to 192000")
    packed = io.BytesIO()
    with wave.open(packed, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples[: len(samples) // 2 * 2])
    return packed.getvalue()


def _options(given: Mapping[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, value in given.items():
        if name == "instruction":
            options[name] = value
        elif name in _NUMBERS:
            try:
                options[name] = _NUMBERS[name](value[:_LONGEST_NUMBER])
            except ValueError as error:
                raise InvalidInput(f"custom_configuration: {name} must be a number, not {value[:40]!r}") from error
        else:
            known = ", ".join((*_NUMBERS, "instruction"))
            raise InvalidInput(f"custom_configuration: {name[:40]!r} is not known here; there are {known}")
    return options


def _pronunciations(dictionary: str) -> dict[str, str]:
    """Riva's "word  reading,word  reading", two blanks between a word and its reading."""
    readings = {}
    for entry in filter(None, (each.strip() for each in dictionary.split(","))):
        word, gap, reading = entry.partition("  ")
        if not gap or not reading.strip():
            raise InvalidInput(f"custom_dictionary: {entry[:40]!r} is not a word, two blanks and its reading")
        if _IPA.search(reading):
            raise InvalidInput(
                f"custom_dictionary: the reading of {word[:40]!r} is in IPA, which is not read here; give a "
                "respelling, or marks such as [HH][AH0][L][OW1] or [h][ǎo]"
            )
        readings[word] = reading.strip()
    return readings


def _check_ssml(document: str) -> None:
    """Raises InvalidInput for what is no SSML, or asks for more than is read of it (`text/ssml.py` of the engine)."""

    def start(name: str, attributes: Mapping[str, str]) -> None:
        refuse = _refusal(name.rpartition(":")[2].lower(), attributes)
        if refuse:
            raise InvalidInput(f"text: {refuse}")

    def beyond(*_: object) -> None:
        raise InvalidInput("text: SSML holds elements and text here; leave out document types, instructions and CDATA")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = beyond
    parser.ProcessingInstructionHandler = beyond
    parser.StartCdataSectionHandler = beyond
    try:
        parser.Parse(document.encode(), True)
    except expat.ExpatError as error:
        raise InvalidInput(f"text: the SSML is broken: {error}; write & as &amp; and close every tag") from error


def _refusal(name: str, attributes: Mapping[str, str]) -> str:
    """ "" for an element that is read."""
    if any(sign in value for value in attributes.values() for sign in "<>"):
        return f"an attribute of <{name}> has < or > in it, which is not read here"
    if name not in _ELEMENTS:
        return f"<{name}> is not read here; there are {', '.join(sorted(_ELEMENTS))}"
    if name == "phoneme" and attributes.get("alphabet", "ipa").lower() == "ipa":
        return 'phonemes in IPA are not read here; use alphabet="arpabet" or "pinyin"'
    if name == "prosody":
        return _first(
            f"<prosody {attribute}> cannot be changed here, only the rate can"
            for attribute, value in attributes.items()
            if attribute != "rate" and value.strip() not in _UNCHANGED
        )
    return ""


def _first(reasons: Iterable[str]) -> str:
    return next(iter(reasons), "")
