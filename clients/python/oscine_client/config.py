"""How a call is to speak."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Reference:
    """A recording to speak after: a whole audio file of 3 to 10 s, and what is said in it. language: "en" or "zh"."""

    audio: bytes
    transcript: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """What is left out is up to the service, which tells in `Started` what it uses.

    voice: a name. encoding: opus, pcm16, pcm_f32, mulaw, alaw, mp3, flac or aac. container: raw, ogg (Opus) or wav.
    sample_rate: in Hz, 8000 to 48000; 0 is 24000. bitrate: bit/s; 0 is the encoding's own.
    mode: "auto" (the first sentence while it is being written), "sentence" (whole ones) or "interleaved" (all as they
    are written). seed: the same seed, voice, mode and text give the same speech. trim: shorten silence around
    sentences. quiet_ms: a sentence that looks finished is spoken after so long without more text, 0: never.

    instruction: how to speak, for models that follow one. language, cross_lingual: of the text, if not the voice's.
    speed: 0.5 to 2. temperature, top_p, top_k, repetition_window, repetition_limit: how speech is drawn.
    pronunciations: word -> what is read in its place. reference: a recording to speak after, in place of `voice`.
    word_times: tell when each word sounds. sink: a telephone call to speak into, which has a format of its own.
    """

    voice: str = ""
    encoding: str = "opus"
    sample_rate: int = 0
    bitrate: int = 0
    container: str = "raw"
    mode: str = "auto"
    seed: int | None = None
    trim: bool | None = None
    quiet_ms: int | None = None
    instruction: str = ""
    language: str = ""
    cross_lingual: bool | None = None
    speed: float | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repetition_window: int | None = None
    repetition_limit: int | None = None
    pronunciations: Mapping[str, str] = field(default_factory=dict)
    reference: Reference | None = None
    word_times: bool = False
    sink: str = ""
