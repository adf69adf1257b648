"""Everything that touches a model: runners, pools, the voices' pages and prompts, and the loop over them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.errors import InvalidInput
from oscine_engine.flow.runner import FlowPrefix, FlowRunner
from oscine_engine.flow.runner import page_shape as flow_page_shape
from oscine_engine.lm.interleave import Prompt
from oscine_engine.lm.packed import page_shape as lm_page_shape
from oscine_engine.lm.runner import LMRunner
from oscine_engine.runtime.device_loop import DeviceLoop
from oscine_engine.runtime.pages import PagePool
from oscine_engine.runtime.stages import Segment, Stages
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
class DeviceLimits:
    """max_streams: streams at once. max_waiting_s: seconds of audio computed ahead of what the listener's side took.

    Raises InvalidInput for limits that nothing could run under.
    """

    max_streams: int = 8
    max_waiting_s: float = 10.0

    def __post_init__(self) -> None:
        if self.max_streams < 1:
            raise InvalidInput(f"max_streams must be at least 1, not {self.max_streams}")
        if not 0 < self.max_waiting_s < math.inf:
            raise InvalidInput(f"max_waiting_s must be a number of seconds above 0, not {self.max_waiting_s}")


class Prompts(NamedTuple):
    """One voice before sentences read whole and before those read as they come."""

    whole: Prompt
    interleaved: Prompt


class Device:
    """One loaded model and its loop; `loop` is the port that sessions speak to. Nothing runs before `start`."""

    def __init__(self, checkpoint: Checkpoint, limits: DeviceLimits, device: str = "cpu") -> None:
        config = checkpoint.config
        longest = MAX_SEGMENT_S * config.flow.input_frame_rate
        self._longest = longest
        lm_pages = -(-(longest * LM_POSITIONS_PER_ID) // LM_PAGE_TOKENS)
        chunk_tokens = config.flow.dit.static_chunk_size // config.flow.token_mel_ratio
        self._voices = {name: aligned(voice, chunk_tokens, HEAD_START) for name, voice in checkpoint.voices.items()}
        voice_pages = sum(-(-v.flow_speech_tokens.numel() // chunk_tokens) for v in self._voices.values())
        flow_pages = -(-longest // chunk_tokens) + 1

        lm_pool = PagePool(limits.max_streams * 2 * lm_pages, lm_page_shape(config.lm, LM_PAGE_TOKENS), device=device)
        flow_pool = PagePool(
            voice_pages + limits.max_streams * flow_pages,
            flow_page_shape(config.flow, config.n_timesteps),
            device=device,
        )
        self.lm = LMRunner(checkpoint.lm, lm_pool, config.sampling, config.text)
        self.flow = FlowRunner(checkpoint.flow, flow_pool, config.n_timesteps, checkpoint.noise.rand_noise)
        self.vocoder = VocoderRunner(
            checkpoint.vocoder, checkpoint.noise.sine_waves(MAX_SEGMENT_S * config.vocoder.sampling_rate)
        )
        self._tokenizer = checkpoint.tokenizer
        self._front_end = FrontEnd(config.text.front_end, checkpoint.tokenizer)
        self._prefixes: dict[str, FlowPrefix] = {}
        self._prompts: dict[str, Prompts] = {}
        self.sample_rate = config.vocoder.sampling_rate
        self.loop = DeviceLoop(
            Stages(self.lm, self.flow, self.vocoder),
            self._open_segment,
            sample_rate=self.sample_rate,
            max_streams=limits.max_streams,
            max_waiting_s=limits.max_waiting_s,
        )

    @property
    def voices(self) -> Mapping[str, VoicePrompt]:
        """By name; the first is the default."""
        return self._voices

    @property
    def pages_held(self) -> int:
        """Pages of both pools that streams hold, the voices' own left out."""
        pools = (self.lm.pool, self.flow.pool)
        voices = sum(len(prefix.pages) for prefix in self._prefixes.values())
        return sum(pool.num_pages - pool.num_free for pool in pools) - voices

    def start(self) -> None:
        """Register every voice, so that the first listener does not wait for it, and run the loop. Takes a second."""
        for name, voice in self._voices.items():
            self._prefixes[name] = self.flow.register(voice.flow_speech_tokens, voice.mel, voice.embedding)
            self._prompts[name] = self._read(voice)
        self.loop.start()

    def close(self) -> None:
        """End every stream with Cancelled and stop the loop."""
        self.loop.close()

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
            lm=self.lm.open(prompt, mode="whole" if whole else "interleaved", seed=seed, limit=self._longest),
            prefix=self._prefixes[name],
            vocoder=self.vocoder.open(),
        )
