"""The benchmark of the service: its arithmetic, its plan, and itself against a small model. Times are not looked at."""

import json
import statistics
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from bench.serve import chosen
from bench.serving import plan, published, records, report
from bench.serving.driver import Call
from bench.serving.measure import figures
from bench.serving.plan import Server
from bench.serving.records import CHUNK
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


def test_the_engines_records_tell_where_the_time_goes(tmp_path: Path) -> None:
    stats = tmp_path / "stats.jsonl"
    lines = [{"at": 1.0, "ids": 0, "context_mb": 90}, {"at": 2.0, "ids": 3, "context_mb": 95}]
    stats.write_text("\n".join(map(json.dumps, lines)) + '\n{"at": 3')
    assert records.state(stats, 1.6)["context_mb"] == 95
    ticks = [
        (0, 0.5, 0.1, 1, 0.1, 0),  # before
        (0, 1.01, 0.01, 1, 0.005, 0),
        (1, 1.03, 0.02, 2, 0.01, 0),
        (1, 1.05, 0.02, 2, 0.01, 0),
        (CHUNK, 1.05, 0.04, 0, 0, 42),
        (2, 1.07, 0.01, 1, 0.0, 0),
        (1, 1.09, 0.5, 1, 0.0, 0),  # of the next chunk
    ]
    records.ticks_of(stats).write_bytes(np.array(ticks, float).tobytes() + b"half a rec")
    found = records.read(stats)
    busy = records.stages(found, 1.0, 1.5)
    assert busy["lm"] == {"busy": 0.02, "cpu": 0.01, "ticks": 1, "rows": 1.0, "ms": {"p50": 10.0, "p95": 10.0}}
    assert (busy["flow"]["ticks"], busy["flow"]["rows"], busy["flow"]["busy"]) == (3, 1.67, 1.08)
    assert records.where_time_goes(found, [(1.0, 1.1), (2.0, 2.1)]) == {
        "lm": 10.0,
        "flow": 40.0,
        "vocoder": 10.0,
        "to_first_tick": 10.0,
        "between": 10.0,
        "to_client": 20.0,
        "lm_ticks": 1.0,
        "flow_ticks": 2.0,
    }
    assert records.where_time_goes(found, []) is None
    assert records.ids_a_row([stats], [found], 1.0, 2.0) == 3.0


def test_growth_compares_whole_chunks_in_the_same_place() -> None:
    def chunk(segment: int, place: int, seconds: float, frames: int = 50) -> tuple[float, ...]:
        return (CHUNK, 1.0, seconds, segment, place, frames)

    made = [
        chunk(0, 0, 9.0, 42),
        chunk(0, 1, 1.0),
        chunk(0, 2, 2.0),
        chunk(9, 1, 1.1),
        chunk(9, 2, 2.2),
        chunk(9, 3, 7),
    ]
    assert records.growth(np.array(made, float), 0.0, 2.0, 9) == 1.1
    assert records.growth(np.array(made[:3], float), 0.0, 2.0, 9) is None
    assert records.growth(np.zeros((0, records.FIELDS)), 0.0, 2.0, 9) is None


def test_utterances_are_as_long_as_the_published_ones() -> None:
    front_end = FrontEnd("plain", word_tokenizer())
    seconds = [len(front_end.whole(utterance(number))) * IDS_PER_WORD / 25 for number in range(1088)]
    assert statistics.mean(seconds) == pytest.approx(4.4, abs=0.1)
    assert min(seconds) >= 1.5 and max(seconds) <= 9.7
    assert utterance(7) == utterance(7) != utterance(8)


def test_rows_have_names_of_their_own() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert [row.name for row in chosen(ROWS, plan.QUICK)] == list(plan.QUICK)
    assert [row.name for row in chosen(ROWS, ["k10 c[12]"])] == ["k10 c1", "k10 c2"]
    with pytest.raises(ValueError, match="k12"):
        chosen(ROWS, ["k12*"])
    for row in ROWS:
        assert Server.read(row.server.write()) == row.server


def test_several_engines_are_compared_with_one_of_them() -> None:
    base = Server(device="cuda", engines=2)
    rows = list(plan.rows_of_several(base, 32, 30.0))
    assert [row.name for row in rows] == ["1 engine c32", "2 engines c64", "1 engine open 30", "2 engines open 60"]
    assert [row.over for row in rows] == [None, "1 engine c32", None, None]
    assert len({row.server for row in rows}) == 1, "more than one start"
    assert [base.alone(number).device for number in range(2)] == ["cuda:0", "cuda:1"]
    assert Server(device="cuda").alone(0).device == "cuda" and replace(base, device="cpu").alone(1).device == "cpu"
    assert any(bar.row == rows[1].name for bar in published.BARS)


@pytest.mark.slow
def test_it_measures_two_engines(tmp_path: Path) -> None:
    out = tmp_path / "serve.jsonl"
    command = [sys.executable, "-m", "bench.serve", "--model", "tiny", "--max-streams", "4", "--out", str(out)]
    options = ["--engines", "2", "--clients", "1", "--rate", "1", "--tokens", "1", "--warm-up", "1", "--seconds", "4"]
    done = subprocess.run([*command, *options], capture_output=True, timeout=300, text=True)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert all((line["refused"], line["failed"]) == (0, 0) and line["calls"] > 0 for line in lines)
    first, both, *_ = lines
    assert both["over"]["row"] == first["row"] and both["over"]["rtfx"] > 0
    assert min(both["shares"]) > 0.2 and "shares" not in first


def test_help_names_the_keys() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "bench", "serve", "--help"], capture_output=True, text=True, check=True
    )
    assert "Keys of a line" in told.stdout


@pytest.mark.slow
def test_it_measures_a_service(tmp_path: Path) -> None:
    out = tmp_path / "results" / "serve.jsonl"
    command = [sys.executable, "-m", "bench.serve", "--model", "tiny", "--out", str(out)]
    options = [
        "--tokens",
        "1",
        "--rows",
        "k21 c1,k10 c1,k10 open 2,k10 fed c1,k10 long c1",
        "--warm-up",
        "0",
        "--seconds",
        "3",
        "--json",
    ]
    done = subprocess.run([*command, *options], capture_output=True, timeout=300, text=True)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [json.loads(line) for line in done.stdout.splitlines()] == lines
    assert {line["row"] for line in lines} == {"k21 c1", "k10 c1", "k10 open 2", "k10 fed c1", "k10 long c1"}
    for line in lines:
        assert line["calls"] > 0 and (line["refused"], line["failed"], line["errors"]) == (0, 0, [])
        assert 0 < line["ttfp_ms"]["p50"] <= line["request_ms"]["p50"]
        assert line["rtfx"] > 0 and all(stage["ticks"] > 0 for stage in line["stages"].values())
        # 2 k - 4 frames of 20 ms, less half a window of the last transform.
        frames = 2 * line["server"]["head_start"] - 4
        assert line["first_chunk_ms"]["p50"] == pytest.approx(20 * frames - 1 / 3, abs=0.1)
    by_row = {line["row"]: line for line in lines}
    assert by_row["k10 fed c1"]["from_first_text_ms"]["p50"] > by_row["k10 fed c1"]["ttfp_ms"]["p50"]
    where = by_row["k10 c1"]["where_ms"]
    # 13 ids, the first of them with the prompt; ten Euler steps of one chunk.
    assert (where["lm_ticks"], where["flow_ticks"]) == (13, 10)
    assert all(where[name] > 0 for name in ("to_first_tick", "lm", "flow", "vocoder", "between", "to_client"))
    assert "segment_ratio" in by_row["k10 long c1"]


@pytest.mark.slow
def test_a_draft_is_served_with_guesses_or_without(tmp_path: Path) -> None:
    out = tmp_path / "serve.jsonl"
    command = [sys.executable, "-m", "bench.serve", "--model", "tiny", "--max-streams", "2", "--out", str(out)]
    options = ["--rows", "k21 c1", "--tokens", "2.98", "--warm-up", "0", "--seconds", "10"]
    done = subprocess.run([*command, *options], capture_output=True, timeout=300, text=True)
    assert done.returncode == 0, done.stderr
    line = json.loads(out.read_text())
    assert line["failed"] == 0 and line["server"]["tokens"] == 2.98
    # 24 ids in as many ticks, or fewer where guesses pay, which on a CPU they may not.
    assert 1 < line["where_ms"]["lm_ticks"] <= 25


def test_the_report_puts_the_newest_line_of_each_row_beside_the_published_ones(tmp_path: Path) -> None:
    def line(row: str, p95: float, device: str = "cuda") -> str:
        found = figures([call(0.0, (0.03, 18232), (0.4, 24000)), call(1.0, (1.0 + p95 / 1000, 24000))], 0.0, 2.0)
        about = {"row": row, "run": "2026-11-30", "host": HOST, "server": asdict(Server(device=device)), "warm_up": 15}
        stages = {name: {"busy": 0.25} for name in ("lm", "flow", "vocoder")}
        used = {
            "cpu": {"service": 0.1, "engine": 1.0, "drivers": 0.2},
            "stages": stages,
            "gpu_mib": {"peak": 2048},
            "context_mb": 90.1,
        }
        return json.dumps({**about, "seconds": 60, **found, **used})

    pytest.importorskip("matplotlib", reason="the plot needs what `make bench` installs")
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


def test_what_two_gpus_carry_is_no_figure_of_one() -> None:
    def line(row: str, rtfx: float, engines: int) -> dict[str, object]:
        return {"row": row, "rtfx": rtfx, "server": {"engines": engines}}

    bar = next(bar for bar in published.BARS if bar.row == published.ANY and bar.path == ("rtfx",))
    assert bar.value([line("k21 c64", 280.0, 1), line("2 engines c64", 485.0, 2)]) == 280.0


def test_two_rows_are_compared_within_a_run() -> None:
    def line(run: str, row: str, p50: float) -> dict[str, object]:
        return {"run": run, "row": row, "ttfp_ms": {"p50": p50}, "server": {}}

    bar = next(bar for bar in published.BARS if bar.beyond == "k21 c1")
    told = [line("one", "k21 c1", 31.0), line("one", "k21 opus c1", 35.5), line("two", "k21 opus c1", 30.0)]
    assert bar.value(told) == 4.5
    assert bar.value([*told, line("two", "k21 c1", 29.0)]) == 1.0
    assert bar.value(told[1:]) is None
