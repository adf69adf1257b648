"""One row: clients are started, and what they saw, the processes used and the engine counted becomes figures."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bench.client import RATE
from bench.figures import ranks
from bench.player import Player
from bench.served import ServerFailed
from bench.serving import records
from bench.serving.driver import Call, Work
from bench.serving.plan import Load, Server
from bench.serving.service import Running, environment
from bench.serving.utterances import spoken, utterance
from bench.start import Start
from oscine_engine.events import Mode

TEXTS = 1088
"""As many as Seed-TTS English has."""
LONG_WORDS = 24
"""Of each sentence of a long text: 8 s."""
CLIENTS_A_DRIVER = 32
CLIENTS_A_CHANNEL = 4
INTERVAL_S = 0.5
"""At least as long as the engine process lets pass between two times of writing down."""
LEAD_S = 0.5
"""Between the last word of preparation and the first call."""


def measure(
    running: Running, stats: Sequence[Path], server: Server, load: Load, seconds: tuple[float, float]
) -> dict[str, Any]:
    """Figures of `load`, warmed up for the first of `seconds` and measured for the second; see `bench.serve`.

    stats: of each engine.
    """
    warm, counted = seconds
    texts = [_text(number, load.sentences) for number in range(TEXTS)]
    pieces = [[text] for text in texts] if load.per_s is None else [_words(text) for text in texts]
    address, stats = (running.address, stats) if load.engines is None else (running.first, stats[:1])
    drivers = [_driver(work) for work in _works(address, server, load, pieces, warm + counted)]
    for driver in drivers:
        if driver.stdout is None or driver.stdout.readline() != "ready\n":
            raise ServerFailed("a driver could not reach the service")
    began = time.monotonic() + LEAD_S
    for driver in drivers:
        assert driver.stdin is not None
        driver.stdin.write(f"{began}\n")
        driver.stdin.flush()
    pids = {"service": [running.service], "engine": running.engines, "drivers": [each.pid for each in drivers]}
    start, end = began + warm, began + warm + counted
    used = []
    for moment in (start, end):
        time.sleep(max(0.0, moment - time.monotonic()))
        used.append({name: sum(map(_cpu_s, each)) for name, each in pids.items()})
    calls = [Call(**each) for driver in drivers for each in json.loads(driver.communicate()[0])]
    needed = None if load.per_s is None else _needs(server, pieces)
    time.sleep(2 * INTERVAL_S)
    noted = [records.read(one) for one in stats]
    ticks, states = np.concatenate(noted), [records.state(one, end) for one in stats]
    found = {
        "seconds": counted,
        **figures(calls, start, end, needed),
        "cpu": {name: round((used[1][name] - used[0][name]) / counted, 2) for name in pids},
        "stages": records.stages(ticks, start, end, len(stats)),
        "ids_a_row": records.ids_a_row(stats, noted, start, end),
        "context_mb": states[0]["context_mb"],
        "gpu_mib": _memory([state["gpu"] for state in states if "gpu" in state]),
    }
    if len(stats) > 1:
        found["shares"] = records.shares(stats, start, end)
    if load.clients == 1 and needed is None:
        alone = [(call.sent[0], call.packets[0][0]) for call in calls if call.packets and start <= call.sent[0] < end]
        found["where_ms"] = records.where_time_goes(ticks, alone)
    if load.sentences > 1:
        found["segment_ratio"] = records.growth(ticks, start, end, load.sentences - 1)
    return found


def _memory(of_engines: Sequence[dict[str, int]]) -> dict[str, int] | None:
    """MiB of each kind, of the engine that has most of it."""
    if not of_engines:
        return None
    return {name: round(max(each[name] for each in of_engines) / 2**20) for name in of_engines[0]}


def _text(number: int, sentences: int) -> str:
    """An utterance, or one of LONG_WORDS words so many times over."""
    if sentences == 1:
        return utterance(number)
    return " ".join([spoken(number, LONG_WORDS)] * sentences)


def _works(address: str, server: Server, load: Load, pieces: list[list[str]], seconds: float) -> list[Work]:
    """The clients, shared out among as many processes as it takes for none of them to be the bottleneck."""
    arrivals: list[float] = []
    if load.rate is not None:
        draw, moment = random.Random(0), 0.0
        while (moment := moment + draw.expovariate(load.rate)) < seconds:
            arrivals.append(moment)
    most = load.clients or max(1, round(load.rate or 0))
    count = -(-most // CLIENTS_A_DRIVER)
    clients = load.clients or 0
    return [
        Work(
            address=address,
            seconds=seconds,
            clients=clients // count + (number < clients % count),
            arrivals=arrivals[number::count],
            texts=pieces,
            first=number,
            step=count,
            voices=server.voice_names,
            encoding=load.encoding,
            per_s=load.per_s,
            channels=max(1, -(-most // count // CLIENTS_A_CHANNEL)),
        )
        for number in range(count)
    ]


def _driver(work: Work) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.serving.driver"]
    driver = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
    assert driver.stdin is not None
    driver.stdin.write(json.dumps(asdict(work)) + "\n")
    driver.stdin.flush()
    return driver


def _words(text: str) -> list[str]:
    """One text id each; the full stop is the last."""
    words = text.removesuffix(".").split(" ")
    return [words[0], *(f" {word}" for word in words[1:]), "."]


def _needs(server: Server, pieces: Sequence[Sequence[str]]) -> list[int]:
    """For each text which piece is the last one that the first sound needs."""
    from bench.serving.engine import config_of
    from oscine_engine.text.front_end import FrontEnd
    from oscine_engine.text.words import word_tokenizer

    config = config_of(server)
    text_block, speech_block = config.text.mix_ratio
    ids = text_block * -(-(server.head_start + config.flow.pre_lookahead_len + server.extra_ids) // speech_block)
    start = Start(FrontEnd(config.text.front_end, word_tokenizer()), server.voice_names[0], ids)
    return [start.needs(each, Mode.INTERLEAVED) for each in pieces]


def figures(calls: Sequence[Call], start: float, end: float, needed: Sequence[int] | None = None) -> dict[str, Any]:
    """What the clients saw of the calls whose text went out from `start` to `end`."""
    window = [call for call in calls if start <= (call.sent[0] if call.sent else call.asked) < end]
    refused = [call for call in window if call.error.startswith("RESOURCE_EXHAUSTED")]
    failed = [call for call in window if call.error and call not in refused]
    good = [call for call in window if not call.error and call.packets]
    silent = sum(not call.error and not call.packets for call in window)
    heard = [_played(call) for call in good]
    first = [(call, call.sent[0 if needed is None else needed[call.number % len(needed)]]) for call in good]
    arrived = sum(samples for call in calls for moment, samples in call.packets if start <= moment < end)
    seconds = end - start
    found: dict[str, Any] = {
        "calls": len(window),
        "refused": len(refused),
        "failed": len(failed) + silent,
        "errors": sorted({call.error for call in failed}),
        "rps": round(sum(call.ended is not None and start <= call.ended < end for call in calls) / seconds, 2),
        "rtfx": round(arrived / RATE / seconds, 2),
        "ttfp_ms": ranks([call.packets[0][0] - sent for call, sent in first], 50, 95, 99, 100, scale=1000),
        "request_ms": ranks([call.packets[0][0] - call.asked for call in good], 50, 95, 99, 100, scale=1000),
        "end_to_end_ms": ranks([call.packets[-1][0] - call.sent[0] for call in good], 50, 95, scale=1000),
        "first_chunk_ms": ranks([_first_chunk(call) for call in good], 50, scale=1000 / RATE),
        "audio_s": ranks([sum(samples for _, samples in call.packets) for call in good], 50, 95, scale=1 / RATE),
        "underruns": {
            "calls": sum(bool(gaps) for gaps in heard),
            "count": sum(map(len, heard)),
            "ms": round(1000 * sum(map(sum, heard)), 1),
            "longest_ms": round(1000 * max((max(gaps) for gaps in heard if gaps), default=0.0), 1),
        },
    }
    if needed is not None:
        found["from_first_text_ms"] = ranks([call.packets[0][0] - call.sent[0] for call in good], 50, 95, scale=1000)
    return found


def _played(call: Call) -> list[float]:
    """How long a player that collects nothing beforehand stands still, each time."""
    player = Player(RATE)
    for moment, samples in call.packets:
        player.take(moment, samples)
    return [gap.seconds for gap in player.gaps]


TOGETHER_S = 0.01


def _first_chunk(call: Call) -> int:
    """Samples that came with the first ones, within TOGETHER_S from packet to packet."""
    total, last = 0, call.packets[0][0]
    for moment, samples in call.packets:
        if moment - last > TOGETHER_S:
            break
        total, last = total + samples, moment
    return total


def _cpu_s(pid: int) -> float:
    """CPU time of a process and its threads up to now; 0 for one that has ended."""
    try:
        values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")
