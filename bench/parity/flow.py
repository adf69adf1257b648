"""Parity of the flow: every recorded stage, both attention modes, the solver, and the incremental runner.

Names and lengths come from the folder: config["cases"]["flow"]["prefixes"] lists the cases, whose tensors share one
file. The first case must be complete; a later one must have its inputs and mels, and whole groups of the rest or none.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.parity.rows import Row, compare, document, metadata, missing, tensors
from bench.parity.utterances import Utterance, new_runner, one_stream, run_streams
from oscine_engine.config import FlowConfig
from oscine_engine.flow.dit import chunk_mask
from oscine_engine.flow.network import Flow
from oscine_engine.flow.noise import initial_noise
from oscine_engine.flow.oneshot import Solution, solve
from oscine_engine.flow.schedule import time_span

STAGE = 1e-4
MEL = 1e-3
EXACT = 1e-6
INPUTS = ("in.prompt_token", "in.token", "in.prompt_feat", "in.embedding")
CALL = re.compile(r"(?P<schedule>.+)\.call(?P<index>\d+)\.(?:(?P<final>final_[a-z_]+)\.)?mel_all")


@dataclass(slots=True)
class Case:
    """Recorded tensors of one prefix, by the name without it; `used` are those some row has compared or fed."""

    prefix: str
    recorded: dict[str, Tensor]
    noise: Tensor
    used: set[str] = field(default_factory=set)

    @property
    def count(self) -> int:
        """Speech tokens after the prompt; 0 if none were recorded."""
        return self.recorded["in.token"].shape[1] if "in.token" in self.recorded else 0

    def __getitem__(self, name: str) -> Tensor:
        self.used.add(name)
        return self.recorded[name]

    def row(self, name: str, got: Callable[[], Tensor], tolerance: float) -> Row:
        """Compare the recorded tensor `name` with `got()`; a failing row if it was not recorded."""
        title = f"flow {self.prefix}{name}"
        if name not in self.recorded:
            return missing(title, f"tensor {self.prefix}{name}")
        return compare(title, got(), self[name], tolerance)

    def utterance(self, given: int | None = None) -> Utterance:
        """What the case says, with its first `given` tokens only."""
        prompt, token, feat, embedding = (self[name] for name in INPUTS)
        return Utterance(prompt, token[:, :given], feat, embedding, self.noise)


def load_flow(folder: Path, config: dict[str, Any]) -> Flow:
    """The folder's flow with its weights, loaded strictly."""
    flow = Flow(FlowConfig.from_reference(config["flow"]))
    flow.load_state_dict(tensors(folder, config["files"]["flow"][0]), strict=True)
    return flow.eval()


def load_cases(folder: Path, config: dict[str, Any], flow: Flow) -> list[Case]:
    """Split the recorded tensors by prefix, each to the longest that fits. Noise is drawn where not recorded."""
    prefixes = config["cases"]["flow"]["prefixes"]
    by_prefix: dict[str, dict[str, Tensor]] = {prefix: {} for prefix in prefixes}
    for name, value in tensors(folder, config["files"]["flow"][1]).items():
        fitting = [prefix for prefix in prefixes if name.startswith(prefix)]
        if fitting:
            prefix = max(fitting, key=len)
            by_prefix[prefix][name.removeprefix(prefix)] = value
    drawn = initial_noise(flow.config.cfm)
    return [Case(prefix, recorded, recorded.get("rand_noise", drawn)) for prefix, recorded in by_prefix.items()]


@torch.no_grad()
def checks(folder: Path, config: dict[str, Any]) -> Iterator[Row]:
    """All rows of the flow."""
    flow = load_flow(folder, config)
    cases = load_cases(folder, config, flow)
    plans = recorded_plans(folder, config, cases)
    if not cases:
        yield missing("flow cases", "any prefix in config cases.flow.prefixes")
    for number, case in enumerate(cases):
        absent = [name for name in INPUTS if name not in case.recorded]
        yield from (missing(f"flow {case.prefix}{name}", f"tensor {case.prefix}{name}") for name in absent)
        if absent:
            continue
        first = number == 0
        groups = {"rand_noise": _noise, "stage.": _stages, "est.": _estimator, "euler.": _euler}
        oneshot = solve(flow, *case.utterance(), streaming=True)
        for group, rows in groups.items():
            if first or any(name.startswith(group) for name in case.recorded):
                yield from rows(case, flow, config, oneshot)
        yield case.row("mel.full", lambda case=case: solve(flow, *case.utterance(), streaming=False).mel, MEL)
        yield case.row("mel.stream_oneshot", lambda mel=oneshot.mel: mel, MEL)
        yield from _calls(case, flow, plans[case.prefix])
        yield from _incremental(case, flow)
        for name in sorted(case.recorded.keys() - case.used):
            yield missing(f"flow {case.prefix}{name}", "check for this recorded tensor")


Plan = list[dict[str, Any]]
"""The growing calls of one schedule."""


def recorded_plans(folder: Path, config: dict[str, Any], cases: list[Case]) -> dict[str, dict[str, Plan]]:
    """Schedules by case prefix and name, from the recorded file's metadata, else from streaming_report.json.

    A schedule may be written under its case's prefix, in its name or one level deeper; without a prefix it is every
    case's whose number of tokens it ends on.
    """
    entries = metadata(folder, config["files"]["flow"][1])
    if "schedules" in entries:
        listed = json.loads(entries["schedules"])
    else:
        listed = document(folder, "streaming_report.json")["flow"]["schedules"]
    prefixes = [case.prefix for case in cases]
    plans: dict[str, dict[str, Plan]] = {prefix: {} for prefix in prefixes}
    for name, value in listed.items():
        deeper = [prefix for prefix in prefixes if prefix.rstrip(".") == name.rstrip(".")]
        named = max((prefix for prefix in prefixes if name.startswith(prefix)), key=len, default="")
        if isinstance(value, dict):
            for prefix in deeper:
                plans[prefix] |= value
        elif named:
            plans[named][name.removeprefix(named)] = value
        else:
            for case in cases:
                if case.count == value[-1]["tokens_given"]:
                    plans[case.prefix][name] = value
    return plans


def _noise(case: Case, flow: Flow, config: dict[str, Any], oneshot: Solution) -> Iterator[Row]:
    drawn = initial_noise(flow.config.cfm)
    yield case.row("rand_noise", lambda: drawn[:, :, : case["rand_noise"].shape[2]], EXACT)


def _stages(case: Case, flow: Flow, config: dict[str, Any], oneshot: Solution) -> Iterator[Row]:
    joined = torch.cat((case["in.prompt_token"], case["in.token"]), dim=1)
    ratio = flow.config.token_mel_ratio

    def at_token_rate(mu: Tensor) -> Tensor:
        return mu[:, :, ::ratio].transpose(1, 2)

    def with_context() -> Tensor:
        count = case["stage.prelookahead_context"].shape[1]
        ahead = joined[:, count : count + flow.config.pre_lookahead_len]
        return at_token_rate(flow.encode(joined[:, :count], context=ahead))

    yield case.row("stage.spk", lambda: flow.speaker(case["in.embedding"]), STAGE)
    yield case.row("stage.prelookahead_finalize", lambda: at_token_rate(flow.encode(joined)), STAGE)
    yield case.row("stage.prelookahead_context", with_context, STAGE)
    yield case.row("stage.t_span", lambda: time_span(flow.config.cfm, flow.config.cfm.n_timesteps), EXACT)


def _estimator(case: Case, flow: Flow, config: dict[str, Any], oneshot: Solution) -> Iterator[Row]:
    names = [f"est.in.{name}" for name in ("x", "mask", "mu", "t", "spks", "cond")]
    absent = [name for name in names if name not in case.recorded]
    if absent:
        yield from (missing(f"flow {case.prefix}{name}", f"tensor {case.prefix}{name}") for name in absent)
        return
    inputs = [case[name] for name in names]
    frames = inputs[0].shape[2]
    mask = chunk_mask(frames, flow.config.dit.static_chunk_size)[None].to(torch.uint8)
    yield case.row("est.chunk_mask", lambda: mask, 0.0)
    for mode, streaming in (("full", False), ("stream", True)):
        seen: dict[str, Tensor] = {}
        out = flow.estimator(*inputs, streaming, seen.__setitem__)
        if streaming:
            yield case.row("est.rope_freqs", lambda seen=seen: seen["rope_freqs"][None], STAGE)
            for part in ("q", "k"):
                name = f"est.block0.{part}_after_rope"
                yield case.row(name, lambda seen=seen, part=part: seen[f"block0.{part}"], STAGE)
            for name in ("time_embed", "input_proj", "input_embed"):
                yield case.row(f"est.{name}", lambda seen=seen, name=name: seen[name], STAGE)
        blocks = [f"block{number}{part}" for number in range(flow.config.dit.depth) for part in (".attn", "")]
        for name in (*blocks, "norm_out"):
            yield case.row(f"est.{mode}.{name}", lambda name=name, seen=seen: seen[name], STAGE)
        yield case.row(f"est.out.{mode}", lambda out=out: out, STAGE)


def _euler(case: Case, flow: Flow, config: dict[str, Any], oneshot: Solution) -> Iterator[Row]:
    yield case.row("euler.x_in", lambda: oneshot.states, MEL)
    yield case.row("euler.t", lambda: oneshot.times, EXACT)
    yield case.row("euler.v_cond_step0", lambda: oneshot.conditional[0], STAGE)
    yield case.row("euler.v_uncond_step0", lambda: oneshot.unconditional[0], STAGE)


def _calls(case: Case, flow: Flow, plans: dict[str, Plan]) -> Iterator[Row]:
    """Growing one-shot calls. What each was given follows from its shapes, and must be what the schedule says."""
    ratio, ahead = flow.config.token_mel_ratio, flow.config.pre_lookahead_len
    found = {match.group(): match for match in map(CALL.fullmatch, sorted(case.recorded)) if match}
    for name, calls in plans.items():
        for index, call in enumerate(calls):
            wanted = ("final_default_nonstreaming.", "final_streaming.") if call["finalize"] else ("",)
            for part in wanted:
                key = f"{name}.call{index}.{part}mel_all"
                if key not in found:
                    yield missing(f"flow {case.prefix}{key}", f"tensor {case.prefix}{key}")
    if not found:
        yield missing(f"flow {case.prefix}calls", "any growing call")
    for key, match in found.items():
        final = match["final"]
        frames = case.recorded[key].shape[2]
        given = frames // ratio + (0 if final else ahead)
        streaming = final != "final_default_nonstreaming"
        mel = solve(flow, *case.utterance(given), streaming=streaming, finalize=bool(final)).mel
        planned = plans.get(match["schedule"], [])
        call = planned[int(match["index"])] if int(match["index"]) < len(planned) else None
        yield case.row(key, lambda mel=mel: mel, MEL)
        new = key.removesuffix("all") + "new"
        fresh = case.recorded[new].shape[2] if new in case.recorded else 0
        if call is not None and call["tokens_given"] != given:
            yield missing(
                f"flow {case.prefix}{key}", f"agreement on tokens given: {given}, schedule {call['tokens_given']}"
            )
        offset = call["token_offset"] if call is not None else (frames - fresh) // ratio
        yield case.row(new, lambda mel=mel, offset=offset: mel[:, :, ratio * offset :], MEL)


def _incremental(case: Case, flow: Flow) -> Iterator[Row]:
    """The paged runner against the recorded one-shot stream: alone, then in a staggered batch of unlike streams."""
    title = f"flow {case.prefix}runner"
    if "mel.stream_oneshot" not in case.recorded:
        yield missing(title, "tensor mel.stream_oneshot")
        return
    wanted = case["mel.stream_oneshot"]
    alone = torch.cat(one_stream(flow, case.utterance())).transpose(0, 1)[None]
    yield compare(f"{title}, alone", alone, wanted, MEL)

    prompt, token, feat, embedding, noise = case.utterance()
    runner = new_runner(flow, case.utterance(), streams=4)
    # other voices: the same prompt without its first tokens; other texts: the same one backwards or cut short
    unlike = [case.utterance()]
    for cut, text in (
        (1, token.flip(1)),
        (prompt.shape[1] // 2, token[:, : token.shape[1] // 2 + 1]),
        (0, token[:, :1]),
    ):
        kept = feat[:, flow.config.token_mel_ratio * cut :]
        unlike.append(Utterance(prompt[:, cut:], text, kept, embedding.roll(cut, dims=1), noise))
    mels = run_streams(runner, unlike, stagger=3)
    for number, (mel, utterance) in enumerate(zip(mels, unlike, strict=True)):
        target = wanted if number == 0 else solve(flow, *utterance, streaming=True).mel
        yield compare(f"{title}, staggered batch, stream {number}", mel, target, MEL)
    held = float(runner.pool.num_pages - runner.pool.num_free)
    yield Row(f"{title}, pages left over", held, 0.0, held == 0)
