"""The public face of the engine: load a model, open sessions."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import torch

from oscine_engine.checkpoint.layout import LMFile
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.errors import CheckpointError, InvalidInput, UnknownVoice
from oscine_engine.events import SessionRequest
from oscine_engine.planner import Planner
from oscine_engine.runtime.device import Device, DeviceLimits
from oscine_engine.session import Session
from oscine_engine.text.front_end import FrontEnd
from oscine_engine.voices.prompt import VoicePrompt


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Limits of one engine.

    model: a model directory; None is the embedded voice. lm_file: "llm", or "llm.rl" for the reinforced variant.
    threads: CPU threads of one tick, set for the whole process; the embedded voice's steps are too short to share out.
    max_streams: sessions at once. max_waiting_s: seconds of audio computed ahead of what the listener's side took.
    Raises InvalidInput for limits that nothing could run under.
    """

    model: Path | None = None
    lm_file: LMFile = "llm"
    device: str = "cpu"
    threads: int = 1
    max_streams: int = 8
    max_waiting_s: float = 10.0

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise InvalidInput(f"threads must be at least 1, not {self.threads}")
        _ = self.limits

    @property
    def limits(self) -> DeviceLimits:
        return DeviceLimits(self.max_streams, self.max_waiting_s)


class Load(NamedTuple):
    """`pages`: of both pools, the voices' own left out."""

    streams: int
    pages: int


class Engine:
    """Speech from text, in real time. `async with Engine.load(settings) as engine:` starts and stops it."""

    def __init__(self, checkpoint: Checkpoint, settings: EngineSettings) -> None:
        self._front_end = FrontEnd(checkpoint.config.text.front_end, checkpoint.tokenizer)
        self._device = Device(checkpoint, settings.limits, settings.device)
        self._loop = self._device.loop
        self.sample_rate = self._device.sample_rate

    @classmethod
    def load(cls, settings: EngineSettings | None = None) -> Self:
        """Load the model. Takes seconds; nothing runs yet. Raises CheckpointError for a model that does not fit."""
        settings = settings or EngineSettings()
        torch.set_num_threads(settings.threads)
        return cls(load(settings.model, device=settings.device, lm_file=settings.lm_file), settings)

    @property
    def voices(self) -> Mapping[str, VoicePrompt]:
        """By name; the first is the default."""
        return self._device.voices

    @property
    def failed(self) -> bool:
        """The device loop has met a fault it cannot go on from: every session has ended and none will open."""
        return self._loop.failed

    @property
    def load_now(self) -> Load:
        """What running sessions hold at this moment."""
        return Load(self._loop.admitted, self._device.pages_held)

    async def open(self, request: SessionRequest | None = None) -> Session:
        """A new session. Raises UnknownVoice, InvalidInput, Overloaded when `max_streams` are running, Unavailable
        once the engine has failed, or Cancelled outside its `async with` block."""
        request = request or SessionRequest()
        voice = request.voice if request.voice is not None else next(iter(self.voices), None)
        if voice is None:
            raise CheckpointError("this model has no voices: add spk2info.pt to its directory")
        if voice not in self.voices:
            raise UnknownVoice(f"there is no voice {voice!r}; this model has {', '.join(self.voices)}")
        return Session(self._loop, Planner(self._front_end, request.mode), voice, request, self.sample_rate)

    async def __aenter__(self) -> Self:
        # The dictionaries too, so that the first listener waits for nothing.
        await asyncio.to_thread(self._front_end.warm)
        await asyncio.to_thread(self._device.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._device.close)
