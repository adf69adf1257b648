"""What ticks of the language model and the vocoder take on a GPU, and what of it is the host's.

    python -m bench.gpu.stages [--precision float16] [--device cuda] [--tiny]

Random weights of the released sizes, drawn on the device. A line for each kind of tick: milliseconds from its call to
its result (median), and of those the milliseconds of the host's CPU. Waiting for the device is part of the first alone
only where the system does not spin, so `host` is an upper bound.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

import torch

from bench.serving.engine import synthetic
from oscine_engine.lm.graphed import GraphedLM
from oscine_engine.lm.interleave import Prompt
from oscine_engine.lm.packed import page_shape
from oscine_engine.runtime.pages import PagePool
from oscine_engine.vocoder.graphed import GraphedVocoder

PAGE_TOKENS = 256
REPEATS = 30


def timed(name: str, tick: Callable[[], object]) -> None:
    """Print the medians of a few runs."""
    walls, cpus = [], []
    for _ in range(REPEATS):
        began, cpu = time.perf_counter(), time.thread_time()
        tick()
        walls.append(1000 * (time.perf_counter() - began))
        cpus.append(1000 * (time.thread_time() - cpu))
    print(f"{name:40} {statistics.median(walls):8.3f} ms   host {statistics.median(cpus):8.3f}", flush=True)


def language_model(runner: GraphedLM, counts: Sequence[int]) -> None:
    """Steps of so many streams that speak, after a prompt and a text of 128 rows; and such a text itself."""
    prompt = Prompt(tuple(range(90)))
    for count in counts:
        streams = [runner.open(prompt, seed=seed) for seed in range(count)]
        for stream in streams:
            stream.add_text([5] * 40)
            stream.end_text()
            runner.step([stream])
        timed(f"language model, {count} streams", lambda streams=streams: runner.step(streams))  # type: ignore[misc]
        for stream in streams:
            runner.close(stream)

    def read() -> None:
        stream = runner.open(prompt)
        stream.add_text([5] * 30)
        stream.end_text()
        runner.step([stream])
        runner.close(stream)

    timed("language model, a text of 122 rows", read)


def vocoder(runner: GraphedVocoder, counts: Sequence[int]) -> None:
    """First chunks of 20 frames and later ones of 50."""
    for count in counts:
        for frames in (20, 50):

            def first(count: int = count, frames: int = frames) -> None:
                mel = torch.full((frames, 80), -5.0)
                runner.step([(runner.open(), mel, False) for _ in range(count)])

            timed(f"vocoder, {count} first chunks of {frames}", first)
        streams = [runner.open() for _ in range(count)]
        mel = torch.full((50, 80), -5.0)
        runner.step([(stream, mel, False) for stream in streams])
        work = [(stream, mel, False) for stream in streams]
        timed(f"vocoder, {count} streams of 50", lambda work=work: runner.step(work))  # type: ignore[misc]


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="float16", choices=("float32", "float16", "bfloat16"))
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    config = synthetic.SMALL if options.tiny else synthetic.FULL
    counts = (1, 2) if options.tiny else (1, 8, 32)
    most = counts[-1]
    checkpoint = synthetic.checkpoint(config, device=options.device)
    dtype = getattr(torch, options.precision)
    pool = PagePool(most * 8, page_shape(config.lm, PAGE_TOKENS), dtype=dtype, device=options.device)
    lm = GraphedLM(checkpoint.lm.to(dtype), pool, config.sampling, config.text, max_streams=most)
    sines = checkpoint.noise.sine_waves(30 * config.vocoder.sampling_rate)
    vocoding = GraphedVocoder(checkpoint.vocoder, sines, max_streams=2 * most)
    for runner in (lm, vocoding):
        began = time.perf_counter()
        runner.capture()
        print(f"captured {type(runner).__name__} in {time.perf_counter() - began:.1f} s", flush=True)
    language_model(lm, counts)
    vocoder(vocoding, counts)


if __name__ == "__main__":
    main()
