"""What ticks cost on this machine: a few of each stage, on the real runners, before the first stream comes.

Each point is the fastest of a few ticks, since whatever disturbs a tick only makes it longer; what a loaded machine
really takes is learned from the ticks that follow (`CostModel.observed`). Rows double from 1 as far as the budget of
time and the streams go; beyond that the model's curves go on straight, which is how a CPU behaves.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial

import torch

from oscine_engine.flow.stream import FlowStream
from oscine_engine.flow.streams import FlowStreams
from oscine_engine.lm.interleave import Prompt
from oscine_engine.lm.port import LanguageModel
from oscine_engine.scheduler.costs import CostModel, Curve, GuessCosts
from oscine_engine.vocoder.runner import VocoderRunner

REPEATS = 3
BUDGET_S, STEPPED_BUDGET_S = 0.25, 2.0
"""Of each stage: no more rows are tried once this is spent. With fledgling all three together take about a second.

Where ticks are filled up to sizes each of them must be known, and what is captured is fast."""
READ_ROWS = 48
"""Positions of a prompt and a sentence, read at once: the long end of the language model's curve."""
STEPPED_READ_ROWS = (32, 64, 128, 256, 512, 1024)
"""Sizes of what is read at once where it is filled up."""
FAR_PAGES = 8
"""Chunks of context of the second flow point, beside one: the slope between them is what reading them costs."""


def measure(
    lm: LanguageModel, flow: FlowStreams, vocoder: VocoderRunner, most_rows: int, *, stepped: bool = False
) -> CostModel:
    """The cost model of these runners, for up to `most_rows` streams. Leaves nothing behind in their pools.

    stepped: ticks are filled up to the sizes that are measured, as captured graphs are.
    """
    budget_s = STEPPED_BUDGET_S if stepped else BUDGET_S
    # A fixed batch has a context of its own price, so it is measured at every size.
    far = min(most_rows, flow.pool.num_free // FAR_PAGES) if stepped else 1
    steps = [(0, lm.costs)] if lm.costs else _steps(lm, most_rows, budget_s, stepped=stepped)
    costs = CostModel.measured(
        lm=steps[0][1],
        flow=[*_flow_points(flow, most_rows, 1, budget_s), *_flow_points(flow, max(1, far), FAR_PAGES, budget_s)],
        vocoder=_vocoder_points(vocoder, most_rows, budget_s),
        stepped=stepped,
    )
    if len(steps) == 1:
        return costs
    curves = tuple((guesses, Curve.through(points, stepped=stepped)) for guesses, points in steps)
    return costs.guessing(GuessCosts(curves, lm.chances))


def _rows(most: int) -> list[int]:
    """1, 2, 4 ... and `most`."""
    return sorted({1 << power for power in range(most.bit_length())} | {most})


def _solve(runner: FlowStreams, streams: list[FlowStream]) -> None:
    """The same Euler step of the streams' chunks as ever."""
    for stream in streams:
        assert stream.chunk is not None
        stream.chunk.step = 0
    runner.step(streams)
    runner.settle()


def _fastest(tick: Callable[[], object], repeats: int = REPEATS) -> float:
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        tick()
        best = min(best, time.perf_counter() - began)
    return best


def _steps(
    lm: LanguageModel, most_rows: int, budget_s: float, *, stepped: bool
) -> list[tuple[int, list[tuple[int, float]]]]:
    """Steps by their guesses: decoding and reading."""
    found = []
    for guesses in lm.choices:
        # With guesses a step says several ids, and a sentence must not end while it is measured.
        said = _lm_points(lm, most_rows, budget_s, 100 if stepped else 30, guesses)
        largest = max(READ_ROWS, 2 * most_rows)
        reads = [rows for rows in STEPPED_READ_ROWS if rows > said[-1][0]] if stepped else [largest]
        found.append((guesses, [*said, *_read_points(lm, reads, budget_s, guesses)]))
    return found


def _lm_points(
    runner: LanguageModel, most: int, budget_s: float, text_ids: int, guesses: int
) -> list[tuple[int, float]]:
    """Decoding steps of so many streams, after a text of `text_ids`."""
    streams = [runner.open(Prompt(), seed=seed) for seed in range(most)]
    points = []
    try:
        for stream in streams:
            stream.add_text([0] * text_ids)
            stream.end_text()
        runner.step(streams, guesses)
        began = time.perf_counter()
        for rows in _rows(most):
            points.append((rows, _fastest(partial(runner.step, streams[:rows], guesses))))
            if time.perf_counter() - began > budget_s:
                break
    finally:
        for stream in streams:
            runner.close(stream)
    return points


def _read_points(runner: LanguageModel, sizes: Sequence[int], budget_s: float, guesses: int) -> list[tuple[int, float]]:
    """Texts of so many positions, read at once."""

    def read(rows: int) -> None:
        stream = runner.open(Prompt())
        stream.add_text([0] * (rows - 2))
        stream.end_text()
        try:
            runner.step([stream], guesses)
        finally:
            runner.close(stream)

    points = []
    began = time.perf_counter()
    for rows in sizes:
        points.append((rows, _fastest(partial(read, rows))))
        if time.perf_counter() - began > budget_s:
            break
    return points


def _flow_points(runner: FlowStreams, most: int, pages: int, budget_s: float) -> list[tuple[int, int, float]]:
    """Euler steps of so many streams, each with `pages` chunks of context, its own included."""
    config = runner.config
    chunk = config.dit.static_chunk_size
    tokens = torch.zeros(chunk // config.token_mel_ratio + config.pre_lookahead_len, dtype=torch.int32)
    mel = torch.zeros(config.token_mel_ratio * len(tokens), config.output_size)
    streams: list[FlowStream] = []
    points = []
    try:
        for _ in range(most):
            stream = runner.prompt(tokens, mel, torch.zeros(config.spk_embed_dim))
            streams.append(stream)
            stream.pages += runner.pool.alloc(pages - 1)
            stream.frames = (pages - 1) * chunk
            runner.begin(stream)
        _solve(runner, streams[:1])
        began = time.perf_counter()
        for rows in _rows(most):
            points.append((rows, rows * pages * chunk, _fastest(partial(_solve, runner, streams[:rows]))))
            if time.perf_counter() - began > budget_s:
                break
    finally:
        for stream in streams:
            runner.close(stream)
    return points


def _vocoder_points(runner: VocoderRunner, most: int, budget_s: float) -> list[tuple[int, float]]:
    """Batches of a second of mel each."""
    mel = torch.full((50, runner.network.config.in_channels), -5.0)
    streams = [runner.open() for _ in range(most)]
    runner.step([(streams[0], mel, False)])
    points = []
    began = time.perf_counter()
    for rows in _rows(most):
        work = [(stream, mel, False) for stream in streams[:rows]]
        points.append((rows, _fastest(partial(runner.step, work), 2)))
        if time.perf_counter() - began > budget_s:
            break
    return points
