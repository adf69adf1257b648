"""The public face of the engine: load a model, open sessions."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import torch

from oscine_engine.checkpoint.layout import LMFile
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.errors import CheckpointError, InvalidInput, UnknownVoice
from oscine_engine.events import SessionRequest
from oscine_engine.flow.runner import FlowPrefix, FlowRunner
from oscine_engine.flow.runner import page_shape as flow_page_shape
from oscine_engine.lm.interleave import Prompt
from oscine_engine.lm.packed import page_shape as lm_page_shape
from oscine_engine.lm.runner import LMRunner
from oscine_engine.planner import Planner
from oscine_engine.runtime.device_loop import DeviceLoop
from oscine_engine.runtime.pages import PagePool
from oscine_engine.runtime.stages import Segment, Stages
from oscine_engine.session import Session
from oscine_engine.text.front_end import FrontEnd
from oscine_engine.vocoder.runner import VocoderRunner
from oscine_engine.voices.prompt import VoicePrompt, aligned

MAX_SEGMENT_S = 30
"""Longest segment, in seconds: what the pools are sized for."""
HEAD_START = 10
"""New tokens in a stream's first chunk: 320 ms of sound from 13 speech ids. Above 22 the one before would stay open."""
LM_PAGE_TOKENS = 256
"""Most sentences fit one page, whose keys and values are then read in place; several must be copied together."""
LM_POSITIONS_PER_ID = 2
"""Positions of the language model's cache per speech id: itself and its share of text and prompt, with room."""


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
        for name in ("threads", "max_streams"):
            if (count := getattr(self, name)) < 1:
                raise InvalidInput(f"{name} must be at least 1, not {count}")
        if not 0 < self.max_waiting_s < math.inf:
            raise InvalidInput(f"max_waiting_s must be a number of seconds above 0, not {self.max_waiting_s}")


class Prompts(NamedTuple):
    """One voice before sentences read whole and before those read as they come."""

    whole: Prompt
    interleaved: Prompt


class Load(NamedTuple):
    """`pages`: of both pools, the voices' own left out."""

    streams: int
    pages: int


class Engine:
    """Speech from text, in real time. `async with Engine.load(settings) as engine:` starts and stops it."""

    def __init__(self, checkpoint: Checkpoint, settings: EngineSettings) -> None:
        config = checkpoint.config
        longest = MAX_SEGMENT_S * config.flow.input_frame_rate
        self._longest = longest
        lm_pages = -(-(longest * LM_POSITIONS_PER_ID) // LM_PAGE_TOKENS)
        chunk_tokens = config.flow.dit.static_chunk_size // config.flow.token_mel_ratio
        self._voices = {name: aligned(voice, chunk_tokens, HEAD_START) for name, voice in checkpoint.voices.items()}
        voice_pages = sum(-(-v.flow_speech_tokens.numel() // chunk_tokens) for v in self._voices.values())
        flow_pages = -(-longest // chunk_tokens) + 1

        lm_pool = PagePool(
            settings.max_streams * 2 * lm_pages, lm_page_shape(config.lm, LM_PAGE_TOKENS), device=settings.device
        )
        flow_pool = PagePool(
            voice_pages + settings.max_streams * flow_pages,
            flow_page_shape(config.flow, config.n_timesteps),
            device=settings.device,
        )
        self._lm = LMRunner(checkpoint.lm, lm_pool, config.sampling, config.text)
        self._flow = FlowRunner(checkpoint.flow, flow_pool, config.n_timesteps, checkpoint.noise.rand_noise)
        self._vocoder = VocoderRunner(
            checkpoint.vocoder, checkpoint.noise.sine_waves(MAX_SEGMENT_S * config.vocoder.sampling_rate)
        )
        self._tokenizer = checkpoint.tokenizer
        self._front_end = FrontEnd(config.text.front_end, checkpoint.tokenizer)
        self._prefixes: dict[str, FlowPrefix] = {}
        self._prompts: dict[str, Prompts] = {}
        self.sample_rate = config.vocoder.sampling_rate
        self._loop = DeviceLoop(
            Stages(self._lm, self._flow, self._vocoder),
            self._open_segment,
            sample_rate=self.sample_rate,
            max_streams=settings.max_streams,
            max_waiting_s=settings.max_waiting_s,
        )

    @classmethod
    def load(cls, settings: EngineSettings | None = None) -> Self:
        """Load the model. Takes seconds; nothing runs yet. Raises CheckpointError for a model that does not fit."""
        settings = settings or EngineSettings()
        torch.set_num_threads(settings.threads)
        return cls(load(settings.model, device=settings.device, lm_file=settings.lm_file), settings)

    @property
    def voices(self) -> Mapping[str, VoicePrompt]:
        """By name; the first is the default."""
        return self._voices

    @property
    def failed(self) -> bool:
        """The device loop has met a fault it cannot go on from: every session has ended and none will open."""
        return self._loop.failed

    @property
    def load_now(self) -> Load:
        """What running sessions hold at this moment."""
        pools = (self._lm.pool, self._flow.pool)
        voices = sum(len(prefix.pages) for prefix in self._prefixes.values())
        return Load(self._loop.admitted, sum(pool.num_pages - pool.num_free for pool in pools) - voices)

    async def open(self, request: SessionRequest | None = None) -> Session:
        """A new session. Raises UnknownVoice, InvalidInput, Overloaded when `max_streams` are running, Unavailable
        once the engine has failed, or Cancelled outside its `async with` block."""
        request = request or SessionRequest()
        voice = request.voice if request.voice is not None else next(iter(self._voices), None)
        if voice is None:
            raise CheckpointError("this model has no voices: add spk2info.pt to its directory")
        if voice not in self._voices:
            raise UnknownVoice(f"there is no voice {voice!r}; this model has {', '.join(self._voices)}")
        return Session(self._loop, Planner(self._front_end, request.mode), voice, request, self.sample_rate)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._warm_up)
        self._loop.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._loop.close)

    def _warm_up(self) -> None:
        """Load the dictionaries and register every voice, so that the first listener waits for neither."""
        self._front_end.warm()
        for name, voice in self._voices.items():
            self._prefixes[name] = self._flow.register(voice.flow_speech_tokens, voice.mel, voice.embedding)
            self._prompts[name] = self._read(voice)

    def _read(self, voice: VoicePrompt) -> Prompts:
        short = whole = Prompt(tuple(self._tokenizer.encode(voice.prompt_text)))
        if voice.lm_speech_tokens.numel():
            # An interleaved start would have to wait for the text of this speech (it is laid in blocks of its own).
            transcript = tuple(self._front_end.whole(voice.transcript))
            whole = replace(short, transcript=transcript, speech=tuple(voice.lm_speech_tokens.tolist()))
        return Prompts(whole, short)

    def _open_segment(self, name: str, whole: bool, seed: int) -> Segment:
        prompts = self._prompts[name]
        prompt = prompts.whole if whole else prompts.interleaved
        return Segment(
            lm=self._lm.open(prompt, mode="whole" if whole else "interleaved", seed=seed, limit=self._longest),
            prefix=self._prefixes[name],
            vocoder=self._vocoder.open(),
        )
