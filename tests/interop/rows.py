"""Which clients are driven, over which door, and what each of them can do."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Row:
    """environment: of packages.toml. script: of clients/. kind: what the script is told beside addresses. protocol: the
    door, as metrics call it. told: the name in the table. words: the client hands word times on. way: how it breaks
    off. faults: by column of the table, what does not work and is the client's own doing."""

    environment: str
    script: str
    kind: str
    protocol: str
    told: str
    words: bool
    way: str
    language: str = "en"
    voice: str = "heart"
    faults: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return f"{self.environment}-{self.kind}"


def _pipecat(kind: str, protocol: str, told: str, words: bool, way: str) -> Row:
    return Row("pipecat", "drive_pipecat", kind, protocol, told, words, way)


def _livekit(kind: str, protocol: str, told: str, words: bool, way: str) -> Row:
    return Row("livekit", "drive_livekit", kind, protocol, told, words, way)


def _own(name: str, protocol: str, told: str, words: bool, way: str, *more: str) -> Row:
    return Row(name, f"drive_{name}", protocol, protocol, told, words, way, *more)


LEAVES = "goes on to the next turn without a word"
CLOSES = "closes the connection"
CANCELS = "cancels the call"
GOES_ON = (
    "the plugin never cancels a call: its thread goes on to ask for every sentence that it was given, one after "
    "another, and throws the sound away"
)
FINISHES = (
    "the plugin flushes every sentence as it sends it, and closes the context with the same words when a turn has "
    "ended and when it is broken off, so that what it had sent is spoken to its end, unheard"
)

ROWS = (
    _pipecat("cartesia", "cartesia", "CartesiaTTSService", True, "`cancel`"),
    _pipecat("elevenlabs", "elevenlabs", "ElevenLabsTTSService", True, "`close_context`"),
    _pipecat("deepgram", "deepgram", "DeepgramTTSService", False, "`Clear`"),
    _pipecat("openai", "openai", "OpenAITTSService", False, CLOSES),
    _pipecat("per_sentence", "riva", "NvidiaTTSService", False, CANCELS),
    _pipecat("stitched", "riva", "NvidiaTTSService, stitched", False, CANCELS),
    _livekit("cartesia", "cartesia", "cartesia.TTS", True, LEAVES),
    replace(_livekit("elevenlabs", "elevenlabs", "elevenlabs.TTS", True, ""), faults=(("interruption", FINISHES),)),
    _livekit("deepgram", "deepgram", "deepgram.TTS", False, LEAVES),
    _livekit("openai", "openai", "openai.TTS", False, CLOSES),
    replace(_livekit("nvidia", "riva", "nvidia.TTS", False, ""), faults=(("interruption", GOES_ON),)),
    _own("openai", "openai", "audio.speech, streaming", False, CLOSES),
    _own("cartesia", "cartesia", "tts.websocket_connect", True, "`cancel`"),
    _own("deepgram", "deepgram", "speak.v1.connect", False, "`Clear`"),
    _own("elevenlabs", "elevenlabs", "convert_realtime", False, CLOSES),
    _own("dashscope", "dashscope", "SpeechSynthesizer", True, "`finish-task` with `cancel`", "zh", "xiaoxiao"),
    _own("riva", "riva", "synthesize_online", True, CANCELS),
    *(
        Row(environment, "drive_oscine", protocol, protocol, "AsyncClient", True, "`cancel`")
        for environment in ("protobuf6", "protobuf7")
        for protocol in ("grpc", "websocket")
    ),
)
