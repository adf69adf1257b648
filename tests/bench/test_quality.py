"""What the quality benchmarks make of what they hear."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from bench import cloning, joins, quality, registration, store
from bench.__main__ import BENCHMARKS
from bench.cloning import Recorded, Spoken, judged
from bench.quality import jobs_of, names, rows_of, table
from bench.speakers import Speakers, likeness
from oscine_engine.errors import InvalidInput

RATE = 24000


def humming(seconds: float, pitch: float = 120.0, seed: int = 0) -> np.ndarray:
    """Harmonics whose loudness wanders, as those of a voice do."""
    drawn = np.random.default_rng(seed)
    time = np.arange(round(seconds * RATE)) / RATE
    steps = np.linspace(0, seconds, round(20 * seconds))
    waves = (
        np.interp(time, steps, drawn.uniform(0.2, 1.0, len(steps))) * np.sin(2 * np.pi * pitch * n * time) / n
        for n in range(1, 30)
    )
    return np.asarray(0.1 * sum(waves), np.float32)


def anywhere(seed: int = 0) -> list[int]:
    """Ten places about 0.75 s apart, at no particular phase of a tone."""
    drawn = np.random.default_rng(seed)
    return [12000 + 18000 * number + int(drawn.integers(0, 6000)) for number in range(10)]


def test_joins_that_are_none_cannot_be_told_from_other_places() -> None:
    found = joins.together(joins.measure(humming(8, seed=seed), anywhere(seed)) for seed in range(4))
    assert len(found.packet_jump) == len(found.chunk_jump) == 40
    for values, others in ((found.packet_jump, found.other_jump), (found.chunk_click, found.other_click)):
        rank = joins.rank(values, others)
        assert rank is not None and 0.3 < rank < 0.7


def test_a_jump_and_a_click_are_found_where_they_are() -> None:
    places = anywhere()
    smooth = humming(8)
    jumping = smooth.copy()
    for number, at in enumerate(places):
        if number % 2 == 0:
            end = places[number + 1]
            jumping[at:end] = humming(8, pitch=250)[at:end]
    found = joins.measure(jumping, places)
    rank, elsewhere = joins.rank(found.packet_jump, found.other_jump), joins.rank(found.chunk_jump, found.other_jump)
    assert rank is not None and rank > 0.95
    assert elsewhere is not None and elsewhere < 0.8

    clicking = smooth.copy()
    clicking[np.asarray(places) + joins.HELD] += 0.2
    found = joins.measure(clicking, places)
    click, packet = joins.rank(found.chunk_click, found.other_click), joins.rank(found.packet_click, found.other_click)
    assert click is not None and click > 0.95
    assert packet is not None and packet < 0.8


def test_places_in_silence_and_at_the_edges_are_left_out() -> None:
    quiet = np.concatenate([humming(1), np.zeros(RATE, np.float32)])
    found = joins.measure(quiet, [100, 12000, 30000, 2 * RATE - 10])
    # The chunk that begins behind the first packet is far enough inside.
    assert (len(found.packet_jump), len(found.chunk_jump)) == (1, 2)
    assert joins.rank(np.zeros(0), found.other_jump) is None
    assert len(joins.measure(np.zeros(300, np.float32), []).other_jump) == 0


def test_ties_count_by_half() -> None:
    assert joins.rank(np.array([1.0]), np.array([0.0, 1.0, 1.0, 2.0])) == 0.5


def unit(*values: float) -> np.ndarray:
    found = np.array(values, np.float32)
    return found / np.linalg.norm(found)


def recorded(name: str, speaker: str) -> Recorded:
    return Recorded(name, speaker, "en", np.zeros(1, np.float32), RATE, "", "")


def test_a_trial_is_lost_to_the_nearest_other_voice() -> None:
    sounds = {"a": unit(1, 0, 0), "b": unit(0, 1, 0), "c": unit(0.1, 1, 0)}
    taken = [recorded("a", "ann"), recorded("b", "bob"), recorded("c", "bob")]
    voices = [
        Spoken("ann", "en", "ann", unit(1, 0.1, 0), None),
        Spoken("bob", "en", "bob", unit(0.9, 0.5, 0), None),
        Spoken("ann", "en", "a", unit(0.8, 0.5, 0), "a"),
        Spoken("bob", "en", "b", unit(0, 1, 0.1), "b"),
        Spoken("bob", "zh", "c", unit(0, 1, 0), "c"),
    ]
    found = judged(taken, sounds, voices)
    # Ann's reference is nearer to bob, as the model speaks him, than to its own clone.
    assert found["speakers"]["ann"]["own"] == 0 and found["speakers"]["ann"]["mistaken"] == {"bob": 1}
    assert found["speakers"]["bob"]["own"] == 1 and found["own"] == pytest.approx(2 / 3, abs=1e-3)
    assert not found["ok"] and found["own_language"] == found["own_model"] == found["own"]
    assert found["recorded"] == pytest.approx(float(sounds["b"] @ sounds["c"]), abs=1e-3)
    with pytest.raises(InvalidInput, match="one speaker"):
        judged(taken[1:], sounds, voices[3:])


def test_lists_become_rows_of_voices_and_modes(tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_text("One.\nTwo.\nThree.\n")
    (tmp_path / "seed.lst").write_text("a|你好。|a.wav|今天天气很好。\nb|你好。|b.wav|再见。\n", encoding="utf-8")
    paths = [tmp_path / "en.txt", tmp_path / "seed.lst"]
    rows = list(rows_of(paths, {"ann": "en", "bao": "zh", "bob": "en"}, ["whole", "auto"], 2))
    assert [row.name for row in rows] == [
        *("en ann whole", "en ann auto", "en bob whole", "en bob auto"),
        *("seed recordings whole", "seed recordings auto"),
    ]
    assert [len(row.lines) for row in rows] == [2] * 6 and rows[-1].language == "zh"
    foreign = list(rows_of(paths[:1], {"bao": "zh"}, ["whole"], None, foreign=True))
    assert [(row.voice, row.language) for row in foreign] == [("bao", "en")]
    assert [job.name for job in jobs_of(foreign, 0)] == [f"en bao whole 00000{n}" for n in (1, 2, 3)]
    with pytest.raises(InvalidInput, match="no voice"):
        list(rows_of(paths[:1], {"bao": "zh"}, ["whole"], None))
    (tmp_path / "mixed").write_text('{"text": "a", "recording": "a.wav"}\n{"text": "b"}\n')
    with pytest.raises(InvalidInput, match="two lists"):
        list(rows_of([tmp_path / "mixed"], {"ann": "en"}, ["whole"], None))


def test_lists_are_called_by_what_tells_them_apart() -> None:
    assert names([Path("a/en.txt"), Path("a/zh.txt")]) == ["en", "zh"]
    assert names([Path("seed/en/meta.lst"), Path("seed/zh/meta.lst")]) == ["en/meta", "zh/meta"]
    assert names([Path("a/en/meta.lst"), Path("b/en/meta.lst")]) == ["a/en/meta.lst", "b/en/meta.lst"]
    with pytest.raises(InvalidInput, match="twice"):
        names([Path("a"), Path("a")])


def test_a_table_shows_what_is_known() -> None:
    row = {"list": "en", "voice": "ann", "mode": "whole", "lines": 2, "error_rate": 0.0461, "syllables": None}
    row |= dict.fromkeys(("similarity", "mos", "leading_silence_s", "jump_db", "elsewhere_db"), 1.5)
    row |= dict.fromkeys(("jump_rank", "packet_rank", "click_rank"), 0.5)
    head, _, shown = table([row]).splitlines()
    assert head.count("|") == shown.count("|") and "| 4.6 % | - | 1.5 |" in shown


@pytest.mark.parametrize("benchmark", [cloning, quality, registration, store])
def test_keys_are_documented_and_the_list_names_the_command(benchmark: ModuleType) -> None:
    assert benchmark.__doc__ is not None and "Keys of the printed object" in benchmark.__doc__
    assert benchmark.__name__.removeprefix("bench.") in BENCHMARKS


@pytest.mark.slow
def test_a_store_is_measured_whole(tmp_path: Path) -> None:
    found = store.measure(tmp_path, voices=5, seconds=0.2, lookups=20)
    assert found["voices"] == 5 and found["added_meanwhile"] >= 1
    for name in ("find_us", "get_us", "read_us", "find_while_adding_us"):
        assert 0 < found[name]["p50"] <= found[name]["p99"] <= found[name]["max"]


def test_soft_speakers_are_told_apart_by_their_sound_alone() -> None:
    if find_spec("resemblyzer") is None:
        pytest.skip("the weights of Resemblyzer are not installed")
    speakers = Speakers()
    # As soft as somebody far from a microphone.
    low, high = 0.1 * humming(3, 110), 0.1 * humming(3, 240)
    sound = speakers(low, RATE)
    assert sound.shape == (256,) and np.linalg.norm(sound) == pytest.approx(1, abs=1e-5)
    assert likeness(sound, speakers(0.5 * low, RATE)) > 0.98 > likeness(sound, speakers(high, RATE))
    # Silence around it is nobody's voice.
    padded = np.concatenate([np.zeros(RATE, np.float32), low, np.zeros(2 * RATE, np.float32)])
    assert likeness(sound, speakers(padded, RATE)) > 0.97
    for nothing in (np.zeros(RATE, np.float32), np.zeros(10, np.float32)):
        with pytest.raises(ValueError, match="no sound"):
            speakers(nothing, RATE)


@pytest.mark.slow
def test_the_embedded_voice_is_registered_within_its_limit() -> None:
    command = [sys.executable, "-m", "bench", "registration", "--seconds", "4", "--repeat", "2", "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
    assert found["seconds"] == 4 and found["registration_s"]["max"] >= found["registration_s"]["p50"] > 0
    assert found["first_s"] > found["ids_s"] > 0 and found["command_s"] > 0
