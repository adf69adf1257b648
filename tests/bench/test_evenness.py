"""The arithmetic of the long text's figures, and one short text through the real engine."""

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest

from bench.evenness import Sentence, figures, long_text


def sentences(levels: Sequence[float], costs: Sequence[float] | None = None) -> list[Sentence]:
    return [
        Sentence(text=(place % 3,), level_db=level, seconds=2.0, cpu_s=2 * (costs or [0.5] * 99)[place], rss=1000)
        for place, level in enumerate(levels)
    ]


def test_even_speech_is_even() -> None:
    found = figures(sentences([-18.0, -19.0, -17.0] * 7))
    assert found["ok"]
    assert (found["band_db"], found["spread_db"], found["cost_ratio"], found["rss_growth"]) == (2.0, 0.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("levels", "costs", "rss"),
    [
        ([-18.0] * 18 + [-20.0] * 2, None, 1000),
        ([-18.0] * 10 + [-29.0] + [-18.0] * 9, None, 1000),
        ([-18.0] * 20, [0.5] * 18 + [0.6] * 2, 1000),
        ([-18.0] * 20, None, 1030),
    ],
)
def test_drift_outliers_cost_and_memory_are_each_found(
    levels: list[float], costs: list[float] | None, rss: int
) -> None:
    spoken = sentences(levels, costs)
    spoken[-1].rss = rss
    assert not figures(spoken)["ok"]


def test_the_text_is_as_long_as_asked_for_and_ends_with_a_whole_sentence() -> None:
    text = long_text(["One.", "And two."], 30)
    assert text == "One. And two. One. And two. One. "
    with pytest.raises(ValueError, match="no sentences"):
        long_text([], 30)


@pytest.mark.slow
def test_the_command_prints_one_object() -> None:
    command = [sys.executable, "-m", "bench.evenness", "--model", "tiny", "--characters", "60", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    found = json.loads(done.stdout)
    assert found["sentences"] == len(found["levels_db"]) >= 2
    assert found["characters"] >= 60
    assert done.returncode == (0 if found["ok"] else 1)
