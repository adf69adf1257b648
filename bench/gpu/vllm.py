"""The language model in vLLM on a GPU: does it say what ours says, and how fast, beside ours?

    python -m bench.gpu.vllm [--only logits,ids,speed] [--json] [--results FILE]

Random weights of the released sizes are converted, and vLLM serves them in float16. Sections, each of which may fail
without hiding the others:

    logits   log probabilities of given sequences, vLLM's and our float16 ones, against ours in float32
    ids      ids drawn at temperature 2 from the whole vocabulary: none may be of text
    speed    ids a second and ms to the 28th id, alone and for 32 at once, ours (graphs, no draft) beside vLLM's
    blocks   the same for a text that is read block by block: what a request for each costs
    abort    32 long requests that are dropped: how long until vLLM has forgotten them
    session  a stream through the whole engine, its speech ids from vLLM
    draft    speed of vLLM with a random draft of the published shape
    lot      the same, where a lot decides what is accepted: 2.98 ids a step
    mps      whether CUDA's Multi-Process Service can be started, and its use by a process

A row of the figures is appended to `--results`; with `--json` it is printed as the last line but one.
"""

import argparse
import asyncio
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.gpu import sections
from oscine_engine.checkpoint import draft as drafts
from oscine_engine.checkpoint import merged, synthetic
from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.errors import OscineError
from oscine_engine.events import Audio, Done
from oscine_engine.lm import vllm_engine
from oscine_engine.lm.graphed import GraphedLM
from oscine_engine.lm.interleave import Prompt
from oscine_engine.lm.packed import page_shape
from oscine_engine.lm.stream import LMStream
from oscine_engine.lm.vllm_engine import VLLMOptions
from oscine_engine.lm.vllm_requests import Ask
from oscine_engine.lm.vllm_runner import VLLMRunner
from oscine_engine.planner import Begin, End, Ids
from oscine_engine.port import PortEvent, StreamOptions
from oscine_engine.runtime.device import Device, DeviceLimits
from oscine_engine.runtime.pages import PagePool

SECTIONS = ("logits", "ids", "speed", "blocks", "abort", "session", "draft", "lot", "mps")
STREAMS, POSITIONS, PAGE = 32, 1536, 256
PROMPT, TEXT, SAID = 96, 30, 300
FIRST = 28
"""Ids for the first chunk where a service does not cut its prompts: 25 and the look-ahead."""
BAR = 2.98
"""Ids a step, published for a draft of this model."""
LOGIT_ERROR = 0.05
"""Root mean square of an error of log probabilities that float16 may make."""
SPOKEN = 20000
"""Ids to draw where none may be of text."""


class Heard:
    """When ids of several streams came: [(seconds since the beginning, how many)] each."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.times: list[list[tuple[float, int]]] = []

    def to(self, count: int) -> float:
        """Median ms until a stream had so many ids."""
        firsts = []
        for times in self.times:
            had = 0
            for at, ids in times:
                had += ids
                if had >= count:
                    firsts.append(1e3 * at)
                    break
        return sorted(firsts)[len(firsts) // 2]

    @property
    def rate(self) -> float:
        """Ids a second of all streams, behind the first of each."""
        ids = sum(count for times in self.times for _, count in times[1:])
        return ids / (max(times[-1][0] for times in self.times) - min(times[0][0] for times in self.times))


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.tiny = options.tiny
        base = synthetic.SMALL if options.tiny else synthetic.FULL
        # Nobody ends before the limit, and nothing repeats less often for it.
        rules = replace(base.text, min_token_text_ratio=10.0, max_token_text_ratio=10.0)
        self.config = replace(base, text=rules)
        self.failures: list[str] = []
        self.row: dict[str, Any] = {"sizes": "small" if options.tiny else "released", "when": time.strftime("%F %T")}
        self.folder = Path(tempfile.mkdtemp(prefix="oscine-vllm-"))

    def check(self, name: str, good: bool) -> str:
        if not good:
            self.failures.append(name)
        return "" if good else "   <-- FAILED"

    def note(self, **figures: Any) -> None:
        self.row |= {name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()}

    @cached_property
    def checkpoint(self) -> Checkpoint:
        return synthetic.checkpoint(self.config, device=self.device, prompt_tokens=PROMPT, seed=1)

    @cached_property
    def vocabulary(self) -> merged.Merged:
        return merged.Merged.of(self.config.lm)

    @cached_property
    def directory(self) -> Path:
        began = time.perf_counter()
        root = merged.write(self.checkpoint.lm, self.folder / "model")
        took = time.perf_counter() - began
        size = sum(path.stat().st_size for path in root.iterdir())
        print(f"  converted in {took:.1f} s, {size / 1e6:.0f} MB", flush=True)
        self.note(convert_s=took, model_mb=size / 1e6)
        return root

    def start(self, directory: Path, **more: Any) -> VLLMRunner:
        began = time.perf_counter()
        options = VLLMOptions(directory, STREAMS, POSITIONS, more=more)
        runner = vllm_engine.runner(self.config, options)
        runner.start()
        print(f"  vLLM started in {time.perf_counter() - began:.1f} s", flush=True)
        self.note(start_s=time.perf_counter() - began)
        return runner

    @cached_property
    def runner(self) -> VLLMRunner:
        return self.start(self.directory)

    @property
    def llm(self) -> Any:
        return _engine(self.runner)

    def stop(self) -> None:
        if "runner" in vars(self):
            self.runner.stop()
            del self.runner

    # --- what is asked for

    def text(self, number: int, count: int = TEXT) -> list[int]:
        return [(7919 * (number * count + place) + 13) % 100000 % self.config.lm.vocab_size for place in range(count)]

    def prompt(self) -> Prompt:
        return Prompt(tuple(self.text(1000, PROMPT)))

    def ask(self, number: int, said: int = SAID) -> Ask:
        controls = self.vocabulary.text_ids + self.vocabulary.speech_ids
        ids = (controls, *self.prompt().prefix, *self.text(number), controls + 2)
        return Ask(ids, said, said, number)

    def hear(self, runner: VLLMRunner, asks: Sequence[Ask]) -> Heard:
        """Ask all at once."""
        engine = runner.requests.engine

        async def one(ask: Ask, times: list[tuple[float, int]]) -> None:
            async for ids in engine.generate(ask):
                times.append((time.perf_counter() - heard.began, len(ids)))  # noqa: PERF401

        async def all_of_them() -> None:
            heard.began = time.perf_counter()
            await asyncio.gather(*(one(ask, times) for ask, times in zip(asks, heard.times, strict=True)))

        heard = Heard()
        heard.times = [[] for _ in asks]
        runner.requests.run(all_of_them())
        return heard

    # --- ours

    def native(self, streams: int) -> GraphedLM:
        kind = torch.float16 if self.device == "cuda" else torch.float32
        pool = PagePool(streams * 4, page_shape(self.config.lm, PAGE), dtype=kind, device=self.device)
        weights = synthetic.checkpoint(self.config, device=self.device, seed=1).lm.to(kind)
        made = GraphedLM(
            weights, pool, self.config.sampling, self.config.text, max_streams=streams, max_positions=POSITIONS
        )
        made.capture()
        return made

    def hear_native(self, runner: GraphedLM, numbers: Sequence[int]) -> Heard:
        heard = Heard()
        streams = [self.open(runner, number) for number in numbers]
        heard.times = [[] for _ in streams]
        heard.began = time.perf_counter()
        while any(stream.wants_step for stream in streams):
            for times, ids in zip(heard.times, runner.step(streams), strict=True):
                if ids:
                    times.append((time.perf_counter() - heard.began, len(ids)))
        for stream in streams:
            runner.close(stream)
        return heard

    def open(self, runner: Any, number: int, *, interleaved: bool = False) -> LMStream:
        stream: LMStream = runner.open(
            self.prompt(), mode="interleaved" if interleaved else "whole", seed=number, limit=SAID
        )
        stream.add_text(self.text(number))
        stream.end_text()
        return stream

    # --- logits

    def logits(self) -> None:
        """Three sequences of prompt, text and speech; all places of speech, and the twenty likeliest ids of each."""
        runner, lm = self.runner, self.checkpoint.lm.float()
        legal = torch.tensor([*range(self.vocabulary.speech_ids), self.vocabulary.speech_ids + 1], device=self.device)
        errors: dict[str, list[float]] = {"vllm": [], "float16": []}
        swapped = places = 0
        for number in range(3):
            ask = self.ask(number)
            torch.manual_seed(number)
            speech = torch.randint(self.vocabulary.speech_ids, (40,))
            ids = [*ask.prompt, *(speech + self.vocabulary.text_ids).tolist()]
            found = runner.requests.run(self._scores(ids, number))
            wanted = self._native_scores(lm, ids, legal)
            halved = self._native_scores(self._half, ids, legal) if self.device == "cuda" else wanted
            for place in range(len(ask.prompt), len(ids)):
                known = found[place]
                assert known is not None
                for merged_id, score in known.items():
                    row = merged_id - self.vocabulary.text_ids
                    if not 0 <= row <= self.vocabulary.speech_ids + 1:
                        raise AssertionError(f"id {merged_id} of text has log probability {score.logprob}")
                    errors["vllm"].append(score.logprob - float(wanted[place - 1, row]))
                    errors["float16"].append(float(halved[place - 1, row] - wanted[place - 1, row]))
                places += 1
                best = max(known, key=lambda key: known[key].logprob) - self.vocabulary.text_ids
                swapped += int(best != int(wanted[place - 1].argmax()))
        for name, of in errors.items():
            values = torch.tensor(of)
            rms, most = float(values.square().mean().sqrt()), float(values.abs().max())
            bad = self.check(f"logits of {name}", rms < LOGIT_ERROR)
            print(f"  {name:8} against float32: rms {rms:.1e}, most {most:.1e} of {len(of)} log probabilities{bad}")
            self.note(**{f"logits_{name}_rms": rms, f"logits_{name}_most": most})
        print(f"  another id is the likeliest in {swapped} of {places} places")
        self.note(logits_swapped=swapped, logits_places=places)

    @cached_property
    def _half(self) -> Any:
        return synthetic.checkpoint(self.config, device=self.device, seed=1).lm.half()

    async def _scores(self, ids: list[int], number: int) -> Any:
        from vllm import SamplingParams, TokensPrompt

        params = SamplingParams(max_tokens=1, prompt_logprobs=20, detokenize=False)
        async for output in self.llm.generate(TokensPrompt(prompt_token_ids=ids), params, f"scores-{number}"):
            scores = output.prompt_logprobs
        return scores

    def _native_scores(self, lm: Any, ids: list[int], legal: Tensor) -> Tensor:
        """float32 [ids, rows of the speech tables] log probabilities of what may be said behind each, of the rest 0."""
        given, first = torch.tensor(ids, device=self.device), self.vocabulary.text_ids
        is_text = given < first
        text = lm.embed_text(torch.where(is_text, given, 0))
        embeds = torch.where(is_text[:, None], text, lm.embed_speech(torch.where(is_text, 0, given - first)))
        logits = lm.head(lm(embeds[None]))[0].float()
        scores = torch.full_like(logits, -math.inf)
        scores[:, legal] = logits[:, legal].log_softmax(-1)
        return scores

    # --- ids

    def ids(self) -> None:
        self._legal("ids", self.runner, SPOKEN)

    def _legal(self, name: str, runner: VLLMRunner, count: int) -> None:
        found = torch.tensor(runner.requests.run(self._hot(runner, count // STREAMS)))
        rows = found - self.vocabulary.text_ids
        eos = self.vocabulary.speech_ids + 1
        bad = int(((rows < 0) | (rows >= self.vocabulary.speech_ids) & (rows != eos)).sum())
        seen = len(rows.unique())
        print(
            f"  {len(rows)} ids, {seen} different ones: {bad} that may not be{self.check(f'ids of {name}', bad == 0)}"
        )
        self.note(**{f"{name}_drawn": len(rows), f"{name}_different": seen, f"{name}_illegal": bad})

    async def _hot(self, runner: VLLMRunner, count: int) -> list[int]:
        from vllm import SamplingParams, TokensPrompt

        async def one(number: int) -> list[int]:
            params = SamplingParams(temperature=2.0, seed=number, max_tokens=count, ignore_eos=True, detokenize=False)
            prompt = TokensPrompt(prompt_token_ids=list(self.ask(number).prompt))
            async for output in llm.generate(prompt, params, f"hot-{number}"):
                said = list(output.outputs[0].token_ids)
            return said

        llm = _engine(runner)
        return [token for said in await asyncio.gather(*map(one, range(STREAMS))) for token in said]

    # --- speed

    def speed(self) -> None:
        self._speeds("vllm", lambda numbers: self.hear(self.runner, [self.ask(number) for number in numbers]))
        native = self.native(STREAMS)
        self._speeds("native", lambda numbers: self.hear_native(native, numbers))
        for what in ("alone", "32"):
            ratio = self.row[f"native_{what}_ids_per_s"] / self.row[f"vllm_{what}_ids_per_s"]
            print(f"  native says {ratio:.2f} times as many, {what}")

    def _speeds(self, name: str, hear: Callable[[Sequence[int]], Heard]) -> None:
        hear([0])
        alone = [hear([number]) for number in range(1, 4)]
        self._told(name, "alone", alone)
        hear(range(STREAMS))
        self._told(name, "32", [hear(range(100, 100 + STREAMS))])

    def _told(self, name: str, what: str, heard: Sequence[Heard]) -> None:
        rate = sorted(each.rate for each in heard)[len(heard) // 2]
        first, last = (sorted(each.to(count) for each in heard)[len(heard) // 2] for count in (1, FIRST))
        print(
            f"  {name:14} {what:>5}: {rate:8.0f} ids/s, ms to the 1st {first:6.1f}, to the 28th {last:6.1f}", flush=True
        )
        self.note(
            **{f"{name}_{what}_ids_per_s": rate, f"{name}_{what}_ms_to_1": first, f"{name}_{what}_ms_to_28": last}
        )

    # --- blocks

    def blocks(self) -> None:
        for streams in (1, STREAMS):
            whole, blocks = (self._through(streams, interleaved=interleaved) for interleaved in (False, True))
            print(f"  {streams:2} streams: {whole:5.2f} ms an id whole, {blocks:5.2f} with a request for every 15 ids")
            self.note(**{f"blocks_{streams}_whole_ms": whole, f"blocks_{streams}_ms": blocks})

    def _through(self, count: int, *, interleaved: bool) -> float:
        """ms an id, of 90 ids that each stream says."""
        runner = self.runner
        streams = [self.open(runner, 200 + number, interleaved=interleaved) for number in range(count)]
        began = time.perf_counter()
        while any(len(stream.tokens) < 90 for stream in streams):
            ready = [stream for stream in streams if stream.wants_step and len(stream.tokens) < 90]
            if ready:
                runner.step(ready)
            else:
                runner.wait()
        took = time.perf_counter() - began
        for stream in streams:
            assert stream.failure is None, stream.failure
            runner.close(stream)
        self._drained()
        return 1e3 * took / 90

    def _drained(self) -> float:
        """Seconds until vLLM knows of no request."""
        began = time.perf_counter()
        while self.llm.output_processor.get_num_unfinished_requests():
            if time.perf_counter() - began > 10:
                raise AssertionError("requests are left in vLLM")
            time.sleep(0.001)
        return time.perf_counter() - began

    # --- abort

    def abort(self) -> None:
        runner = self.runner
        streams = [self.open(runner, 300 + number) for number in range(STREAMS)]
        while any(len(stream.tokens) < 20 for stream in streams):
            if ready := [stream for stream in streams if stream.wants_step]:
                runner.step(ready)
            else:
                runner.wait()
        for stream in streams:
            runner.close(stream)
        took = self._drained()
        alone = self.hear(runner, [self.ask(400)]).to(FIRST)
        print(f"  {STREAMS} requests gone after {1e3 * took:.1f} ms; one that follows has 28 ids after {alone:.1f} ms")
        self.note(abort_ms=1e3 * took, after_abort_ms_to_28=alone)

    # --- session

    def session(self) -> None:
        limits = DeviceLimits(max_streams=4, utilisation=math.inf)
        began = time.perf_counter()
        runner = self.runner
        kind = "float16" if self.device == "cuda" else "float32"
        device = Device(self.checkpoint, limits, self.device, precision=kind, warmed=False, lm=lambda *_: runner)
        asyncio.run(self._talk(device, began))
        # A device stops its language model.
        del self.runner

    async def _talk(self, device: Device, began: float) -> None:
        async with device:
            print(f"  engine started in {time.perf_counter() - began:.1f} s", flush=True)
            for number in range(3):
                first, done = await self._sentence(device, number)
                audio = done.stats.audio_s
                print(
                    f"  {audio:.2f} s of sound, {done.stats.speech_tokens} ids, first packet after {1e3 * first:.1f} ms"
                )
            print(f"  nothing is left: {device.load_now}{self.check('session', device.load_now == (0, 0))}")
            self.note(session_first_packet_ms=1e3 * first, session_audio_s=audio)

    async def _sentence(self, device: Device, seed: int) -> tuple[float, Done]:
        home, over = asyncio.get_running_loop(), asyncio.Event()
        events: list[tuple[float, PortEvent]] = []

        def deliver(event: PortEvent) -> None:
            events.append((time.perf_counter(), event))
            if isinstance(event, Done | OscineError):
                home.call_soon_threadsafe(over.set)

        stream = await device.loop.open(StreamOptions(next(iter(device.voices)), seed, False), deliver)
        began = time.perf_counter()
        stream.speak([Begin(whole=True), Ids(tuple(self.text(seed, 11))), End()], end=True)
        await asyncio.wait_for(over.wait(), 60)
        last = events[-1][1]
        if not isinstance(last, Done):
            raise AssertionError(f"the stream ended with {last}")
        return next(at for at, event in events if isinstance(event, Audio)) - began, last

    # --- draft

    def draft(self) -> None:
        self._drafting("draft")

    def lot(self) -> None:
        self._drafting("lot", rejection_sample_method="synthetic", synthetic_acceptance_length=BAR)

    def _drafting(self, name: str, **more: Any) -> None:
        self.stop()
        directory = self.directory
        if not (directory / merged.DRAFT).exists():
            network = drafts.random(self.config.lm, device=self.device)
            merged.write_draft(network, self.checkpoint.lm, directory / merged.DRAFT)
        given = vllm_engine.arguments(VLLMOptions(directory, STREAMS, POSITIONS), self.config, "float16")
        runner = self.start(directory, speculative_config=given["speculative_config"] | more)
        try:
            self._speeds(name, lambda numbers: self.hear(runner, [self.ask(number) for number in numbers]))
            # By lot even ids of text are accepted, of which this draft proposes some.
            if not more:
                self._legal(name, runner, SPOKEN // 4)
        finally:
            runner.stop()

    # --- mps

    def mps(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            paths = {"CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe", "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log"}
            environment = os.environ | paths
            script = Path(__file__).parents[2] / "deploy" / "mps.sh"
            begun = subprocess.run(
                ["bash", str(script), "start"], env=environment, capture_output=True, text=True, timeout=30
            )
            print(f"  start: rc {begun.returncode} {begun.stdout.strip()} {begun.stderr.strip()}")
            self.note(mps_started=begun.returncode == 0)
            if begun.returncode:
                return
            try:
                work = "import torch; x = torch.ones(1000, 1000, device='cuda'); print((x @ x).sum().item())"
                used = subprocess.run(
                    [sys.executable, "-c", work], env=environment, capture_output=True, text=True, timeout=60
                )
                print(f"  a process under it: rc {used.returncode} {used.stdout.strip()} {used.stderr.strip()[-300:]}")
                self.note(mps_works=used.returncode == 0)
            finally:
                ended = subprocess.run(
                    ["bash", str(script), "stop"], env=environment, capture_output=True, text=True, timeout=30
                )
                print(f"  stop: rc {ended.returncode} {ended.stderr.strip()}")
                for log in sorted(Path(folder).rglob("*.log")):
                    print(f"  {log.name}: {log.read_text()[-600:]}")


def _engine(runner: VLLMRunner) -> Any:
    """vLLM's own object."""
    engine = runner.requests.engine
    assert isinstance(engine, vllm_engine.VLLM)
    return engine.llm


def main() -> None:
    """Command line entry point."""
    # Whoever runs out of time keeps what was measured so far.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("FAILED: no time was left"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, by commas")
    parser.add_argument("--tiny", action="store_true", help="small sizes")
    parser.add_argument("--json", action="store_true", help="print the row too")
    parser.add_argument("--results", type=Path, default=Path("bench/results/vllm.jsonl"), metavar="FILE")
    options = parser.parse_args()
    bench = Bench(options)
    if bench.device == "cuda":
        bench.note(
            gpu=torch.cuda.get_device_name(), torch=torch.__version__, vllm=version("vllm"), sections=options.only
        )
    with torch.no_grad():
        status = 1
        try:
            status = sections.run(
                ((name, partial(getattr(bench, name))) for name in options.only.split(",")), bench.failures
            )
        finally:
            bench.stop()
            bench.note(failed=bench.failures)
            with options.results.open("a") as file:
                file.write(json.dumps(bench.row) + "\n")
            if options.json:
                print(json.dumps(bench.row))
    sys.exit(status)


if __name__ == "__main__":
    main()
