"""A stream's line: what the device must know of it to feed it, to draw for it and to check what was guessed of it.

A line is int64 [PAST + window + guesses]. All lines go up with every step, which lays them out as rows, and one step's
lines come back as those of the next. On a GPU `lm_lines_triton` does this; here is its twin.

    SEED    of the noise
    SAID    speech ids said
    LENGTH  position of the id that is fed last, not counting guesses
    ENDS    ids said from which on it may end
    ROOM    ids that may be said one after the other
    HELD    guesses that follow the last id; -1 where nothing is to be drawn
    REACH   positions that its pages have room for
    LAID    whether the device lays its rows out: the last id said, and guesses; else the host has
    DRAWN   five words of how it is drawn for, `lm.drawing.Drawing.words`; 0 is as the rule says
    PAST    the last `window` ids said, -1 where there are fewer, and then guesses
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from oscine_engine.config import SamplingConfig
from oscine_engine.lm import noise
from oscine_engine.lm.drawing import usual
from oscine_engine.lm.sampling import NO_ID, Rows, mask_logits
from oscine_engine.lm.sampling import sample as draw

SEED, SAID, LENGTH, ENDS, ROOM, HELD, REACH, LAID, DRAWN = range(9)
PAST = DRAWN + 5


class Laid(NamedTuple):
    """A step of S streams, R rows and T tiles, each of the first streams having a tile of its own.

    lines [S, as long as a line]: the streams', with no more guesses held than are drawn behind. tables int32 [S, most
    pages]. says int64 [S, draws]: rows to draw from. ids, kinds, positions, slots int64 [R]. first, held, start,
    sequence int32 [T], as in `lm.Tiles`, whose `rows` are the second.
    """

    lines: Tensor
    tables: Tensor
    says: Tensor
    ids: Tensor
    kinds: Tensor
    positions: Tensor
    slots: Tensor
    first: Tensor
    held: Tensor
    start: Tensor
    sequence: Tensor


class Rule(NamedTuple):
    """How ids are drawn where a line does not say otherwise."""

    sampling: SamplingConfig
    temperature: float
    speech_ids: int


def lay_out(at: Tensor, lines: Tensor, pages: Tensor, last: Tensor | None, laid: Laid, window: int, size: int) -> None:
    """Write the rows of streams whose lines are `at` [S] of lines [L, ...] and pages int32 [L, most pages].

    Stream i's rows are the `draws` from i * draws on, those without an id in slot -1. last int64 [S]: the last input's
    row of a stream that is not LAID, whose rows and tiles are there already; None: all are to be laid. size: tokens of
    a page.
    """
    if lines.is_cuda:
        _fused().lay_out(at, lines, pages, last, laid, window, size)
        return
    own, draws = laid.lines, laid.says.shape[1]
    own.copy_(lines[at])
    own[:, HELD].clamp_(max=draws - 1)
    laid.tables.copy_(pages[at])
    held, length = own[:, HELD, None], own[:, LENGTH, None]
    numbers, places = torch.arange(len(at)), torch.arange(draws)
    mine = torch.ones_like(numbers, dtype=torch.bool) if last is None else own[:, LAID] > 0
    begin = numbers * draws if last is None else torch.where(mine, numbers * draws, last)
    laid.says.copy_(begin[:, None] + torch.minimum(places, held.clamp(min=0)))
    rows = (begin[:, None] + places)[mine]
    fed, positions = (places <= held)[mine], (length + places)[mine]
    page = laid.tables[mine].long().gather(1, (positions // size).clamp(max=pages.shape[1] - 1))
    laid.ids[rows] = torch.where(fed, own[mine, PAST + window - 1 : PAST + window - 1 + draws], 0)
    laid.kinds[rows] = 1
    laid.positions[rows] = torch.where(fed, positions, 0)
    laid.slots[rows] = torch.where(fed, page * size + positions % size, -1)
    tiles = numbers[mine]
    laid.first[tiles], laid.held[tiles] = begin[mine].int(), (own[mine, HELD] + 1).int()
    laid.start[tiles], laid.sequence[tiles] = own[mine, LENGTH].int(), tiles.int()


def sample(logits: Tensor, lines: Tensor, window: int, rule: Rule) -> Tensor:
    """Ids int64 [S, draws] for S lines from raw logits [S * draws, at least speech_ids + 2].

    The n-th of a stream's is drawn as if its first n guesses had been said. -1 behind the last guess and where the
    logits are not finite.
    """
    if logits.is_cuda:
        return _fused().sample(logits, lines, window, rule)  # type: ignore[no-any-return]
    places = torch.arange(len(logits) // len(lines))
    said = lines[:, SAID, None] + places
    history = lines[:, PAST : PAST + window + len(places) - 1].unfold(1, window, 1)
    masked = mask_logits(logits, rule.speech_ids, (said >= lines[:, ENDS, None]).flatten())
    keys = noise.keys(lines[:, SEED, None].expand_as(said).flatten(), said.flatten())
    words = lines[:, DRAWN : DRAWN + 5]
    words = torch.where(words == 0, torch.tensor(usual(rule.sampling, rule.temperature).words), words)
    rows = Rows.from_words(words.repeat_interleave(len(places), dim=0))
    ids = draw(masked, history.flatten(0, 1), keys, rows)
    ids = torch.where(masked.amax(-1).isfinite(), ids, NO_ID).view(said.shape)
    return torch.where(places <= lines[:, HELD, None], ids, NO_ID)


class Verdict(NamedTuple):
    """What S streams said, and where they are then.

    tally int64 [S, 2]: ids said, less than 0 if the host must look at the stream before it is fed again (an id that is
    no speech, no more room, no more pages); and guesses that were checked. lines: with those ids said, and as many
    guesses held as can be drawn behind, which are still to be written. What a drafter is told of the ids said last,
    int64 [S] but for `history` [S, window]: anchors (0 where it is no speech), positions (0 where nothing was drawn),
    seeds, said.
    """

    tally: Tensor
    lines: Tensor
    anchors: Tensor
    positions: Tensor
    seeds: Tensor
    said: Tensor
    history: Tensor


def verify(picks: Tensor, lines: Tensor, lots: Tensor | None, window: int, speech_ids: int) -> Verdict:
    """Keep guesses of S lines as far as they are what was drawn: picks int64 [S, draws].

    lots int64 [a power of two]: for benchmarks, keep as many as the lot says that falls on seed and position.
    """
    if picks.is_cuda:
        return Verdict(*_fused().verify(picks, lines, lots, window, speech_ids))
    draws = picks.shape[1]
    held, places = lines[:, HELD].clamp(min=0), torch.arange(draws)
    if lots is None:
        guesses = lines[:, PAST + window : PAST + window + draws - 1]
        agree = (picks[:, :-1] == guesses) & (places[:-1] < held[:, None])
        kept = agree.long().cumprod(1).sum(1)
    else:
        kept = torch.minimum(drawn(lots, lines[:, SEED], lines[:, SAID]), held)
    count = kept + 1
    anchors = picks.gather(1, kept[:, None])[:, 0]
    speech = (picks >= 0) & (picks < speech_ids)
    after = lines.clone()
    after[:, SAID] += count
    after[:, LENGTH] += count
    after[:, ROOM] -= count
    after[:, HELD] = (after[:, ROOM] - 1).clamp(0, draws - 1)
    after[:, LAID] = 1
    both = torch.cat((lines[:, PAST : PAST + window], picks), dim=1)
    recent = both.gather(1, count[:, None] + torch.arange(window))
    after[:, PAST : PAST + window] = recent
    smooth = (speech | (places > kept[:, None])).all(1) & (after[:, ROOM] > 0)
    smooth &= after[:, LENGTH] + 1 + after[:, HELD] <= lines[:, REACH]
    return Verdict(
        tally=torch.stack((torch.where(smooth, count, -count), held), dim=1),
        lines=after,
        anchors=torch.where((anchors >= 0) & (anchors < speech_ids), anchors, 0),
        positions=torch.where(lines[:, HELD] >= 0, after[:, LENGTH], 0),
        seeds=lines[:, SEED].clone(),
        said=after[:, SAID].clone(),
        history=recent,
    )


def drawn(lots: Tensor, seeds: Tensor, said: Tensor) -> Tensor:
    """The lots [a power of two] that fall on seeds and positions [S]: the same whenever it is asked again."""
    words = noise.bits(seeds[:, None], torch.ones_like(seeds[:, None]))
    words = noise.bits(noise.bits(words + 1, said[:, None]) + 2, torch.full_like(said[:, None], 2))
    return lots[words[:, 0] & (len(lots) - 1)]


def _fused() -> ModuleType:
    from oscine_engine.runtime.kernels import lm_lines_triton

    return lm_lines_triton
