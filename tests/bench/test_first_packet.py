"""The latency benchmark's arithmetic, and the benchmark itself against a small model."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.client import Packet
from bench.figures import percentile
from bench.pacing import pieces
from bench.player import play
from bench.start import Start
from oscine_engine.checkpoint import synthetic
from oscine_engine.errors import UnknownVoice
from oscine_engine.events import Mode

RATE = 100


def packet(arrived: float, seconds: float, level: float = 1.0) -> Packet:
    return Packet(arrived, np.full(round(seconds * RATE), level, np.float32))


def test_percentiles_are_nearest_rank() -> None:
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert [percentile(values, p) for p in (50, 60, 61, 95, 100)] == [3, 3, 4, 5, 5]
    assert percentile([7.0], 1) == 7
    assert percentile([], 50) is None


def test_the_player_stands_still_while_nothing_is_there() -> None:
    early = play([packet(10.0, 1.0), packet(10.5, 1.0), packet(11.0, 0.5)], RATE)
    assert early == (10.0, ())
    late = play([packet(10.0, 1.0), packet(11.25, 1.0), packet(11.5, 1.0), packet(13.5, 1.0)], RATE)
    assert late.gaps == pytest.approx((0.25, 0.25))


def test_the_onset_is_when_the_first_loud_sample_plays() -> None:
    quiet = packet(10.0, 1.0, 0.001)
    speech = Packet(10.1, np.concatenate([np.full(20, 0.009, np.float32), np.full(80, 1.0, np.float32)]))
    assert play([quiet, speech], RATE).onset == pytest.approx(11.2)
    assert play([Packet(10.0, np.zeros(50, np.float32))], RATE).onset is None
    assert play([], RATE) == (None, ())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write(tmp_path_factory.mktemp("model"))


def test_the_needed_word_is_the_one_that_fills_the_first_block(model: Path) -> None:
    start = Start.of(model, None)
    assert start.voice == "synthetic"
    words = pieces("It is a very long way to go from here, and we are late. Hurry up.", "en")
    arriving = start.needs(words, Mode.AUTO)
    assert arriving == start.needs(words, Mode.INTERLEAVED)
    # What is settled by that word fills the block, what was before does not.
    stream = start.front_end.stream()
    settled = [len(stream.push(word)) for word in words]
    assert sum(settled[:arriving]) < start.ids <= sum(settled[: arriving + 1])
    # A full stop ends a sentence when what follows is there; without anything behind it the end of the input does.
    assert start.needs(words, Mode.SENTENCE) == words.index(" Hurry")
    assert start.needs(words[:5], Mode.SENTENCE) == 4
    assert start.needs(["Yes."], Mode.AUTO) == 0
    with pytest.raises(UnknownVoice, match="synthetic"):
        Start.of(model, "nobody")


@pytest.mark.slow
def test_it_measures_a_server(model: Path) -> None:
    command = [sys.executable, "-m", "bench", "first_packet", "--model", str(model), "--repeat", "2", "--streams", "2"]
    done = subprocess.run(
        [*command, "--json", "--text", "Good morning, dear friend."], capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [row["streams"] for row in result["rows"]] == [1, 2]
    for row in result["rows"]:
        assert (row["calls"], row["failed"]) == (2 * row["streams"], 0)
        assert 0 < row["first_packet_ms"]["p50"] <= row["onset_ms"]["p50"]
        assert row["audio_s"] > 0 and 0 < row["rtf"]["p50"] <= row["rtf"]["p95"]
    assert result["host"]["cores"] >= 1
