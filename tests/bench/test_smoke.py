"""Every measuring command of the engine, on a small model and for a short time: it runs, and what must hold holds.

Nothing here looks at times: the machine may be busy.
"""

import json
import subprocess
import sys
from typing import Any

import pytest

from bench.__main__ import main

pytestmark = pytest.mark.filterwarnings("ignore:'bench.* found in sys.modules:RuntimeWarning")
NAMES = ("growth", "soak", "load", "feed")


def run(*arguments: str, timeout: float = 300) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench", *arguments, "--model", "tiny", "--json"]
    done = subprocess.run(command, capture_output=True, timeout=timeout, text=True)
    # 1 says that a figure is beyond its limit, which figures of time may be here.
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert (result["benchmark"], result["model"]) == (arguments[0], "tiny")
    return result


def told(*arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    """The exit status of `python -m bench`, run in this process, and what it printed."""
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    status: object = 0
    try:
        main()
    except SystemExit as ended:
        status = ended.code
    return status, capsys.readouterr().out


@pytest.mark.parametrize("name", [*NAMES, "chaos", "hop", "parity", "resynthesis"])
def test_help_names_the_keys_and_the_list_names_the_command(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, shown = told(name, "--help", monkeypatch=monkeypatch, capsys=capsys)
    assert status == 0 and "Keys of the printed object" in shown
    status, listed = told(monkeypatch=monkeypatch, capsys=capsys)
    assert status == 0 and f"\n  {name} " in listed


@pytest.mark.parametrize(
    "arguments",
    [
        ("growth", "--segments", "1"),
        ("soak", "--clients", "0"),
        ("load", "--seconds", "0"),
        ("feed", "--stall-s", "0"),
        ("feed", "--model", "/nowhere"),
    ],
)
def test_impossible_arguments_are_refused(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, shown = told(*arguments, monkeypatch=monkeypatch, capsys=capsys)
    assert status not in (0, None) and not shown


@pytest.mark.slow
def test_growth_compares_segments_and_places() -> None:
    result = run("growth", "--segments", "2", "--repeat", "1", "--minutes", "1")
    assert result["chunks"] >= 1 and result["segment_ratio"] > 0
    early, late = result["within"]["at_5_s"], result["within"]["at_30_s"]
    assert late["kv_mib"] > 2 * early["kv_mib"] > 0
    assert len(result["rss_mib"]) == result["speech_minutes"] == 1


@pytest.mark.slow
def test_a_soak_leaves_nothing_behind() -> None:
    result = run("soak", "--sessions", "10", "--clients", "2")
    assert result["unexpected"] == []
    assert set(result["leftovers"].values()) == {0}
    assert sum(result["ended"].values()) == 10 and result["ended"]["internal"] == 1
    survivors = result["survivors"]
    assert survivors["ok"] and survivors["count"] == 6


def test_a_full_engine_refuses_with_a_hint() -> None:
    result = run("load", "--seconds", "1.5", "--cancels", "2", "--max-streams", "2")
    assert 1 <= result["streams"] <= 2 and result["failed"] == []
    assert result["refusals"]["count"] >= 1 and result["refusals"]["hint_s"]["p50"] > 0
    assert result["cancels"]["count"] == 2


@pytest.mark.slow
def test_an_agents_pace_changes_nothing_that_is_said() -> None:
    result = run("feed", "--sessions", "2", "--per-s", "100", "--stall-s", "0.4")
    for row in result["rows"]:
        assert (row["failed"], row["unspoken"], row["other_segments"], row["other_ids"]) == (0, 0, 0, 0)
