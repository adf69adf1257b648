"""The half of an engine that needs no model: text rules, the names of voices, and sessions in front of any port."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oscine_engine.checkpoint import configuration, layout
from oscine_engine.errors import CheckpointError, InvalidInput, Overloaded, UnknownVoice
from oscine_engine.events import SessionRequest, Started
from oscine_engine.options import LANGUAGES, ColdVoice
from oscine_engine.planner import Planner
from oscine_engine.port import HeardVoice, Port, StreamOptions
from oscine_engine.session import Clock, Session, SessionLimits
from oscine_engine.text import japanese
from oscine_engine.text.front_end import FrontEnd
from oscine_engine.text.pronunciations import Pronunciations
from oscine_engine.text.tokenizer import Tokenizer
from oscine_engine.voices import forms, transcript
from oscine_engine.voices.catalogue import unknown
from oscine_engine.word_times.features import RATE

MAX_SEED = 2**63 - 1
DRAWN_SEEDS = 2**53
"""As many as JavaScript has integers: who is told a seed can ask for it again."""

DECODING = 2
"""Recordings that are decoded at a time."""
MOST_RECORDED, RETRY_S = 64 << 20, 1.0
"""Bytes of recordings that may wait for that, and when to try again with one that may not."""
Decode = Callable[[bytes], tuple[NDArray[np.float32], int]]
"""An audio file -> mono samples in [-1, 1] and their rate in Hz. Raises InvalidInput for what is none."""


@dataclass(frozen=True, slots=True)
class VoiceInfo:
    """What a client may know of a voice. language: "en" or "zh"."""

    language: str
    description: str


def read_front_end(model: Path | None) -> FrontEnd:
    """Text rules and tokenizer of a model directory (None: the embedded voice); the weights stay where they are.

    Raises CheckpointError for a directory that does not fit.
    """
    files = layout.find(model)
    config = configuration.read_config(files)
    return FrontEnd(config.text.front_end, Tokenizer.load(files.text_model))


class Front:
    """Opens sessions. `voices` by name, the first is the default; `sample_rate` in Hz."""

    def __init__(
        self,
        port: Port,
        front_end: FrontEnd,
        voices: Mapping[str, VoiceInfo],
        sample_rate: int,
        limits: SessionLimits | None = None,
        clock: Clock | None = None,
        stored: bool = False,
        decode: Decode | None = None,
    ) -> None:
        """clock: what sessions wait by; None is the event loop each is opened in. stored: the port has a store of more
        voices than `voices`, and says itself which of them there are. decode: reads recordings that requests bring
        along to be spoken after; None: none are taken."""
        self.voices = voices
        self.sample_rate = sample_rate
        self._port = port
        self._front_end = front_end
        self._limits = limits or SessionLimits()
        self._clock = clock
        self._stored = stored
        self._decode = decode
        # Other sessions need these threads, too, and a file can be made to keep one busy.
        self._decoding = asyncio.Semaphore(DECODING)
        self._recorded = 0

    @property
    def serving(self) -> bool:
        """Sessions can be opened."""
        return self._port.serving

    def warm(self) -> None:
        """Load the dictionaries, so that the first listener does not wait for them. Takes half a second, once."""
        self._front_end.warm()

    async def open(self, request: SessionRequest | None = None) -> Session:
        """A new session. Raises UnknownVoice, InvalidInput, StoreError, and what the port refuses with: Overloaded with
        a hint, or Unavailable while there is no engine that could speak."""
        request = request or SessionRequest()
        self._check(request)
        if request.language == "ja":
            await asyncio.to_thread(japanese.load)
        readings = None if not request.pronunciations else Pronunciations(request.pronunciations)
        voice = "" if request.reference is not None else self._voice(request)
        seed = secrets.randbelow(DRAWN_SEEDS) if request.seed is None else request.seed
        if not 0 <= seed <= MAX_SEED:
            raise InvalidInput(f"seed: {seed} is out of range; use 0 to {MAX_SEED}, or leave it out")
        if request.word_times and self.sample_rate != RATE:
            raise InvalidInput(f"word_times: words are timed at {RATE} Hz, and this model speaks at {self.sample_rate}")
        limits = self._limits if request.quiet_s is None else replace(self._limits, quiet_s=request.quiet_s)
        heard = None if request.reference is None else await self._heard(request.reference)
        return await Session.open(
            self._port,
            StreamOptions(
                voice,
                seed,
                request.trim,
                owner=request.owner,
                reference=heard,
                instruction=request.instruction,
                cross_lingual=request.cross_lingual,
                language=request.language,
                speed=request.speed,
                knobs=request.knobs,
                word_times=request.word_times,
            ),
            Planner(
                self._front_end,
                request.mode,
                words=request.word_times,
                language=request.language,
                pronunciations=readings,
            ),
            Started(voice=voice, mode=request.mode, seed=seed, sample_rate=self.sample_rate),
            limits,
            self._clock,
        )

    def _voice(self, request: SessionRequest) -> str:
        """The name of the voice that is asked for. Whether it is there, the port says."""
        voice = request.voice if request.voice is not None else next(iter(self.voices), None)
        if voice is None:
            if self._stored:
                raise InvalidInput("this model has no voice of its own: name one of the voice store")
            raise CheckpointError("this model has no voices: add spk2info.pt to its directory")
        self.check_voice(voice)
        return voice

    def check_voice(self, name: str) -> None:
        """Raises UnknownVoice for one that is surely none: where there is a store, the port says."""
        if name not in self.voices and not self._stored:
            raise UnknownVoice(unknown(name, self.voices))

    def _check(self, request: SessionRequest) -> None:
        """Raises InvalidInput for what this model, or this service, cannot do."""
        if request.instruction is not None:
            forms.instructed(self._front_end.rules, request.instruction)
        readable = LANGUAGES if self._front_end.rules == "plain" else ("zh", "en")
        if request.language is not None and request.language not in readable:
            raise InvalidInput(
                f"language: this model does not read {request.language!r}; it reads {' and '.join(readable)}"
            )
        if request.language == "ja":
            japanese.require()

    async def _heard(self, cold: ColdVoice) -> HeardVoice:
        """Decoded outside the event loop. Raises Overloaded where too much waits for that."""
        if self._decode is None:
            raise InvalidInput(
                "reference: this service does not speak after recordings that come with a request; name a voice, or "
                "start it with references allowed"
            )
        transcript.check_letters(cold.transcript, self._front_end.rules, "reference.transcript")
        size = len(cold.audio)
        if self._recorded + size > MOST_RECORDED:
            raise Overloaded(f"{self._recorded} bytes of recordings wait to be heard already; try again", RETRY_S)
        self._recorded += size
        try:
            await self._decoding.acquire()
        finally:
            self._recorded -= size
        decoding = asyncio.ensure_future(asyncio.to_thread(self._decode, cold.audio))
        decoding.add_done_callback(self._decoded)
        samples, rate = await asyncio.shield(decoding)
        return HeardVoice(samples, rate, cold.transcript, cold.language)

    def _decoded(self, done: asyncio.Future[tuple[NDArray[np.float32], int]]) -> None:
        """A thread is free again, which is not when whoever waited for it gave up."""
        self._decoding.release()
        if not done.cancelled():
            done.exception()  # perhaps nobody is left to be told of it
