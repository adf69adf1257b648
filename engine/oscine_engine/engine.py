"""A whole engine in one process: load a model, open sessions."""

import asyncio
from types import TracebackType
from typing import Self

import torch

from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.front import Decode, Front, VoiceInfo
from oscine_engine.lm.vllm_engine import starter
from oscine_engine.runtime.device import Device, Load
from oscine_engine.runtime.trace import Observe
from oscine_engine.settings import EngineSettings
from oscine_engine.text.front_end import FrontEnd
from oscine_engine.voices.store import VoiceStore

__all__ = ["Engine", "EngineSettings", "Load"]


class Engine(Front):
    """Speech from text, in real time. `async with Engine.load(settings) as engine:` starts and stops it.

    Outside that block `open` raises Cancelled. observe: told what the device does, for measuring. decode: reads what
    requests bring along to be spoken after, where the settings allow references.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        settings: EngineSettings,
        observe: Observe | None = None,
        decode: Decode | None = None,
    ) -> None:
        store = None if settings.voices is None else VoiceStore(settings.voices)
        lm = None if settings.vllm is None else starter(checkpoint.config, settings.vllm, settings.device)
        self._device = Device(
            checkpoint,
            settings,
            settings.device,
            precision=settings.precision,
            store=store,
            references=settings.references,
            lm=lm,
            observe=observe,
        )
        super().__init__(
            self._device.loop,
            FrontEnd(checkpoint.config.text.front_end, checkpoint.tokenizer),
            {name: VoiceInfo(voice.language, voice.description) for name, voice in self._device.voices.items()},
            self._device.sample_rate,
            settings.session,
            stored=store is not None,
            decode=decode if settings.references else None,
        )

    @classmethod
    def load(
        cls, settings: EngineSettings | None = None, observe: Observe | None = None, decode: Decode | None = None
    ) -> Self:
        """Load the model. Takes seconds; nothing runs yet. Raises CheckpointError for a model that does not fit."""
        settings = settings or EngineSettings()
        torch.set_num_threads(settings.threads)
        return cls(load(settings.model, device=settings.device, lm_file=settings.lm_file), settings, observe, decode)

    @property
    def failed(self) -> bool:
        """The device loop has met a fault it cannot go on from: every session has ended and none will open."""
        return self._device.failed

    @property
    def load_now(self) -> Load:
        """What running sessions hold at this moment."""
        return self._device.load_now

    async def __aenter__(self) -> Self:
        # The dictionaries too, so that the first listener waits for nothing.
        await asyncio.to_thread(self.warm)
        await asyncio.to_thread(self._device.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._device.close)
