"""What each precision costs and saves: speed, memory, and the error against float32.

    python -m bench.gpu.precision [--precision float16,bfloat16] [--only speed,errors] [--tiny] [--json] [--out FILE]
    python -m bench.gpu.precision --report

Random weights of the released sizes, and for errors also the embedded voice. `float8` is float16 with the keys and
values that the flow keeps in 8 bits (e4m3). Sections, each of which may fail without hiding the others:

    memory     bytes of the weights, and of a second of context
    speed      ms of a step of the language model, a chunk of the flow and a step of the vocoder, by streams
    logits     those of the language model against float32 on the CPU, from the same text and ids
    errors     mel and wave against float32 on the CPU, from the same ids and noise
    trained    the same of the embedded voice, whose weights are not random
    rounded    what 8-bit linear layers in the flow would do to its mel, rounded on a CPU
    products   the linear layers of the flow in 8 bits against 16: `bench.gpu.eight`

On a GPU the precisions' errors are computed at once, each in a process of its own: most of that time goes to compiling.
What is beyond its bound fails. `--out` keeps the result as JSON, with what is there from other runs; `--report` writes
the tables of docs/benchmarks.md from it. `--tiny` uses small sizes, which also run on a CPU.

Keys of the printed object: `benchmark`, `device`, `torch`, `model` (full or tiny), `commit`, `time`; `precisions`, by
name: `weights_mb` and `context_mb` (a second of it) by part, `ms` by part and streams, `logits`, the root mean square
of their error in shares of theirs, and `errors` and `trained`, see `Errors` (of float8 and int8, of which only the mel
is known, `trained` alone); `products`, by rows and layer, see `bench.gpu.eight`; `failed`, the names of what failed.
"""

import argparse
import contextlib
import copy
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench.gpu import eight, flow, lm, sections, vocoder
from bench.gpu.timing import launch_us
from oscine_engine.checkpoint import synthetic
from oscine_engine.checkpoint.load import load
from oscine_engine.config import FlowConfig, LMConfig, VocoderConfig
from oscine_engine.flow import streams as flow_streams
from oscine_engine.flow.graphed import GraphedFlow
from oscine_engine.flow.network import Flow
from oscine_engine.flow.oneshot import solve
from oscine_engine.flow.runner import FlowRunner
from oscine_engine.lm.packed import page_shape as lm_page_shape
from oscine_engine.lm.runner import LMRunner
from oscine_engine.runtime.pages import PagePool
from oscine_engine.vocoder.graphed import GraphedVocoder
from oscine_engine.vocoder.network import HiFT

RESULTS = Path(__file__).parents[1] / "results" / "precision.json"
PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- bench.gpu.precision: begin -->", "<!-- bench.gpu.precision: end -->"
FRAMES = 50
"""Of a chunk, and of a step of the vocoder."""
CONTEXT_S = 5
FRAMES_A_SECOND, TOGETHER = 50, 8
CHILD_S = 110


@dataclass(frozen=True, slots=True)
class Kind:
    """dtype: of weights and activations of the language model and the flow. kept: of the flow's pages."""

    dtype: torch.dtype
    kept: torch.dtype

    @property
    def vocoder(self) -> torch.dtype:
        """As the engine chooses it: bfloat16 would cost the phase too much."""
        return torch.float32 if self.dtype is torch.float32 else torch.float16


KINDS = {
    **{name: Kind(getattr(torch, name), getattr(torch, name)) for name in ("float32", "float16", "bfloat16")},
    "float8": Kind(torch.float16, torch.float8_e4m3fn),
}


@dataclass(frozen=True, slots=True)
class Errors:
    """Against float32 on the CPU.

    mel_rms, mel_max: of the mel's natural logarithms. Log-spectral distances in dB: wave_db of the vocoder, from the
    same mel; mel_db of what the mel's error does to the wave, with the pitch that it had; chain_db of both together,
    with the pitch that the mel now has. A pitch that is off by a thousandth of a Hz moves every harmonic's phase in
    time, and all bins that hold two of them change, unheard: so chain_db is shown beside nudge_db, which is as much in
    float32 when every value of the mel is moved by 1e-4, and is not judged.
    """

    mel_rms: float
    mel_max: float
    wave_db: float
    mel_db: float
    chain_db: float
    nudge_db: float


BOUNDS: dict[str, dict[str, float]] = {
    "float32": {"logits": 1e-4, "mel_rms": 5e-4, "mel_max": 5e-3, "wave_db": 0.1, "mel_db": 0.02},
    "float16": {"logits": 1e-2, "mel_rms": 2e-3, "mel_max": 2e-2, "wave_db": 0.75, "mel_db": 0.2},
    "bfloat16": {"logits": 5e-2, "mel_rms": 2e-2, "mel_max": 2e-1, "wave_db": 0.75, "mel_db": 1.0},
    "float8": {"mel_rms": 2e-2, "mel_max": 4e-1, "wave_db": 0.75, "mel_db": 1.0},
}
"""The most of each error that passes."""


class Bench:
    def __init__(self, device: torch.device, tiny: bool) -> None:
        self.device, self.tiny = device, tiny
        self.failures: list[str] = []
        self.counts = (1, 2) if tiny else (1, 8, 32)
        self.found: dict[str, dict[str, Any]] = {}
        self.lines: list[dict[str, Any]] = []
        self.lm_config: LMConfig = lm.TINY if tiny else lm.FULL
        self.flow_config: FlowConfig = flow.TINY if tiny else flow.FULL
        self.vocoder_config: VocoderConfig = vocoder.TINY if tiny else vocoder.FULL

    def of(self, name: str) -> dict[str, Any]:
        return self.found.setdefault(name, {})

    # --- memory

    def memory(self, name: str) -> None:
        kind = KINDS[name]
        dtype = kind.dtype
        with torch.device("meta"):
            parts: dict[str, tuple[nn.Module, torch.dtype]] = {
                "lm": (_speech_lm(self.lm_config), dtype),
                "flow": (Flow(self.flow_config), dtype),
                "vocoder": (HiFT(self.vocoder_config), kind.vocoder),
            }
        weights = {
            part: sum(value.numel() for value in module.parameters()) * held.itemsize / 1e6
            for part, (module, held) in parts.items()
        }
        dit = self.flow_config.dit
        page = np.prod(flow_streams.page_shape(self.flow_config, self.flow_config.cfm.n_timesteps))
        row = np.prod(lm_page_shape(self.lm_config, 1))
        context = {
            "flow": float(page) / dit.static_chunk_size * FRAMES_A_SECOND * kind.kept.itemsize / 1e6,
            "lm": float(row) * self.flow_config.input_frame_rate * dtype.itemsize / 1e6,
        }
        self.of(name).update(weights_mb=_rounded(weights), context_mb=_rounded(context))
        print(f"  {name}: weights {_listed(weights, ' MB')}; a second of context {_listed(context, ' MB')}")

    # --- speed

    def speed(self, name: str) -> None:
        took = self.of(name)["ms"] = {}
        kind = KINDS[name]
        parts = [("flow", self._flow_ms)]
        if kind.kept is kind.dtype:
            parts += [("lm", self._lm_ms), ("vocoder", self._vocoder_ms)]
        for part, measured in parts:
            took[part] = _rounded({str(count): ms for count, ms in measured(kind)})
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            print(f"  {name} {part:8}: {_listed(took[part], ' ms')} by streams", flush=True)

    def _lm_ms(self, kind: Kind) -> Iterator[tuple[int, float]]:
        bench = lm.Bench(self.lm_config, self.device, kind.dtype)
        runner = bench.runner(kind.dtype, max(self.counts))
        for count in self.counts:
            tick = runner._saying(count, 0)
            tick.capture(runner._graphs)
            streams = [bench.begun(runner, seed) for seed in range(count)]
            # The first step reads the text; what the second says is then said again and again.
            for _ in range(2):
                runner.step(streams)
            yield count, launch_us(tick.run, bench.device) / 1e3
            for stream in streams:
                runner.close(stream)

    def _flow_ms(self, kind: Kind) -> Iterator[tuple[int, float]]:
        bench = flow.Bench(self.flow_config, self.device, kind.dtype, self.tiny, kind.kept)
        most, seconds = max(self.counts), 1 if self.tiny else CONTEXT_S
        runner = bench.runner(most * (seconds + 1), most, kind.dtype)
        flow.fill(runner.pool.data)
        for count in self.counts:
            runner._starting[count].capture(runner._spare, runner._silent)
            for tick in runner._ticks[count]:
                tick.capture(runner._spare)
            voices = [bench._context(runner, seconds) for _ in range(count)]
            took = [bench._one_chunk(runner, voices)[0] for _ in range(6)]
            for voice in voices:
                runner.release(voice)
            yield count, statistics.median(took[1:])

    def _vocoder_ms(self, kind: Kind) -> Iterator[tuple[int, float]]:
        bench = vocoder.Bench(self.vocoder_config, self.device, self.tiny)
        runner = GraphedVocoder(bench.network, bench.noise, max_streams=max(self.counts), dtype=kind.vocoder)
        for count in self.counts:
            runner.capture_one(count, FRAMES)
            yield count, bench._step_ms(runner, count, FRAMES)[1]

    # --- errors

    def errors(self, name: str) -> None:
        torch.manual_seed(3)
        networks = Flow(self.flow_config).eval(), HiFT(self.vocoder_config).eval()
        synthetic._draw(networks[1], torch.Generator().manual_seed(3))
        synthetic._settle(networks[1])
        generator = torch.Generator().manual_seed(1)
        ids = torch.randint(0, self.flow_config.vocab_size, (40 + 66,), generator=generator)
        voice = torch.randn(80, 80, generator=generator), torch.randn(192, generator=generator)
        sines = torch.rand(1, 96000, self.vocoder_config.nb_harmonics + 1, generator=generator)
        said = Said(ids[:40], ids[40:].tolist(), voice, None, sines)
        self._judge(name, "errors", Chain(*networks, said, self.device))

    def trained(self, name: str) -> None:
        self._judge(name, "trained", self._embedded())

    def _embedded(self) -> "Chain":
        voiced = load(None)
        first, second = list(voiced.voices.values())[:2]
        said = Said(
            prompt=first.flow_speech_tokens,
            ids=second.flow_speech_tokens[:66].tolist(),
            voice=(first.mel, first.embedding),
            noise=voiced.noise.rand_noise,
            sines=voiced.noise.sine_waves(96000),
        )
        return Chain(voiced.flow, voiced.vocoder, said, self.device)

    def rounded(self) -> None:
        chain = self._embedded()
        for kind in eight.LARGEST:
            found = self.of(f"{kind} products")["trained"] = _rounded(chain.rounded(kind))
            print(f"  {kind} products: {_listed(found, '')}")

    def logits(self, name: str) -> None:
        """Of a text and 40 ids, alone and beside two others."""
        bench = lm.Bench(self.lm_config, self.device, KINDS[name].dtype)
        pool = PagePool(4, lm_page_shape(self.lm_config, lm.PAGE_TOKENS))
        wanted = bench._heard(LMRunner(bench.lm, pool, bench.sampling, lm.RULES), 1)[0]
        runner = bench.runner(KINDS[name].dtype, 4)
        worst = max(lm._error(one, wanted) for count in (1, 3) for one in bench._heard(runner, count))
        self.of(name).update(self._within("logits", name, {"logits": worst}))

    def _judge(self, name: str, section: str, chain: "Chain") -> None:
        self.of(name)[section] = self._within(section, name, asdict(Errors(**chain.errors(KINDS[name]))))

    def _within(self, section: str, name: str, errors: dict[str, float]) -> dict[str, float]:
        """What is beyond its bound has failed."""
        for key, value in errors.items():
            bound = BOUNDS[name].get(key)
            line = f"  {name} {key:8} {value:.2e}" + ("" if bound is None else f", at most {bound:g}")
            if bound is not None and not value <= bound:
                self.failures.append(f"{section} {name} {key}")
                line += "   <-- FAILED"
            print(line)
        return {key: float(f"{value:.3g}") for key, value in errors.items()}

    # --- products

    def products(self) -> None:
        self.lines = eight.measured(self.flow_config.dit, self.device, self.tiny)


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """What is said: `ids` after a prompt of `prompt`, in a voice (mel, embedding); noise None is the fixed one."""

    prompt: Tensor
    ids: list[int]
    voice: tuple[Tensor, Tensor]
    noise: Tensor | None
    sines: Tensor


class Chain:
    """Flow and vocoder, in float32 on the CPU, and what they make of `said`."""

    def __init__(self, network: Flow, hift: HiFT, said: Said, device: torch.device) -> None:
        self._flow, self._vocoder, self._said, self._device = network, hift, said, device
        self._steps = network.config.cfm.n_timesteps
        self._shape = flow_streams.page_shape(network.config, self._steps)
        self._pages = -(-(len(said.prompt) + len(said.ids)) // 25) + 1
        plain = FlowRunner(network, PagePool(self._pages, self._shape), self._steps, said.noise)
        self.mel = self._spoken(plain, 1)[0]
        self.source = hift.source(hift.f0(self.mel.T[None]), said.sines)
        self.wave = self._decoded(self.mel)

    def errors(self, kind: Kind) -> dict[str, float]:
        pool = PagePool(TOGETHER * self._pages, self._shape, dtype=kind.kept, device=self._device)
        there = copy.deepcopy(self._flow).to(self._device)
        runner = GraphedFlow(
            there, pool, self._steps, self._said.noise, max_streams=TOGETHER, max_prefixes=1, dtype=kind.dtype
        )
        mels = [mel for count in (1, TOGETHER) for mel in self._spoken(runner, count)]
        worst = max(mels, key=lambda mel: float((mel - self.mel).square().mean()))
        return {
            **self._off(worst),
            "mel_max": max(float((mel - self.mel).abs().max()) for mel in mels),
            "wave_db": self._apart(self._voiced(self.mel, kind)),
            "chain_db": self._apart(self._voiced(worst, kind)),
            "nudge_db": self._apart(self._vocoder((self.mel + 1e-4).T[None], self._said.sines)[0][0].numpy()),
        }

    def rounded(self, kind: str) -> dict[str, float]:
        """The errors of the mel alone, had the blocks' linear layers 8 bits."""
        said, (mel, speaker) = self._said, self._said.voice
        assert said.noise is not None
        ids = torch.tensor([said.ids])
        solved = solve(
            eight.with_rounded(self._flow, kind), said.prompt[None], ids, mel[None], speaker[None], said.noise,
            streaming=True,
        )  # fmt: skip
        return self._off(solved.mel[0].T)

    def _off(self, mel: Tensor) -> dict[str, float]:
        error = mel - self.mel
        return {
            "mel_rms": float(error.square().mean().sqrt()),
            "mel_max": float(error.abs().max()),
            "mel_db": self._apart(self._decoded(mel)),
        }

    def _spoken(self, runner: flow_streams.FlowStreams, count: int) -> list[Tensor]:
        said = self._said
        return flow._spoken(runner, said.prompt, said.ids, said.voice, count)

    def _decoded(self, mel: Tensor) -> Any:
        """The wave of `mel` in float32 with the source of the right one."""
        return self._vocoder.decode(mel.T[None], self.source)[0].numpy()

    def _voiced(self, mel: Tensor, kind: Kind) -> Any:
        there = copy.deepcopy(self._vocoder).to(self._device)
        runner = GraphedVocoder(there, self._said.sines, max_streams=1, dtype=kind.vocoder)
        stream, parts = runner.open(), []
        for at in range(0, len(mel), FRAMES):
            parts += runner.step([(stream, mel[at : at + FRAMES], at + FRAMES >= len(mel))])
        return np.concatenate(parts)

    def _apart(self, wave: Any) -> float:
        return vocoder._spectral_distance(wave, self.wave)


def _speech_lm(config: LMConfig) -> nn.Module:
    from oscine_engine.lm.network import SpeechLM

    return SpeechLM(config)


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in values.items()}


def _listed(values: dict[str, float], unit: str) -> str:
    return ", ".join(f"{name} {value:.4g}{unit}" for name, value in values.items())


SECTIONS = ("memory", "logits", "errors", "trained", "rounded", "speed", "products")
APART = ("logits", "errors", "trained")
ONCE = ("rounded", "products")
ON_A_CPU = ("memory", "trained", "rounded")
"""Sections that need no GPU: there the kernels' twins compute, in the same types."""


def names_for(section: str, names: Sequence[str]) -> list[str]:
    """Those that the section can tell apart: the language model knows nothing of the flow's pages."""
    return [name for name in names if section != "logits" or KINDS[name].kept is KINDS[name].dtype]


def work(bench: Bench, names: Sequence[str], chosen: Sequence[str]) -> Iterator[tuple[str, Callable[[], object]]]:
    """The sections to run in this process."""
    for section in chosen:
        if section in ONCE:
            yield section, getattr(bench, section)
            continue
        for name in names_for(section, names):
            yield f"{section}, {name}", partial(getattr(bench, section), name)


def apart(bench: Bench, names: Sequence[str], chosen: Sequence[str], more: Sequence[str]) -> None:
    """Run every section of `chosen` for every precision at once, each in a process of its own."""
    # Not all compute on the CPU at the same time: most of them compile.
    threads = str(max(1, (os.cpu_count() or 1) // 4))
    children = {
        (section, name): subprocess.Popen(
            [sys.executable, "-m", "bench.gpu.precision", "--only", section, "--precision", name, "--json", *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": threads},
        )
        for section in chosen
        for name in names_for(section, names)
    }
    until = time.monotonic() + CHILD_S
    for (section, name), child in children.items():
        try:
            result, told = child.communicate(timeout=max(1.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            result, told = child.communicate()
        print("\n".join(line for line in told.splitlines() if line.startswith(" ")), flush=True)
        if child.returncode not in (0, 1) or not result:
            print(told[-4000:])
            bench.failures.append(f"{section} {name}")
            continue
        found = json.loads(result)
        bench.failures += found["failed"]
        # Nothing is found where all of it failed.
        bench.of(name).update(found["precisions"].get(name, {}))


def added(out: Path, result: dict[str, Any]) -> dict[str, Any]:
    """`result` with what is in the file of an earlier run and not in it; the machine is the earlier one's if this run
    had no GPU."""
    if not out.exists():
        return result
    before = json.loads(out.read_text())
    old, new = before["precisions"], result["precisions"]
    both = {
        "precisions": {name: {**old.get(name, {}), **new.get(name, {})} for name in dict.fromkeys((*old, *new))},
        "products": result["products"] or before["products"],
        "failed": list(dict.fromkeys((*before["failed"], *result["failed"]))),
    }
    return {**(before if result["device"] == "CPU" else result), **both}


# --- report


def report(result: dict[str, Any], page: Path = PAGE) -> None:
    """Rewrite the part of the page between the marks. Raises ValueError if it lacks them."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} lacks {BEGIN} or {END}")
    page.write_text(f"{before}{BEGIN}\n{markdown(result)}\n{END}{after}")


def markdown(result: dict[str, Any]) -> str:
    """The tables of a result."""
    found = result["precisions"]
    where = f"{result['device']}, torch {result['torch']}, {result['time'][:10]}, {result['commit']}"
    counts = next((list(one["ms"]["flow"]) for one in found.values() if "ms" in one), [])
    costs = [
        [
            name,
            *(_listed_ms(one.get("ms", {}).get(part), counts) for part in PARTS),
            *(_figure(one.get("weights_mb", {}).get(part)) for part in PARTS),
            _figure(sum(one["context_mb"].values()) if "context_mb" in one else None),
            _judged(one.get("logits"), BOUNDS[name].get("logits")),
        ]
        for name, one in found.items()
        if name in KINDS
    ]
    headers = ["", *(f"{what}, ms" for what in PARTS.values()), *(f"{part} weights, MB" for part in PARTS)]
    headers += ["a second of context, MB", "error of the logits"]
    timed = f"; by {' / '.join(counts)} streams" if counts else ""
    texts = [f"{where}{timed}.", _table(headers, costs)]
    wrong = [
        [f"{name}, {model}", *(_judged(one[section].get(key), BOUNDS.get(name, {}).get(key)) for key in COLUMNS)]
        for name, one in found.items()
        for section, model in (("errors", "random"), ("trained", "embedded voice"))
        if section in one
    ]
    if wrong:
        texts.append("Errors against float32, in brackets the most that passes:")
        texts.append(_table(["", *COLUMNS.values()], wrong))
    if result["products"]:
        texts.append(eight.markdown(result["products"]))
    return "\n\n".join(texts)


PARTS = {"lm": "LM step", "flow": "flow chunk", "vocoder": "vocoder step"}
COLUMNS = {
    "mel_rms": "mel, rms",
    "mel_max": "mel, at most",
    "wave_db": "vocoder, dB",
    "mel_db": "mel's error in the wave, dB",
    "chain_db": "whole chain, dB",
    "nudge_db": "float32 with its mel moved by 1e-4, dB",
}


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _listed_ms(took: dict[str, float] | None, counts: Sequence[str]) -> str:
    return "-" if took is None else " / ".join(_figure(took.get(count)) for count in counts)


def _judged(value: float | None, bound: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2g}" + ("" if bound is None else f" ({bound:g})")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _commit() -> str:
    told = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return told.stdout.strip() or "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.gpu.precision", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--precision", default=",".join(KINDS), help="which, by comma")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, by comma")
    parser.add_argument("--tiny", action="store_true", help="small sizes, which also run on a CPU")
    parser.add_argument("--json", action="store_true", help="print one object; what people read goes to stderr")
    parser.add_argument("--commit", metavar="ID", help="of this code, where git cannot tell")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the object there")
    parser.add_argument("--report", action="store_true", help=f"write docs/benchmarks.md from {RESULTS.name}")
    parsed = parser.parse_args()
    names, chosen = parsed.precision.split(","), parsed.only.split(",")
    for given, known in ((names, KINDS), (chosen, SECTIONS)):
        if wrong := [one for one in given if one not in known]:
            parser.error(f"no such thing: {', '.join(wrong)}; there are {', '.join(known)}")
    if parsed.report:
        try:
            report(json.loads((parsed.out or RESULTS).read_text()))
        except (OSError, ValueError) as error:
            parser.error(str(error))
        return 0
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not parsed.tiny and not set(chosen) <= set(ON_A_CPU):
        parser.error(f"no GPU here; --tiny runs on a CPU, and so do {', '.join(ON_A_CPU)}")
    torch.set_grad_enabled(False)
    bench = Bench(device, parsed.tiny)
    with contextlib.redirect_stdout(sys.stderr) if parsed.json else contextlib.nullcontext():
        split = device.type == "cuda" and len(names) > 1
        divided = [section for section in chosen if section in APART] if split else []
        if divided:
            apart(bench, names, divided, ["--tiny"] if parsed.tiny else [])
        status = sections.run(work(bench, names, [each for each in chosen if each not in divided]), bench.failures)
    result = {
        "benchmark": "precision",
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "torch": torch.__version__,
        "model": "tiny" if parsed.tiny else "full",
        "commit": parsed.commit or _commit(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        "precisions": bench.found,
        "products": bench.lines,
        "failed": list(dict.fromkeys(bench.failures)),
    }
    if parsed.json:
        print(json.dumps(result))
    if parsed.out:
        parsed.out.parent.mkdir(parents=True, exist_ok=True)
        parsed.out.write_text(json.dumps(added(parsed.out, result), indent=1) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
