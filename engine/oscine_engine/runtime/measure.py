"""What ticks cost on this machine: a few of each stage, on the real runners, before the first stream comes.

Each point is the fastest of a few ticks, since whatever disturbs a tick only makes it longer; what a loaded machine
really takes is learned from the ticks that follow (`CostModel.observed`). Rows double from 1 as far as the budget of
time and the streams go; beyond that the model's curves go on straight, which is how a CPU behaves.
"""

import time
from collections.abc import Callable
from functools import partial

import torch

from oscine_engine.flow.stream import FlowStream
from oscine_engine.flow.streams import FlowStreams
from oscine_engine.lm.interleave import Prompt
from oscine_engine.lm.runner import LMRunner
from oscine_engine.scheduler.costs import CostModel
from oscine_engine.vocoder.runner import VocoderRunner

REPEATS = 3
BUDGET_S = 0.25
"""Of each stage: no more rows are tried once this is spent. With fledgling all three together take about a second."""
READ_ROWS = 48
"""Positions of a prompt and a sentence, read at once: the long end of the language model's curve."""
FAR_PAGES = 8
"""Chunks of context of the second flow point, beside one: the slope between them is what reading them costs."""


def measure(
    lm: LMRunner, flow: FlowStreams, vocoder: VocoderRunner, most_rows: int, *, stepped: bool = False
) -> CostModel:
    """The cost model of these runners, for up to `most_rows` streams. Leaves nothing behind in their pools.

    stepped: ticks are filled up to the sizes that are measured, as captured graphs are.
    """
    return CostModel.measured(
        lm=[*_lm_points(lm, most_rows), _reading(lm, most_rows)],
        flow=[*_flow_points(flow, most_rows, 1), *_flow_points(flow, 1, FAR_PAGES)],
        vocoder=_vocoder_points(vocoder, most_rows),
        stepped=stepped,
    )


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


def _lm_points(runner: LMRunner, most: int) -> list[tuple[int, float]]:
    """Decoding steps of so many streams, after a short text."""
    streams = [runner.open(Prompt(), seed=seed) for seed in range(most)]
    points = []
    try:
        for stream in streams:
            stream.add_text([0] * 30)
            stream.end_text()
        runner.step(streams)
        began = time.perf_counter()
        for rows in _rows(most):
            points.append((rows, _fastest(partial(runner.step, streams[:rows]))))
            if time.perf_counter() - began > BUDGET_S:
                break
    finally:
        for stream in streams:
            runner.close(stream)
    return points


def _reading(runner: LMRunner, most: int) -> tuple[int, float]:
    def read() -> None:
        stream = runner.open(Prompt())
        stream.add_text([0] * (max(READ_ROWS, 2 * most) - 2))
        stream.end_text()
        try:
            runner.step([stream])
        finally:
            runner.close(stream)

    return max(READ_ROWS, 2 * most), _fastest(read)


def _flow_points(runner: FlowStreams, most: int, pages: int) -> list[tuple[int, int, float]]:
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
            if time.perf_counter() - began > BUDGET_S:
                break
    finally:
        for stream in streams:
            runner.close(stream)
    return points


def _vocoder_points(runner: VocoderRunner, most: int) -> list[tuple[int, float]]:
    """Batches of a second of mel each."""
    mel = torch.full((50, runner.network.config.in_channels), -5.0)
    streams = [runner.open() for _ in range(most)]
    runner.step([(streams[0], mel, False)])
    points = []
    began = time.perf_counter()
    for rows in _rows(most):
        work = [(stream, mel, False) for stream in streams[:rows]]
        points.append((rows, _fastest(partial(runner.step, work), 2)))
        if time.perf_counter() - began > BUDGET_S:
            break
    return points
