"""vLLM itself: AsyncLLM over a directory that `checkpoint.merged` wrote. The only file that imports it.

vLLM computes in a process of its own, on the same GPU or another; this one only sends requests and takes ids.
"""

import json
import logging
import multiprocessing
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from oscine_engine.checkpoint import draft as drafts
from oscine_engine.checkpoint import merged
from oscine_engine.config import ModelConfig, SamplingConfig
from oscine_engine.errors import InvalidInput, Unavailable
from oscine_engine.lm.drawing import usual
from oscine_engine.lm.interleave import Layout
from oscine_engine.lm.vllm_requests import Ask, Engine
from oscine_engine.lm.vllm_runner import VLLMRunner

log = logging.getLogger(__name__)

_MEMORY = 0.1
"""Of the GPU: what must be free for vLLM to start. Keys and values are given a number of bytes of their own."""
_ROOM = 1.25
"""Keys and values are allocated by blocks, and prefixes stay a while."""
_ENVIRONMENT = {
    # Requests come from a thread of a process that has a CUDA context, so none may be forked.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    # Else the first id would wait for a kernel to be compiled.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_NO_USAGE_STATS": "1",
}


@dataclass(frozen=True, slots=True)
class VLLMOptions:
    """directory: as `checkpoint.merged.write` makes it, with its draft, if any, in the folder `draft`. streams: so many
    at once. positions: of the longest. gpu: number of it, None for what is visible first. more: further arguments of
    vLLM's AsyncEngineArgs, for those who know them."""

    directory: Path
    streams: int
    positions: int
    gpu: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


def runner(config: ModelConfig, options: VLLMOptions) -> VLLMRunner:
    """The language model of `config` in vLLM, not started yet. Raises CheckpointError for a directory of another one,
    InvalidInput without vLLM."""
    vocabulary = merged.read(options.directory, config.lm)
    require()
    return VLLMRunner(
        lambda: opened(options, config, vocabulary), Layout.of(config.lm, config.text), vocabulary, config.sampling
    )


def starter(config: ModelConfig, directory: Path, device: str) -> Callable[[int, int], VLLMRunner]:
    """What makes and starts the language model of an engine on `device`, for so many streams and positions of each."""

    def start(streams: int, positions: int) -> VLLMRunner:
        number = device.partition(":")[2]
        made = runner(config, VLLMOptions(directory, streams, positions, int(number) if number else None))
        made.start()
        return made

    return start


def require() -> None:
    """Raise InvalidInput if vLLM is not installed."""
    try:
        import vllm  # noqa: F401
    except ImportError as error:
        raise InvalidInput(f"vLLM cannot be used: {error}; pip install 'oscine[vllm]', or leave out --vllm") from error


def arguments(options: VLLMOptions, config: ModelConfig, precision: merged.Precision) -> dict[str, Any]:
    """What AsyncEngineArgs is given."""
    lm = config.lm
    sequences = 2 * options.streams
    bytes_each = 4 if precision == "float32" else 2
    position = 2 * lm.num_hidden_layers * lm.num_key_value_heads * lm.head_dim * bytes_each
    given: dict[str, Any] = {
        "model": str(options.directory),
        "skip_tokenizer_init": True,
        "dtype": precision,
        "max_model_len": options.positions,
        "max_num_seqs": sequences,
        "enable_prefix_caching": True,
        "gpu_memory_utilization": _MEMORY,
        "disable_log_stats": True,
        "compilation_config": {"cudagraph_capture_sizes": _sizes(sequences)},
    }
    draft = options.directory / merged.DRAFT
    if draft.is_dir():
        guesses = drafts.read_config(draft / drafts.CONFIG)
        position += 2 * guesses.num_hidden_layers * guesses.num_key_value_heads * guesses.head_dim * bytes_each
        given["speculative_config"] = {
            "method": "dspark",
            "model": str(draft),
            "num_speculative_tokens": guesses.count,
        }
        given["compilation_config"] = {"cudagraph_capture_sizes": _sizes(sequences, 1 + guesses.count)}
    given["kv_cache_memory_bytes"] = int(_ROOM * sequences * options.positions * position)
    return given | dict(options.more)


def _sizes(sequences: int, rows: int = 1) -> list[int]:
    """Rows of 1, 2, 4 ... streams, each with so many."""
    return [rows << power for power in range((sequences - 1).bit_length() + 1)]


@asynccontextmanager
async def opened(options: VLLMOptions, config: ModelConfig, vocabulary: merged.Merged) -> AsyncIterator[Engine]:
    """Start vLLM and stop it again. Raises Unavailable if it does not start."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    given = arguments(options, config, vocabulary.precision)
    log.info("starting vLLM: %s", json.dumps(given, default=str))
    before = _children()
    with _visible(options.gpu):
        try:
            llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**given))
        except Exception as error:
            raise Unavailable(f"vLLM does not start: {error}") from error
    with watched(_children() - before):
        try:
            yield VLLM(llm, config.sampling, vocabulary.eos)
        finally:
            llm.shutdown()


def _children() -> set[int]:
    return {child.pid for child in multiprocessing.active_children() if child.pid is not None}


@contextmanager
def watched(processes: Collection[int]) -> Iterator[None]:
    """These processes end with the block, or with this process, however that comes."""
    command = (sys.executable, "-P", "-m", "oscine_engine.lm.vllm_warden", *map(str, processes))
    warden = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        warden.communicate()


@contextmanager
def _visible(gpu: int | None) -> Iterator[None]:
    """Processes started in here see one GPU only; this one has its context already and sees what it saw."""
    name = "CUDA_VISIBLE_DEVICES"
    before = os.environ.get(name)
    if gpu is not None:
        os.environ[name] = before.split(",")[gpu] if before else str(gpu)
    try:
        yield
    finally:
        if gpu is not None:
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before


class VLLM:
    """The `Engine` of one AsyncLLM."""

    def __init__(self, llm: Any, sampling: SamplingConfig, eos: int, temperature: float = 1.0) -> None:
        self.llm = llm
        self._sampling = sampling
        self._temperature = temperature
        self._eos = eos
        self._numbers = count()

    def parameters(self, ask: Ask) -> Any:
        """vLLM's SamplingParams of a request."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        how = ask.drawing or usual(self._sampling, self._temperature)
        return SamplingParams(
            temperature=1.0 / how.scale,
            top_p=how.top_p,
            top_k=how.top_k,
            seed=ask.seed,
            min_tokens=ask.least,
            max_tokens=ask.most,
            stop_token_ids=[self._eos],
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )

    async def generate(self, ask: Ask) -> AsyncIterator[list[int]]:
        from vllm import TokensPrompt
        from vllm.v1.engine.exceptions import EngineDeadError

        prompt = TokensPrompt(prompt_token_ids=list(ask.prompt))
        try:
            async for output in self.llm.generate(prompt, self.parameters(ask), f"oscine-{next(self._numbers)}"):
                said = output.outputs[0]
                ids = list(said.token_ids)
                if said.finish_reason == "stop" and ids[-1:] != [self._eos]:
                    ids.append(self._eos)
                if ids:
                    yield ids
        except EngineDeadError as error:
            raise Unavailable(f"vLLM has died: {error}") from error
