"""One stream on the audio thread: nothing lost, changed or repeated, whatever comes when."""

import base64
import json
import random
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from bench.browser.alignment import align
from bench.browser.sent import Samples
from tests.browser.conftest import Stage, value

DRIVE = (Path(__file__).parent / "drive.js").read_text().partition("\n")[2]
FADE, FLOOR, FIRST = 384, 1920, 2304
BLOCK = 128
Plan: TypeAlias = list[tuple[str, Any]]

pytestmark = pytest.mark.asyncio(loop_scope="module")


def noise(count: int, seed: int = 1, level: float = 0.4) -> Samples:
    return (level * np.random.default_rng(seed).uniform(-1, 1, count)).astype(np.float32)


async def drive(stage: Stage, samples: Samples, plan: Plan) -> tuple[Samples, dict[str, Any]]:
    page = await stage.page()
    text = base64.b64encode(samples.tobytes()).decode()
    told = value(await page.run(f"({DRIVE})({json.dumps(text)}, {json.dumps(plan)})"))
    await stage.browser.close(page)
    return np.frombuffer(base64.b64decode(told.pop("out")), dtype="<f4"), told


def blocks(samples: int) -> int:
    return -(-samples // BLOCK)


@pytest.mark.parametrize("seed", range(12))
async def test_any_order_of_pieces_and_pauses_plays_every_sample_once(stage: Stage, seed: int) -> None:
    draw = random.Random(seed)
    total, at, plan = draw.randrange(20_000, 120_000), 0, []
    while at < total:
        count = min(total - at, draw.choice([1, 100, 960, 5000, 20_000]))
        plan.append(("push", count))
        at += count
        plan.append(("render", draw.choice([0, 1, 10, 50, 300])))
        if seed % 2 and draw.random() < 0.2:
            plan += [("pause", True), ("render", draw.randrange(30)), ("pause", False)]
    plan += [("end", 0), ("render", blocks(total) + 400)]
    samples = noise(total, seed)
    out, told = await drive(stage, samples, plan)
    found = align(out, samples, 16)
    assert found is not None and found.played == total == told["position"]
    assert (told["state"], told["buffered"]) == ("ended", 0)
    if not seed % 2:  # what a pause puts in is not counted
        assert sum(each.end - each.start for each in found.inserted) + 2 * FADE == told["inserted"]
    # The last sample is a loud one: it fades away.
    assert found.edge < 0.001 and found.rest == 0


async def test_running_dry_is_counted_and_faded_on_both_sides(stage: Stage) -> None:
    samples = noise(40_000)
    gap = 9600
    plan: Plan = [("push", 20_000), ("render", blocks(FIRST + FADE + 20_000 + gap)), ("push", 20_000), ("end", 0)]
    out, told = await drive(stage, samples, [*plan, ("render", 400)])
    found = align(out, samples)
    assert found is not None and told["underruns"] == len(found.inserted) == 1
    (dry,) = found.inserted
    assert dry.position == 20_000 and dry.edge < 0.001
    between = out[dry.start : dry.end]
    loudness = np.sqrt(np.square(between[: FADE - FADE % 64].reshape(-1, 64)).mean(axis=1))
    assert (np.diff(loudness) < 0.05).all() and loudness[0] > 0.15 and loudness[-1] < 0.01
    assert np.abs(between[FADE:-FADE]).max() == 0
    np.testing.assert_allclose(between[:3], samples[19_999:19_996:-1], atol=1e-3)
    np.testing.assert_allclose(between[-3:], samples[20_002:19_999:-1], atol=1e-3)


async def test_quiet_edges_are_not_touched(stage: Stage) -> None:
    samples = noise(30_000)
    samples[:200] = samples[-200:] = 0
    out, told = await drive(stage, samples, [("push", 30_000), ("end", 0), ("render", 400)])
    assert told["inserted"] == 0
    found = align(out, samples)
    assert found is not None and (found.begins, found.rest) == (0, 0)


async def test_a_short_stream_does_not_wait_for_more(stage: Stage) -> None:
    samples = noise(500)
    out, told = await drive(stage, samples, [("push", 500), ("render", 5), ("end", 0), ("render", 20)])
    assert told["state"] == "ended" and told["position"] == 500
    assert not out[: 5 * BLOCK].any(), "it waits for more while more may come"


async def test_a_stream_begins_once_there_is_enough_and_later_on_a_bad_link(stage: Stage) -> None:
    samples = noise(200_000)
    plan: Plan = [("push", FLOOR - 1), ("render", 100), ("push", 1), ("render", 1)]
    out, _ = await drive(stage, samples, plan)
    assert not out[: 100 * BLOCK].any() and out[100 * BLOCK :].any()
    dry: Plan = [("push", 20_000), ("render", blocks(FIRST + FADE + 20_000) + 75), ("push", 20_000), ("render", 75)]
    _, told = await drive(stage, samples, dry)
    late = 75 * BLOCK
    assert late - 2 * FADE <= told["patience"] <= late + 2 * FADE
    minute: Plan = [("push", 100_000), ("push", 100_000), ("render", 1500)]
    _, told = await drive(stage, noise(200_000), minute)
    assert told["patience"] == FIRST, "a few seconds prove nothing"
    long: Plan = [("push", 500_000), ("render", 3900)]
    _, told = await drive(stage, noise(500_000), long)
    assert told["patience"] < FIRST, "ten seconds without a gap"


async def test_stopping_fades_and_tells_where(stage: Stage) -> None:
    samples = noise(60_000)
    played = blocks(FIRST) * BLOCK
    plan: Plan = [("push", 60_000), ("render", blocks(FIRST) + 100), ("stop", 0), ("render", 50)]
    out, told = await drive(stage, samples, plan)
    found = align(out, samples)
    assert found is not None and told["state"] == "ended"
    begins = found.begins
    assert begins == played + FADE
    end = (blocks(FIRST) + 100) * BLOCK
    assert found.played == end - begins and told["position"] == end - begins + FADE
    assert np.abs(out[end + FADE :]).max() == 0
    ratio = out[end : end + FADE] / samples[end - begins : end - begins + FADE]
    assert (np.diff(ratio) < 1e-6).all() and ratio[0] > 0.99 and ratio[-1] < 0.01


@pytest.mark.parametrize("at", [1, 2, 20, 21, 22, 40])
async def test_it_can_be_stopped_in_any_state_without_a_step(stage: Stage, at: int) -> None:
    """In the entry, on the way, in the fade behind the end of what is there, and dry."""
    time = np.arange(3000) / 48000
    samples = (0.3 * np.cos(2 * np.pi * 200 * time)).astype(np.float32)
    plan: Plan = [("push", 3000), ("render", blocks(FIRST) + at), ("stop", 0), ("render", 20)]
    out, told = await drive(stage, samples, plan)
    assert told["state"] == "ended"
    assert np.abs(np.diff(out)).max() < 0.02 and not out[-10 * BLOCK :].any()


async def test_what_comes_is_never_dropped_however_much(stage: Stage) -> None:
    samples = noise(2_000_000)
    plan: Plan = [("push", 70_000), ("render", 100)] + [("push", 96_500)] * 20 + [("end", 0), ("render", 15_700)]
    out, told = await drive(stage, samples, plan)
    found = align(out, samples)
    assert found is not None and (found.played, found.inserted) == (2_000_000, ()) and told["underruns"] == 0
