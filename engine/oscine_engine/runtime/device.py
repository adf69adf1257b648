"""Everything that touches a model: runners, pools, the voices' pages and prompts, and the loop over them.

Memory is shared out before anything runs. Each stream has a share of both pools that holds the most it can need: two
segments of the language model (one sounds, the next is read), and one of the flow (its pages go back when its last mel
is there, before the next one opens). Voices have pages of their own under a budget. So a pool never runs out in the
middle of somebody's sentence: what does not fit is refused when it comes, or, where the flow's pool is smaller than all
shares together, waits at the start of a sentence (see `stages`).
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import torch

from oscine_engine.checkpoint.layout import LMFile
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.errors import CheckpointError, InvalidInput
from oscine_engine.figures import Tally
from oscine_engine.flow.graphed import GraphedFlow
from oscine_engine.flow.runner import FlowRunner
from oscine_engine.flow.streams import FlowStreams
from oscine_engine.flow.streams import page_shape as flow_page_shape
from oscine_engine.guards.levels import speech_level
from oscine_engine.guards.segment import GuardRules, SegmentGuard
from oscine_engine.lm import vllm_engine
from oscine_engine.lm.graphed import GraphedLM
from oscine_engine.lm.interleave import Prompt
from oscine_engine.lm.packed import page_shape as lm_page_shape
from oscine_engine.lm.port import LanguageModel
from oscine_engine.lm.runner import LMRunner
from oscine_engine.lm.speculation import Drafter
from oscine_engine.lm.stream import Mode
from oscine_engine.runtime import warm_up
from oscine_engine.runtime.book import ReadyVoice, VoiceBook
from oscine_engine.runtime.core import Bounds, Clock, Core
from oscine_engine.runtime.device_loop import DeviceLoop
from oscine_engine.runtime.lane import Segment
from oscine_engine.runtime.measure import measure
from oscine_engine.runtime.memory import hold_little
from oscine_engine.runtime.pages import PagePool
from oscine_engine.runtime.stages import Stages
from oscine_engine.runtime.stream import Stream
from oscine_engine.runtime.trace import Observe
from oscine_engine.runtime.voices import VoiceCache
from oscine_engine.scheduler.admission import Limits, Pace
from oscine_engine.scheduler.costs import CostModel
from oscine_engine.settings import DeviceLimits, Precision
from oscine_engine.text.front_end import FrontEnd, Rules
from oscine_engine.vocoder.graphed import GraphedVocoder
from oscine_engine.vocoder.runner import VocoderRunner
from oscine_engine.voices import forms
from oscine_engine.voices.prompt import VoicePrompt, aligned
from oscine_engine.voices.registrar import Registrar
from oscine_engine.voices.store import VoiceStore

log = logging.getLogger(__name__)

__all__ = ["Device", "DeviceLimits", "Load"]

MAX_SEGMENT_S = 30
"""Longest segment, in seconds: what the pools are sized for."""
HEAD_START = 10
"""New tokens in a stream's first chunk: 320 ms of sound from 13 speech ids. Above 22 the one before would stay open."""
LM_PAGE_TOKENS = 256
"""Most sentences fit one page, whose keys and values are then read in place; several must be copied together."""
LM_POSITIONS_PER_ID = 2
"""Positions of the language model's cache per speech id: itself and its share of text and prompt, with room."""

REFERENCE_POSITIONS_PER_ID = 4 / 3
"""Besides, for the longest reference that can be registered: its ids and its words."""

WORKING_BYTES = 8 << 30
"""Of a GPU's memory, for graphs, activations and libraries."""
MEMORY_SHARE = 0.9
"""Of what is free besides, the part that pages take."""
PROGRESS_S = 2.0
"""Between two lines of progress."""
ENCODER_THREADS = 4
"""For a recording that comes with a request, where the CPU has little else to do."""
IDLE_VOICES = 16
"""Of a store, that may be kept ready beyond those that streams speak in."""
READ_AHEAD = 2
"""Segments of a stream that may hold language model pages at once."""


class Load(NamedTuple):
    """`pages`: of both pools, the voices' own left out."""

    streams: int
    pages: int


class Device:
    """One loaded model and its loop; `loop` is the port that sessions speak to.

    `async with device:` starts and stops it, as do `start` and `close`, which block.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        limits: DeviceLimits | None = None,
        device: str = "cpu",
        *,
        precision: Precision = "float32",
        graphed: bool | None = None,
        head_start: int = HEAD_START,
        warmed: bool | None = None,
        store: VoiceStore | None = None,
        references: bool = False,
        lm: Callable[[int, int], LanguageModel] | None = None,
        drafter: Callable[[PagePool], Drafter] | None = None,
        forced_acceptance: float | None = None,
        costs: CostModel | None = None,
        observe: Observe | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        """costs: of this machine's ticks, measured by `start` if they are not known. clock: seconds, never falling.

        precision: see `Precision`; float32 where nothing is graphed. graphed: whether steps have fixed shapes and
        become CUDA graphs; None: on a GPU. head_start: new tokens in a stream's first chunk, at most 22. warmed:
        whether `start` says everyday sentences to nobody first; None: on a GPU. store: voices besides the model's own.
        references: streams may bring a recording to speak after; raises CheckpointError for a model that cannot.
        lm: makes a language model that is computed elsewhere, for so many streams and positions of each; else it is
        computed here. drafter: makes what guesses the next speech ids, for streams whose keys and values are in the
        given pool; only where steps have fixed shapes.
        forced_acceptance: for benchmarks, so many ids a step whatever was guessed.
        """
        hold_little()
        config, self._limits = checkpoint.config, limits or DeviceLimits()
        streams = self._limits.max_streams
        self._graphed = device != "cpu" if graphed is None else graphed
        self._head_start = head_start
        self._warmed = device != "cpu" if warmed is None else warmed
        self._warm_texts: list[list[int]] = []
        dtype: torch.dtype = getattr(torch, precision if self._graphed else "float32")
        self._longest = MAX_SEGMENT_S * config.flow.input_frame_rate
        # Voices that are not known yet.
        others = store is not None or references
        positions = self._longest * (LM_POSITIONS_PER_ID + (REFERENCE_POSITIONS_PER_ID if others else 0))
        self._positions = -(-int(positions) // LM_PAGE_TOKENS) * LM_PAGE_TOKENS
        chunk_tokens = config.flow.dit.static_chunk_size // config.flow.token_mel_ratio
        self._chunk_tokens = chunk_tokens
        self._voices = {name: self._cut(voice) for name, voice in checkpoint.voices.items()}

        def whole_chunks(tokens: int) -> int:
            return max(0, tokens - config.flow.pre_lookahead_len) // chunk_tokens

        sizes = [voice.flow_speech_tokens.numel() for voice in self._voices.values()]
        if others:
            # The longest that can be registered, with as much left open as can be.
            sizes += [self._longest + config.flow.pre_lookahead_len + chunk_tokens - 1]
        opens = [size - whole_chunks(size) * chunk_tokens for size in sizes]
        own_pages = -(-(self._longest + max(opens, default=0)) // chunk_tokens)
        page_bytes = math.prod(flow_page_shape(config.flow, config.n_timesteps)) * dtype.itemsize
        voice_sizes = [whole_chunks(size) for size in sizes]
        budget = max(self._limits.voice_bytes // page_bytes, *voice_sizes, 0)
        voice_pages = budget if others else min(sum(voice_sizes), budget)
        most_voices = len(self._voices) + (streams + IDLE_VOICES if others else 0)
        noise, sines = checkpoint.noise, checkpoint.noise.sine_waves(MAX_SEGMENT_S * config.vocoder.sampling_rate)
        self.lm: LanguageModel
        self.flow: FlowStreams
        self.vocoder: VocoderRunner
        # First, since the flow gets what memory is left.
        if lm is not None:
            self.lm = lm(streams, self._positions)
        else:
            self.lm = self._native(checkpoint, device, dtype, drafter, forced_acceptance)
        if self._graphed:
            # bfloat16 would cost the phase too much.
            half = torch.float32 if dtype is torch.float32 else torch.float16
            self.vocoder = GraphedVocoder(checkpoint.vocoder, sines, max_streams=streams, dtype=half)
        else:
            self.vocoder = VocoderRunner(checkpoint.vocoder, sines)
        # What sentences share: the most that all streams can need, or what the device has room for.
        shared = streams * own_pages
        if self._limits.stream_bytes is not None:
            shared = min(shared, max(self._limits.stream_bytes // page_bytes, own_pages))
        if device != "cpu":
            free, _ = torch.cuda.mem_get_info(device)
            shared = min(shared, int((free - WORKING_BYTES) * MEMORY_SHARE) // page_bytes - voice_pages)
            if shared < own_pages:
                raise CheckpointError(
                    f"the device has {free >> 20} MiB free; this model needs "
                    f"{((own_pages + voice_pages) * page_bytes + WORKING_BYTES) >> 20} MiB for its pages"
                )
        flow_pool = PagePool(
            voice_pages + shared, flow_page_shape(config.flow, config.n_timesteps), dtype=dtype, device=device
        )
        if self._graphed:
            self.flow = GraphedFlow(
                checkpoint.flow,
                flow_pool,
                config.n_timesteps,
                noise.rand_noise,
                max_streams=streams,
                max_prefixes=max(most_voices, streams),
                dtype=dtype,
            )
        else:
            self.flow = FlowRunner(checkpoint.flow, flow_pool, config.n_timesteps, noise.rand_noise)
        self.voice_cache = VoiceCache(self.flow, voice_pages, most_voices, self._longest)
        self.sample_rate = config.vocoder.sampling_rate
        self._silent_ids = config.silence
        self._speech_ids = config.lm.speech_token_size
        self._tokenizer = checkpoint.tokenizer
        self._front_end = FrontEnd(config.text.front_end, checkpoint.tokenizer)
        rules, registrar = config.text.front_end, None
        if references:
            registrar = Registrar(checkpoint.files, rules, threads=1 if device == "cpu" else ENCODER_THREADS)
        self.book = VoiceBook(
            self._voices,
            self._read,
            store,
            instruct=partial(self._instructed, rules) if rules == "plain" else None,
            register=None if registrar is None else registrar.voice,
        )
        self._costs = costs
        self._observe = observe
        self._clock = clock
        self.loop = DeviceLoop(self.make_core, self.book)

    def _native(
        self,
        checkpoint: Checkpoint,
        device: str,
        dtype: torch.dtype,
        drafter: Callable[[PagePool], Drafter] | None,
        forced_acceptance: float | None,
    ) -> LMRunner:
        """The language model computed here, with pages for all streams."""
        config, streams = checkpoint.config, self._limits.max_streams
        lm, count = checkpoint.lm.to(device, dtype), streams * READ_AHEAD * self._positions // LM_PAGE_TOKENS
        pool = PagePool(count, lm_page_shape(config.lm, LM_PAGE_TOKENS), dtype=dtype, device=device)
        if not self._graphed:
            return LMRunner(lm, pool, config.sampling, config.text)
        return GraphedLM(
            lm,
            pool,
            config.sampling,
            config.text,
            max_streams=streams,
            max_positions=self._positions,
            drafter=None if drafter is None else drafter(pool),
            forced_acceptance=forced_acceptance,
            aside=self._limits.side_by_side,
        )

    @classmethod
    def load(
        cls,
        model: Path | None = None,
        limits: DeviceLimits | None = None,
        *,
        voices: Path | None = None,
        references: bool = False,
        lm_file: LMFile = "llm",
        vllm: Path | None = None,
        device: str = "cpu",
        precision: Precision = "float32",
        threads: int = 1,
        observe: Observe | None = None,
    ) -> Self:
        """Load a model directory, or the embedded voice. Takes seconds; nothing runs yet.

        voices: the folder of a voice store. references: streams may bring recordings to speak after. vllm: a directory
        of `checkpoint.merged`, whose model vLLM then computes; starting it takes a minute. threads: CPU threads of one
        tick, set for the whole process. Raises CheckpointError for a model that does not fit.
        """
        torch.set_num_threads(threads)
        checkpoint = load(model, device=device, lm_file=lm_file)
        lm = None if vllm is None else vllm_engine.starter(checkpoint.config, vllm, device)
        store = None if voices is None else VoiceStore(voices)
        return cls(
            checkpoint,
            limits,
            device,
            precision=precision,
            store=store,
            references=references,
            lm=lm,
            observe=observe,
        )

    @property
    def port(self) -> DeviceLoop:
        return self.loop

    @property
    def failed(self) -> bool:
        """The loop has met a fault it cannot go on from: every stream has ended and none will open."""
        return self.loop.failed

    @property
    def voices(self) -> Mapping[str, VoicePrompt]:
        """By name; the first is the default."""
        return self._voices

    @property
    def pages_held(self) -> int:
        """Pages of both pools that streams hold, the voices' own left out."""
        return self.lm.pages_held + self.flow.pool.num_pages - self.flow.pool.num_free - self.voice_cache.pages_held

    @property
    def load_now(self) -> Load:
        """What running streams hold at this moment."""
        return Load(self.loop.admitted, self.pages_held)

    def start(self) -> None:
        """Measure, make ready what voices fit, and run the loop, so that the first listener waits for none of it.

        Takes one or two seconds.
        """
        try:
            self.read_prompts()
            self.loop.start()
        except BaseException:
            self.lm.stop()
            raise

    def close(self) -> None:
        """End every stream with Cancelled and stop the loop."""
        self.loop.close()
        self.lm.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def read_prompts(self) -> None:
        """Turn the voices' texts into ids. Loads dictionaries if there are transcripts: not for the loop's thread."""
        self.book.read()
        if self._warmed and self._voices:
            texts = [text for text in warm_up.SENTENCES if self._front_end.speakable(text)]
            self._warm_texts = [self._front_end.whole(text) for text in texts]

    def make_core(self) -> Core:
        """The loop's inside, its costs measured and its voices warm. Called in the thread that will turn it."""
        limits, config = self._limits, self.flow.config
        if self.flow.pool.data.is_cuda:
            torch.cuda.set_device(self.flow.pool.data.device)
        for runner in (self.lm, self.flow, self.vocoder):
            if isinstance(runner, GraphedLM | GraphedFlow | GraphedVocoder):
                _capture(runner)
        costs = self._costs or measure(self.lm, self.flow, self.vocoder, limits.max_streams, stepped=self._graphed)
        voices = self.book.ready
        self.voice_cache.warm(voices)
        frames = [config.token_mel_ratio * voice.tokens for voice in voices]
        pace = Pace(
            ids_per_s=config.input_frame_rate,
            euler_steps=self.flow.n_timesteps,
            prompt_rows=self._prompt_rows(),
            first_ids=self._head_start + config.pre_lookahead_len,
            context_frames=max(frames, default=0) + self._longest * config.token_mel_ratio // 2,
        )
        bounds = Limits(limits.max_streams, limits.utilisation)
        if limits.utilisation == math.inf:
            bounds = replace(bounds, first_packet_s=math.inf)
        core = Core(
            Stages(self.lm, self.flow, self.vocoder, self.voice_cache, self._positions),
            self._open_segment,
            costs,
            Bounds(bounds, pace, limits.max_waiting_s),
            sample_rate=self.sample_rate,
            clock=self._clock,
            observe=self._observe,
            side_by_side=limits.side_by_side,
        )
        if self._warm_texts:
            warm_up.speak(core, voices[0], self._warm_texts)
            core.tally = Tally()
        self.lm.wake = lambda: self.loop.ping(core.look)
        return core

    def _prompt_rows(self) -> int:
        """Rows the language model reads before its first id: the longest prompt, and the text of the longest sentence,
        of which so much goes with its speech as where the two are interleaved."""
        prompts = [voice.whole for voice in self.book.ready]
        rows = [len(p.prefix) + len(p.transcript) + len(p.speech) for p in prompts]
        return max(rows, default=0) + self._longest * self.lm.layout.text_block // self.lm.layout.speech_block

    def _cut(self, voice: VoicePrompt) -> VoicePrompt:
        return aligned(voice, self._chunk_tokens, self._head_start)

    def _read(self, key: str, voice: VoicePrompt) -> ReadyVoice:
        """Raises InvalidInput for a voice of another model: on a GPU an id without a row would end the process."""
        highest = max(int(ids.max()) for ids in (voice.flow_speech_tokens, voice.lm_speech_tokens) if ids.numel())
        if highest >= self._speech_ids:
            raise InvalidInput(
                f"voice {voice.name!r} was made for another model: it has speech id {highest}, and this one has "
                f"{self._speech_ids}; register its recording again"
            )
        short = whole = Prompt(tuple(self._tokenizer.encode(voice.prompt_text)))
        if voice.lm_speech_tokens.numel():
            # An interleaved start would have to wait for the text of this speech (it is laid in blocks of its own).
            transcript = tuple(self._front_end.whole(voice.transcript))
            whole = replace(short, transcript=transcript, speech=tuple(voice.lm_speech_tokens.tolist()))
        return ReadyVoice(key, self._cut(voice), whole, short, speech_level(voice.mel.numpy()))

    def _instructed(self, rules: Rules, instruction: str) -> Prompt:
        return Prompt(tuple(self._tokenizer.encode(forms.instructed(rules, instruction))))

    def _rules(self, stream: Stream) -> GuardRules:
        config = self.flow.config
        return GuardRules(
            sample_rate=self.sample_rate,
            loudness=stream.voice.loudness,
            trim=stream.options.trim,
            silent_ids=self._silent_ids,
            slow_pace=self.lm.layout.max_ratio / 2,
            lookahead=config.pre_lookahead_len,
            id_rate=config.input_frame_rate,
            frames_per_id=config.token_mel_ratio,
        )

    def _open_segment(self, stream: Stream, whole: bool, seed: int) -> Segment:
        prompt = stream.voice.whole if whole else stream.voice.interleaved
        mode: Mode = "whole" if whole else "interleaved"
        return Segment(
            index=stream.begun,
            prompt=prompt,
            interleaved=not whole,
            lm=self.lm.open(prompt, mode=mode, seed=seed, limit=self._longest, drawing=stream.drawing),
            vocoder=self.vocoder.open(),
            guard=SegmentGuard(self._rules(stream), seed),
            draws=[(0, seed)],
        )


def _capture(runner: GraphedLM | GraphedFlow | GraphedVocoder) -> None:
    """Capture the runner's steps, where they are graphs, telling how far it is once in PROGRESS_S."""
    began = told = time.monotonic()
    count = 0

    def progress(what: str) -> None:
        nonlocal told, count
        count += 1
        if (now := time.monotonic()) - told >= PROGRESS_S:
            told = now
            log.info("capturing CUDA graphs: %s", what)

    runner.capture(progress)
    log.info("%s: %d steps ready after %.1f s", type(runner).__name__, count, time.monotonic() - began)
