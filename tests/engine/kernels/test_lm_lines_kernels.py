"""Laying out, drawing and checking by lines: kernels against their twins, and those against what they are for."""

import pytest
import torch
from torch import Tensor

from oscine_engine.config import SamplingConfig
from oscine_engine.lm import noise
from oscine_engine.lm.drawing import NEVER, Drawing
from oscine_engine.lm.sampling import NO_ID, mask_logits, sample
from oscine_engine.lm.speculation import lots
from oscine_engine.runtime.kernels import lm_lines as twin
from oscine_engine.runtime.kernels.lm_lines import DRAWN, ENDS, HELD, LAID, LENGTH, PAST, REACH, ROOM, SAID, SEED

triton = pytest.importorskip("triton")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
WINDOW, GUESSES, SPEECH_IDS = 5, 7, 30


def lines_of(count: int, held: Tensor, seed: int = 7) -> Tensor:
    """Lines that differ in everything."""
    random = torch.Generator().manual_seed(seed)
    lines = torch.randint(0, SPEECH_IDS, (count, PAST + WINDOW + GUESSES), generator=random)
    numbers = torch.arange(count)
    lines[:, SEED], lines[:, SAID] = numbers * 7919 - 2**62, numbers % 13
    lines[:, LENGTH], lines[:, ENDS] = 3 * numbers % 19, torch.where(numbers % 2 == 0, 0, 1 << 62)
    lines[:, HELD], lines[:, ROOM], lines[:, REACH], lines[:, LAID] = held, 1 + numbers % 9, 20 + numbers % 3, 1
    lines[::4, PAST : PAST + 2] = NO_ID
    lines[:, DRAWN:PAST] = 0
    return lines


@pytest.mark.parametrize("draws", [1, 4, 8])
@pytest.mark.parametrize("texts", [False, True])
def test_rows_are_laid_out_alike(draws: int, texts: bool) -> None:
    """Streams with all, some and no guesses, nobody, and beside texts, whose rows and tiles stay as they were."""
    from oscine_engine.runtime.kernels import lm_lines_triton

    slots, size, most_pages, streams = 9, 4, 7, 6
    lines = lines_of(slots, torch.tensor([0, 3, 7, 1, 2, 7, 0, 5, -1]))
    lines[6, LAID] = lines[8, LAID] = 0
    pages = torch.randperm(slots * most_pages, generator=torch.Generator().manual_seed(3)).view(slots, -1).int()
    at = torch.tensor([4, 2, 7, 0, 6, 8] if texts else [4, 2, 8, 7, 0, 8])
    last = torch.tensor([99, 99, 99, 99, 4 * draws + 8, 77]) if texts else None
    rows, tiles = 6 * draws + 12, 11
    laid: list[twin.Laid] = []
    for device in (DEVICE, torch.device("cpu")):
        one = twin.Laid(
            torch.zeros(streams, lines.shape[1], dtype=torch.int64),
            torch.zeros(streams, most_pages, dtype=torch.int32),
            torch.zeros(streams, draws, dtype=torch.int64),
            *(torch.arange(rows) + 1000 * part for part in range(4)),
            *((torch.arange(tiles) + 100 * part).int() for part in range(4)),
        )
        laid.append(twin.Laid(*(part.to(device) for part in one)))
    there = [None if part is None else part.to(DEVICE) for part in (at, lines, pages, last)]
    lm_lines_triton.lay_out(*there, laid[0], WINDOW, size)
    twin.lay_out(at, lines, pages, last, laid[1], WINDOW, size)
    for name, ours, wanted in zip(twin.Laid._fields, *laid, strict=True):
        assert ours.tolist() == wanted.tolist(), name
    ours = laid[1]
    assert ours.says[1].tolist() == list(range(draws, 2 * draws))
    held, length = min(7, draws - 1), int(lines[2, LENGTH])
    assert ours.ids[draws : draws + held + 1].tolist() == lines[2, PAST + WINDOW - 1 :][: held + 1].tolist()
    for place in range(held + 1):
        position = length + place
        assert int(ours.positions[draws + place]) == position
        assert int(ours.slots[draws + place]) == int(pages[2, position // size]) * size + position % size
    assert (int(ours.first[1]), int(ours.held[1]), int(ours.start[1])) == (draws, held + 1, length)
    if texts:
        assert ours.says[4].tolist() == [4 * draws + 8] * draws
        assert ours.ids[4 * draws :].tolist() == list(range(4 * draws, rows))
        assert ours.held[4:].tolist() == list(range(104, 100 + tiles))
    else:
        assert int(ours.held[2]) == 0 and ours.slots[2 * draws : 3 * draws].tolist() == [-1] * draws


@pytest.mark.parametrize("draws", [1, 4, 8])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_ids_are_drawn_alike_and_one_by_one(temperature: float, draws: int) -> None:
    """Flat and peaked logits, ids that repeat, eos legal and not, and logits that are no numbers."""
    from oscine_engine.runtime.kernels import lm_lines_triton

    config, speech_ids, count = SamplingConfig(win_size=WINDOW, tau_r=0.25), SPEECH_IDS, 24
    held = torch.arange(count) % (draws + 1) - 1
    lines = lines_of(count, held)
    logits = torch.randn(count * draws, 40, generator=torch.Generator().manual_seed(1))
    logits *= torch.linspace(0.1, 6, count * draws)[:, None]
    logits[::7, :5] += 8
    of_some = count // 2 * draws
    logits[of_some, 10], logits[of_some + draws, 2], logits[of_some + 2 * draws, 39] = torch.nan, torch.inf, torch.nan
    lines[::2, PAST + WINDOW - 3 : PAST + WINDOW] = logits[:: 2 * draws, :speech_ids].argmax(-1, keepdim=True)
    rule = twin.Rule(config, temperature, speech_ids)
    got = lm_lines_triton.sample(logits.to(DEVICE), lines.to(DEVICE), WINDOW, rule).cpu()
    wanted = twin.sample(logits, lines, WINDOW, rule)
    assert got.tolist() == wanted.tolist()
    repeated = 0
    for stream, place in ((s, p) for s in range(count) for p in range(draws)):
        if place > held[stream]:
            assert wanted[stream, place] == NO_ID
            continue
        line, said = lines[stream], int(lines[stream, SAID]) + place
        history = line[None, PAST + place : PAST + place + WINDOW]
        masked = mask_logits(logits[None, stream * draws + place], speech_ids, (said >= line[ENDS])[None])
        keys = torch.tensor([[noise.key(int(line[SEED]), said, use) for use in (0, 1)]])
        one = sample(masked, history, keys, config, temperature)[0] if masked.amax().isfinite() else NO_ID
        assert int(wanted[stream, place]) == int(one)
        repeated += int(one) != int(sample(masked, torch.full_like(history, NO_ID), keys, config, temperature)[0])
    assert repeated > 0


@pytest.mark.parametrize("draws", [1, 3])
def test_lines_are_drawn_each_in_its_own_way_whatever_is_beside_them(draws: int) -> None:
    """Temperatures, nuclei, windows and limits of their own, beside lines that leave it at the rule."""
    from oscine_engine.runtime.kernels import lm_lines_triton

    config, count = SamplingConfig(win_size=WINDOW, tau_r=0.25), 40
    ways = [
        None,
        Drawing(1 / 0.4, config.top_p, config.top_k, WINDOW, 2),
        Drawing(1.0, 1.0, 100, WINDOW, 2),
        Drawing(1 / 1.7, 0.3, 3, 2, 1),
        Drawing(1.0, config.top_p, config.top_k, 1, NEVER),
    ]
    lines = lines_of(count, torch.full((count,), draws - 1))
    for number in range(count):
        way = ways[number % len(ways)]
        lines[number, DRAWN:PAST] = 0 if way is None else torch.tensor(way.words)
    logits = torch.randn(count * draws, 40, generator=torch.Generator().manual_seed(5)) * 2
    # What is likeliest was said a while ago: some windows see it, some do not.
    lines[:, PAST : PAST + 2] = logits[::draws, :SPEECH_IDS].argmax(-1, keepdim=True)
    rule = twin.Rule(config, 1.0, SPEECH_IDS)
    got = lm_lines_triton.sample(logits.to(DEVICE), lines.to(DEVICE), WINDOW, rule).cpu()
    assert got.tolist() == twin.sample(logits, lines, WINDOW, rule).tolist()
    differing = [0] * len(ways)
    for number in range(count):
        alone = twin.sample(logits[number * draws : (number + 1) * draws], lines[number : number + 1], WINDOW, rule)
        assert alone[0].tolist() == got[number].tolist()
        usual = lines[number : number + 1].clone()
        usual[:, DRAWN:PAST] = 0
        as_ever = twin.sample(logits[number * draws : (number + 1) * draws], usual, WINDOW, rule)
        differing[number % len(ways)] += as_ever.tolist() != alone.tolist()
    assert differing[0] == 0 and all(differing[1:]), differing


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("guesses", [0, 1, 3, 7])
def test_verification(guesses: int, forced: bool) -> None:
    """All, some and no guesses kept, fewer guesses than there is room for, and draws that are no speech."""
    from oscine_engine.runtime.kernels import lm_lines_triton

    count, draws = 60, guesses + 1
    random = torch.Generator().manual_seed(7)
    picks = torch.randint(0, SPEECH_IDS, (count, draws), generator=random)
    numbers = torch.arange(count)
    right = numbers % draws
    held = torch.where(numbers % 3 == 0, guesses // 2, guesses)
    held[7], picks[7, 0] = -1, NO_ID
    lines = lines_of(count, held)
    same = torch.arange(guesses) < right[:, None]
    lines[:, PAST + WINDOW : PAST + WINDOW + guesses] = torch.where(same, picks[:, :-1], picks[:, :-1] + 1)
    picks[3, 0], picks[5, -1], picks[6, 0] = NO_ID, SPEECH_IDS + 1, SPEECH_IDS + 1
    table = torch.from_numpy(lots(1 + guesses / 2, guesses)) if forced and guesses else None
    wanted = twin.verify(picks, lines, table, WINDOW, SPEECH_IDS)
    there = None if table is None else table.to(DEVICE)
    got = lm_lines_triton.verify(picks.to(DEVICE), lines.to(DEVICE), there, WINDOW, SPEECH_IDS)
    for name, ours, expected in zip(wanted._fields, got, wanted, strict=True):
        assert ours.tolist() == expected.tolist(), name
    assert table is not None or wanted.tally[:, 0].abs().unique().tolist() == list(range(1, draws + 1))
    assert wanted.positions[7] == 0
    for stream in range(count):
        said, checked = int(wanted.tally[stream, 0]), int(wanted.tally[stream, 1])
        ids, line, after = picks[stream].tolist(), lines[stream], wanted.lines[stream]
        if table is None:
            kept = 0
            while kept < max(0, int(held[stream])) and line[PAST + WINDOW + kept] == ids[kept]:
                kept += 1
            assert abs(said) == kept + 1
        now = ids[: abs(said)]
        assert checked == max(0, int(held[stream]))
        room, length = int(line[ROOM]) - len(now), int(line[LENGTH]) + len(now)
        more = min(guesses, max(0, room - 1))
        speech = all(0 <= id < SPEECH_IDS for id in now)
        assert (said > 0) == (speech and room > 0 and length + 1 + more <= int(line[REACH]))
        assert (int(after[ROOM]), int(after[LENGTH]), int(after[HELD])) == (room, length, more)
        assert int(after[SAID]) == int(line[SAID]) + len(now) == int(wanted.said[stream])
        assert after[PAST : PAST + WINDOW].tolist() == (line[PAST : PAST + WINDOW].tolist() + now)[-WINDOW:]
        assert wanted.history[stream].tolist() == after[PAST : PAST + WINDOW].tolist()
        assert int(wanted.anchors[stream]) == (now[-1] if 0 <= now[-1] < SPEECH_IDS else 0)
