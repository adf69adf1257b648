"""The benchmark of the service: its arithmetic, its plan, and itself against a small model. Times are not looked at."""

import json
import statistics
import subprocess
import sys
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import pytest

from bench.serve import chosen
from bench.serving import plan, report
from bench.serving.driver import Call
from bench.serving.measure import counted_between, figures
from bench.serving.plan import Server
from bench.serving.utterances import utterance
from oscine_engine.text.front_end import FrontEnd
from oscine_engine.text.words import IDS_PER_WORD, word_tokenizer

HOST = {"cpu": "x", "cores": 16, "torch": "2.11.0", "commit": "abc1234", "gpu": "a card"}
ROWS = list(plan.rows(Server()))


def call(sent: float, *packets: tuple[float, int], error: str = "", number: int = 0) -> Call:
    return Call(number, sent - 0.01, [sent], list(packets), packets[-1][0] if packets else sent, error)


def test_a_call_counts_where_its_text_was_sent_and_audio_where_it_arrived() -> None:
    calls = [
        call(9.9, (10.1, 24000), (10.2, 24000)),
        call(10.0, (10.1, 12000), (10.6, 12000)),
        call(11.9, (12.1, 48000)),
        call(11.0, error="RESOURCE_EXHAUSTED: full; try again"),
        call(11.0, error="INTERNAL: a fault"),
    ]
    found = figures(calls, 10.0, 12.0)
    assert (found["calls"], found["refused"], found["failed"]) == (4, 1, 1)
    assert found["errors"] == ["INTERNAL: a fault"]
    assert found["rtfx"] == 1.5  # three seconds of audio in two
    assert found["rps"] == 2.0  # with the two that ended with an error
    assert found["ttfp_ms"] == {"p50": 100.0, "p95": 200.0, "p99": 200.0, "max": 200.0}
    assert found["request_ms"]["p50"] == 110.0
    # Half a second was there at 10.1, the next at 10.6 and so none too late.
    assert found["underruns"] == {"calls": 0, "count": 0, "ms": 0, "longest_ms": 0.0}


def test_a_player_that_collects_nothing_finds_every_gap() -> None:
    found = figures([call(0.0, (1.0, 24000), (2.25, 24000), (3.5, 2400))], 0.0, 1.0)
    assert found["underruns"] == {"calls": 1, "count": 2, "ms": 500.0, "longest_ms": 250.0}


def test_text_that_is_fed_counts_from_the_word_that_was_needed() -> None:
    fed = Call(3, 0.0, [1.0, 1.02, 1.04, 1.06], [(1.1, 240)], 2.0)
    found = figures([fed], 0.0, 2.0, needed=[0, 2])
    assert found["ttfp_ms"]["p50"] == 60.0
    assert found["from_first_text_ms"]["p50"] == 100.0


def test_the_engines_counts_are_those_between_the_nearest_lines(tmp_path: Path) -> None:
    def line(at: float, ticks: int) -> str:
        stage = {"ticks": ticks, "rows": 2 * ticks, "wall_s": ticks / 100}
        return json.dumps({"at": at, "stages": {"lm": stage}, "ids": 0, "gpu": {"used": 3 << 20}})

    stats = tmp_path / "stats"
    stats.write_text("\n".join([line(0.0, 0), line(1.1, 100), line(3.0, 150), line(5.0, 900)]) + '\n{"at": 6')
    found = counted_between(stats, 1.0, 3.2)
    assert found["stages"]["lm"] == {"busy": 0.263, "ticks": 50, "rows": 2.0, "ms": 10.0}
    assert found["gpu_mib"] == {"used": 3}


def test_utterances_are_as_long_as_the_published_ones() -> None:
    front_end = FrontEnd("plain", word_tokenizer())
    seconds = [len(front_end.whole(utterance(number))) * IDS_PER_WORD / 25 for number in range(1088)]
    assert statistics.mean(seconds) == pytest.approx(4.4, abs=0.1)
    assert min(seconds) >= 1.5 and max(seconds) <= 9.7
    assert utterance(7) == utterance(7) != utterance(8)


def test_rows_have_names_of_their_own_and_servers_are_started_once() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    starts = [server for server, _ in groupby(ROWS, key=lambda row: row.server)]
    assert len(set(starts)) == len(starts)
    assert [row.name for row in chosen(ROWS, plan.QUICK)] == list(plan.QUICK)
    assert [row.name for row in chosen(ROWS, ["k10 c[12]"])] == ["k10 c1", "k10 c2"]
    with pytest.raises(ValueError, match="k12"):
        chosen(ROWS, ["k12*"])
    for row in ROWS:
        assert Server.read(row.server.write()) == row.server


def test_help_names_the_keys() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "bench", "serve", "--help"], capture_output=True, text=True, check=True
    )
    assert "Keys of a line" in told.stdout


def test_it_measures_a_service(tmp_path: Path) -> None:
    out = tmp_path / "results" / "serve.jsonl"
    command = [sys.executable, "-m", "bench.serve", "--model", "tiny", "--without-draft", "--out", str(out)]
    options = ["--rows", "k10 c2,k10 open 2,k10 fed c1", "--warm-up", "0.2", "--seconds", "2.5", "--json"]
    done = subprocess.run([*command, *options], capture_output=True, timeout=300, text=True)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [json.loads(line) for line in done.stdout.splitlines()] == lines
    assert {line["row"] for line in lines} == {"k10 c2", "k10 open 2", "k10 fed c1"}
    for line in lines:
        assert line["calls"] > 0 and (line["refused"], line["failed"], line["errors"]) == (0, 0, [])
        assert 0 < line["ttfp_ms"]["p50"] <= line["request_ms"]["p50"]
        assert line["rtfx"] > 0 and all(stage["ticks"] > 0 for stage in line["stages"].values())
        # 16 frames of 20 ms, less half a window of the last transform.
        assert line["first_chunk_ms"]["p50"] == pytest.approx(319.7, abs=0.1)
    fed = next(line for line in lines if line["row"] == "k10 fed c1")
    assert fed["from_first_text_ms"]["p50"] > fed["ttfp_ms"]["p50"]


def test_the_report_puts_the_newest_line_of_each_row_beside_the_published_ones(tmp_path: Path) -> None:
    def line(row: str, p95: float, device: str = "cuda") -> str:
        found = figures([call(0.0, (0.03, 18232), (0.4, 24000)), call(1.0, (1.0 + p95 / 1000, 24000))], 0.0, 2.0)
        about = {"row": row, "run": "2026-11-30", "host": HOST, "server": asdict(Server(device=device)), "warm_up": 15}
        stages = {name: {"busy": 0.25} for name in ("lm", "flow", "vocoder")}
        used = {"cpu": {"service": 0.1, "engine": 1.0, "drivers": 0.2}, "stages": stages, "gpu_mib": {"peak": 2048}}
        return json.dumps({**about, "seconds": 60, **found, **used})

    docs = tmp_path / "docs"
    docs.mkdir()
    page = docs / "benchmarks.md"
    page.write_text(f"above\n{report.BEGIN}\nold\n{report.END}\nbelow\n")
    results = tmp_path / "serve.jsonl"
    results.write_text("\n".join([line("k21 c1", 99.0), line("k21 c1", 44.0), line("k21 c1", 1.0, "cpu")]) + "\n")
    results.write_text(results.read_text() + line("k21 c8", 120.0) + "\n" + line("26 ids c1", 47.5) + "\n")
    report.write(results, lambda each: each["server"]["device"] == "cuda", docs)
    told = page.read_text()
    assert told.startswith(f"above\n{report.BEGIN}\n") and told.endswith(f"{report.END}\nbelow\n") and "old" not in told
    assert "| C1, k = 21, p95, ms | 82.0 | at most 48 | 44 | met |" in told
    assert "| C8, k = 21, p95, ms | 392 | at most 100 | 120 | missed |" in told
    assert "| C1, k = 10, p50, ms | - | at most 30 | - | not measured |" in told
    assert (
        "| 8 | 30 / 120 / 120 |" in told and "340.9 / 400, 45.5x" in told and "| 26 ids c1 | 30 / 47.5 / 47.5 |" in told
    )
    assert (docs / report.PLOT).read_text().startswith("<?xml")
    with pytest.raises(ValueError, match="no line"):
        report.write(results, lambda each: False, docs)
