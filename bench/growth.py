"""Does speech get dearer as it goes on? python -m bench.growth [--model DIR|tiny] [--json]

Three measurements, each against itself at another time. Times are CPU seconds of the one thread that computes
(`time.thread_time`), not of the clock, so that other work on the machine does not count; it still shares caches, so
everything is taken several times, the things compared in turn, and medians are compared.

1. A session of ten segments with the same text, several times over: the time of a chunk (its Euler steps and its
   vocoder tick) in the last segment against the chunk at the same place in the first. Only whole chunks are compared.
2. One segment of over 30 s, solved by the flow and the vocoder directly: the chunk that ends nearest 30 s against the
   one nearest 5 s. Attention reads the keys and values of everything before, so this one must grow. For comparison that
   reading alone (gathering the pages, and attention of the same shapes over them) is timed at both places.
3. One session of 20 minutes of speech, as fast as it goes: resident memory once a minute. A segment of the longest kind
   is spoken before, so that pages that were never used before are not taken for growth.

Keys of the printed object:

* `benchmark`, `model`, `host` (as in first_packet);
* `segment_ratio`: last segment over first, flow and vocoder together, at most 1.05 expected; `flow_ratio` and
  `vocoder_ratio` the same for each; `chunks`: places compared; `sessions`: repetitions;
* `chunk_ms`: `flow` and `vocoder`, the mean chunk of the first segment;
* `within_ratio`: chunk at 30 s over 5 s, flow and vocoder together;
  `within`, with `at_5_s` and `at_30_s` each: `flow_ms`, `vocoder_ms`, `kv_mib` (keys and values read for the chunk over
  all its Euler steps), `reading_ms` (that reading and its attention alone);
  `explained`: growth of `reading_ms` over growth of `flow_ms`;
  `model_ms`: `chunk` and `per_context_s`: the line through all chunks' flow times, at no context and for each second
  of it; `model_gib_s`: keys and values over the time that the line gives them;
* `rss_growth`: resident memory at the end over the end of the second minute, minus 1; `rss_mib`: once a minute;
  `rss_mib_per_minute`: the line through them from the second minute on; `speech_minutes`.

The exit status is 1 if `segment_ratio` is above 1.05 or `rss_growth` above 0.02.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.nn import functional as F

from bench.figures import host, line, resident
from bench.model import add_model, model_directory, model_name
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import OscineError
from oscine_engine.events import Audio, Mode, SessionRequest
from oscine_engine.flow.runner import FlowRunner, page_shape
from oscine_engine.runtime.pages import PagePool
from oscine_engine.runtime.trace import Said, Solved, Ticked, Trace
from oscine_engine.scheduler.views import Stage
from oscine_engine.vocoder.runner import VocoderRunner

SENTENCE = "The library closes early on holidays, so please come before noon, or call us any time before you leave. "
LONGEST = "We went on along the river, past the mill and the old bridge, and on to where the road turns, " * 5
SEGMENTS = 10
AHEAD = 4
"""Sentences of text that wait to be spoken in the third measurement."""
MOST_SEGMENT_RATIO, MOST_RSS_GROWTH = 1.05, 0.02
EARLY_S, LATE_S = 5.0, 30.0


@dataclass(slots=True)
class Chunk:
    """One chunk of one segment: mel frames, CPU seconds of its Euler steps and of its vocoder tick."""

    segment: int
    frames: int
    flow_s: float
    vocoder_s: float | None = None


@dataclass(slots=True)
class Watch:
    """An observer of one stream alone: what each of its chunks took."""

    chunks: list[Chunk] = field(default_factory=list)
    _flow_s: float = 0.0
    _silent: deque[Chunk] = field(default_factory=deque)

    def __call__(self, event: Trace) -> None:
        match event:
            case Ticked(stage=Stage.FLOW):
                self._flow_s += event.cpu_s
            case Ticked(stage=Stage.VOCODER) if self._silent:
                self._silent.popleft().vocoder_s = event.cpu_s
            case Solved():
                chunk = Chunk(event.segment, event.mel.shape[0], self._flow_s)
                self.chunks.append(chunk)
                self._silent.append(chunk)
                self._flow_s = 0.0
            case Said():
                self._silent.clear()


def places(sessions: Sequence[Sequence[Chunk]], segment: int) -> dict[int, tuple[int, float, float]]:
    """By place in the segment: frames, and the medians over sessions of flow and vocoder seconds.

    A segment's last chunk is left out, since it is cut short, and so are places that not every session has.
    """
    found = [[chunk for chunk in chunks if chunk.segment == segment][:-1] for chunks in sessions]
    made = {}
    for place, row in enumerate(zip(*found, strict=False)):
        timed = [(chunk.flow_s, chunk.vocoder_s) for chunk in row if chunk.vocoder_s is not None]
        if len({chunk.frames for chunk in row}) == 1 and len(timed) == len(row):
            made[place] = (row[0].frames, median(t[0] for t in timed), median(t[1] for t in timed))
    return made


def compared(sessions: Sequence[Sequence[Chunk]], last: int) -> dict[str, Any]:
    """Figures of the first measurement. Raises ValueError if no chunk is at the same place of both segments."""
    first, late = places(sessions, 0), places(sessions, last)
    both = [place for place in first if place in late and first[place][0] == late[place][0]]
    if not both:
        raise ValueError("the segments are too short to have a whole chunk in common")
    flow, vocoder = (tuple(sum(rows[place][part] for place in both) for rows in (first, late)) for part in (1, 2))
    return {
        "segment_ratio": round((flow[1] + vocoder[1]) / (flow[0] + vocoder[0]), 4),
        "flow_ratio": round(flow[1] / flow[0], 4),
        "vocoder_ratio": round(vocoder[1] / vocoder[0], 4),
        "chunks": len(both),
        "sessions": len(sessions),
        "chunk_ms": {"flow": round(1000 * flow[0] / len(both), 2), "vocoder": round(1000 * vocoder[0] / len(both), 2)},
    }


async def between(model: Path | None, segments: int, repeat: int) -> dict[str, Any]:
    """The first measurement: sessions one after the other, the first of all not counted."""
    sessions = []
    watch = Watch()
    async with Engine.load(EngineSettings(model=model), observe=lambda event: watch(event)) as engine:
        for seed in range(-1, repeat):
            watch = Watch()
            async with await engine.open(SessionRequest(mode=Mode.SENTENCE, seed=seed + 1)) as session:
                await session.append(SENTENCE * segments)
                await session.finish()
                async for _ in session:
                    pass
            sessions.append(watch.chunks)
    return compared(sessions[1:], segments - 1)


@torch.inference_mode()
def reading_s(config: FlowShape, context: int, repeat: int) -> float:
    """CPU seconds to gather the keys and values of `context` frames and attend to them, all Euler steps and layers."""
    pages = -(-context // config.chunk)
    page = torch.randn(2, 2, config.chunk, config.inner)
    stored = [page.clone() for _ in range(pages)]
    query = torch.randn(2, config.heads, config.chunk, config.inner // config.heads)
    taken = []
    for _ in range(repeat):
        began = time.thread_time()
        for _ in range(config.passes):
            keys, values = torch.cat(stored, dim=2)
            split = [part.view(2, -1, config.heads, query.shape[-1]).transpose(1, 2) for part in (keys, values)]
            F.scaled_dot_product_attention(query, *split)
        taken.append(time.thread_time() - began)
    return median(taken)


@dataclass(frozen=True, slots=True)
class FlowShape:
    """`passes`: attentions of one chunk, Euler steps by layers. `chunk` in frames, `inner`: width of keys."""

    chunk: int
    heads: int
    inner: int
    passes: int

    def kv_bytes(self, context: int) -> int:
        """Keys and values, of both guidance rows, that a chunk reads that ends at `context` frames."""
        return self.passes * 2 * 2 * 4 * self.inner * context


def solved(checkpoint: Checkpoint, seconds: float) -> list[tuple[float, float, float]]:
    """One segment chunk by chunk: (seconds of speech at its end, flow CPU seconds, vocoder CPU seconds)."""
    config = checkpoint.config
    chunk_tokens = config.flow.dit.static_chunk_size // config.flow.token_mel_ratio
    voice = next(iter(checkpoint.voices.values()))
    tokens = round(seconds * config.flow.input_frame_rate)
    pages = -(-(tokens + voice.flow_speech_tokens.numel()) // chunk_tokens) + 1
    pool = PagePool(pages, page_shape(config.flow, config.n_timesteps))
    flow = FlowRunner(checkpoint.flow, pool, config.n_timesteps, checkpoint.noise.rand_noise)
    vocoder = VocoderRunner(checkpoint.vocoder, checkpoint.noise.sine_waves(round(seconds) * config.sample_rate))
    prefix = flow.register(voice.flow_speech_tokens, voice.mel, voice.embedding)
    stream, sound = flow.open(prefix), vocoder.open()
    drawn = torch.randint(0, config.flow.vocab_size, (tokens,), generator=torch.Generator().manual_seed(0))
    flow.feed(stream, drawn.tolist(), last=True)
    rows, spoken = [], 0.0
    while flow.ready(stream):
        began = time.thread_time()
        flow.begin(stream)
        while stream.chunk is not None:
            flow.step([stream])
        mel = flow.take_mel(stream)
        between = time.thread_time()
        vocoder.step([(sound, mel, flow.finished(stream))])
        spoken += mel.shape[0] / (config.flow.input_frame_rate * config.flow.token_mel_ratio)
        rows.append((spoken, between - began, time.thread_time() - between))
    flow.close(stream)
    return rows


def within(checkpoint: Checkpoint, repeat: int, late_s: float = LATE_S, early_s: float = EARLY_S) -> dict[str, Any]:
    """The second measurement: whole segments one after the other, the first of all not counted."""
    config = checkpoint.config.flow
    dit, frame_rate = config.dit, config.input_frame_rate * config.token_mel_ratio
    shape = FlowShape(
        dit.static_chunk_size, dit.heads, dit.heads * dit.dim_head, checkpoint.config.n_timesteps * dit.depth
    )
    runs = [solved(checkpoint, late_s + 1) for _ in range(repeat + 1)][1:]
    prompt = next(iter(checkpoint.voices.values())).mel.shape[0]
    # The first chunk holds the end of the prompt, the last is cut short.
    spoken = [row[0] for row in runs[0]][1:-1]
    flow = [median(run[place][1] for run in runs) for place in range(1, len(spoken) + 1)]
    vocoder = [median(run[place][2] for run in runs) for place in range(1, len(spoken) + 1)]
    contexts = [prompt + round(at * frame_rate) for at in spoken]
    early, late = (min(range(len(spoken)), key=lambda i: abs(spoken[i] - at)) for at in (early_s, late_s))
    reading = {place: reading_s(shape, contexts[place], 2 * repeat + 1) for place in (early, late)}
    chunk, per_frame = line(contexts, flow)

    def at(place: int) -> dict[str, float]:
        return {
            "flow_ms": round(1000 * flow[place], 2),
            "vocoder_ms": round(1000 * vocoder[place], 2),
            "kv_mib": round(shape.kv_bytes(contexts[place]) / 2**20, 1),
            "reading_ms": round(1000 * reading[place], 2),
        }

    growth = flow[late] - flow[early]
    return {
        "within_ratio": round((flow[late] + vocoder[late]) / (flow[early] + vocoder[early]), 3),
        "within": {"at_5_s": at(early), "at_30_s": at(late)},
        "explained": round((reading[late] - reading[early]) / growth, 2) if growth > 0 else None,
        "model_ms": {"chunk": round(1000 * chunk, 2), "per_context_s": round(1000 * frame_rate * per_frame, 3)},
        "model_gib_s": round(shape.kv_bytes(1) / per_frame / 2**30, 2) if per_frame > 0 else None,
    }


async def over(model: Path | None, minutes: int) -> dict[str, Any]:
    """The third measurement. Text stays a few sentences ahead of what was spoken, as an agent's would."""
    readings: list[int] = []
    spoken = 0

    def watch(event: Trace) -> None:
        nonlocal spoken
        spoken += isinstance(event, Said)

    async with Engine.load(EngineSettings(model=model), observe=watch) as engine:
        async with await engine.open(SessionRequest(mode=Mode.SENTENCE, seed=0)) as session:
            await session.append(LONGEST)
            await session.finish()
            async for _ in session:
                pass
        asked = spoken
        async with await engine.open(SessionRequest(mode=Mode.SENTENCE, seed=1)) as session:
            heard, events = 0, aiter(session)
            while len(readings) < minutes:
                while asked - spoken < AHEAD:
                    asked += 1
                    await session.append(SENTENCE)
                event = await anext(events)
                if isinstance(event, Audio):
                    heard += event.samples.size
                if heard >= 60 * engine.sample_rate * (len(readings) + 1):
                    readings.append(resident())
    return growing(readings)


def growing(readings: Sequence[int]) -> dict[str, Any]:
    """Figures of readings in bytes, one a minute; the first two minutes are the start. None where there are too few."""
    mib = [each / 2**20 for each in readings]
    steady = mib[1:]
    return {
        "rss_growth": round(steady[-1] / steady[0] - 1, 4) if len(steady) > 1 else None,
        "rss_mib_per_minute": round(line(range(len(steady)), steady)[1], 3) if len(steady) > 1 else None,
        "rss_mib": [round(each, 1) for each in mib],
        "speech_minutes": len(readings),
    }


def passed(result: Mapping[str, Any]) -> bool:
    """Whether what must not grow did not."""
    memory = result["rss_growth"]
    return result["segment_ratio"] <= MOST_SEGMENT_RATIO and (memory is None or memory <= MOST_RSS_GROWTH)


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    parser.add_argument("--repeat", type=int, default=7, help="of the two measurements of time (default %(default)s)")
    parser.add_argument("--segments", type=int, default=SEGMENTS, help="of a session (default %(default)s)")
    parser.add_argument("--minutes", type=int, default=20, help="of speech for the third (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options = parser.parse_args()
    if options.repeat < 1 or options.segments < 2 or options.minutes < 0:
        parser.error("--repeat counts from 1, --segments from 2, --minutes from 0")
    result: dict[str, Any] = {"benchmark": "growth", "model": model_name(options.model), "host": host()}
    try:
        with model_directory(options.model) as model:
            torch.set_num_threads(1)
            result |= asyncio.run(between(model, options.segments, options.repeat))
            result |= within(load(model), options.repeat)
            result |= asyncio.run(over(model, options.minutes)) if options.minutes else growing(())
    except (OSError, OscineError, ValueError) as error:
        raise SystemExit(f"bench.growth: {error}") from error
    print(json.dumps(result) if options.json else "\n".join(f"{key:20} {value}" for key, value in result.items()))
    sys.exit(0 if passed(result) else 1)


if __name__ == "__main__":
    main()
