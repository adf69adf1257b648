"""The kernels of `lm_lines` in Triton, with the same arguments and results, and the noise that they draw with."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from oscine_engine.lm.drawing import usual
from oscine_engine.runtime.kernels import lm_lines
from oscine_engine.runtime.kernels.lm_lines import Laid, Rule

_SEED, _SAID, _LENGTH, _ENDS, _ROOM, _HELD, _REACH, _LAID, _DRAWN, _PAST = (
    tl.constexpr(place)
    for place in (
        lm_lines.SEED,
        lm_lines.SAID,
        lm_lines.LENGTH,
        lm_lines.ENDS,
        lm_lines.ROOM,
        lm_lines.HELD,
        lm_lines.REACH,
        lm_lines.LAID,
        lm_lines.DRAWN,
        lm_lines.PAST,
    )
)
_PLACES = 16
"""Most rows of one stream that are laid out or checked: one number, as every other one is a kernel to compile."""

_WORD = 1 << 64
_HALF = 1 << 63


def _signed(word: int) -> int:
    return word - _WORD if word >= _HALF else word


_GAMMA = tl.constexpr(_signed(0x9E3779B97F4A7C15))
_MIX_1 = tl.constexpr(_signed(0xBF58476D1CE4E5B9))
_MIX_2 = tl.constexpr(_signed(0x94D049BB133111EB))


@triton.jit
def _mixed(word):
    """SplitMix64's finaliser over int64; shifts are made logical by masking what the sign moved in."""
    word = (word ^ ((word >> 30) & 0x3FFFFFFFF)) * _MIX_1
    word = (word ^ ((word >> 27) & 0x1FFFFFFFFF)) * _MIX_2
    return word ^ ((word >> 31) & 0x1FFFFFFFF)


@triton.jit
def _gumbel(key, ids):
    """As `lm.noise.gumbel`, float64."""
    word = _mixed(key + ids.to(tl.int64) * _GAMMA)
    uniform = (((word >> 11) & 0x1FFFFFFFFFFFFF).to(tl.float64) + 0.5) * 1.1102230246251565e-16
    return -tl.log(-tl.log(uniform))


@triton.jit
def _nucleus_draw(probability, key, top_p, top_k, BLOCK: tl.constexpr):
    """The id, int64, that noise under `key` draws from the nucleus of probability [BLOCK]; 0 if nothing is in it.

    Ids come by falling probability, the lower one first among equals; the one that crosses top_p is inside. The bits of
    a number that is not negative order as it does, so that probability and id make one key.
    """
    left = (probability.to(tl.int32, bitcast=True).to(tl.int64) << 32) | (BLOCK - 1 - tl.arange(0, BLOCK))
    before = tl.sum(tl.zeros((BLOCK,), tl.float32), 0)
    drawn = tl.sum(tl.zeros((BLOCK,), tl.int64), 0)
    best = before.to(tl.float64) - float("inf")
    rank = 0
    while (rank < top_k) & (before < top_p):
        top = tl.max(left, 0)
        share = (top >> 32).to(tl.int32).to(tl.float32, bitcast=True)
        place = BLOCK - 1 - (top & 0xFFFFFFFF)
        value = tl.log(share.to(tl.float64)) + _gumbel(key, place)
        better = (share > 0) & (value > best)
        drawn = tl.where(better, place, drawn)
        best = tl.where(better, value, best)
        left = tl.where(left == top, -1, left)
        before += share
        rank += 1
    return drawn


@triton.jit(do_not_specialize=["draws", "everyone"])
def _lay_out_kernel(
    at, lines, pages, last, own, tables, says, ids, kinds, positions, slots, first, count, start, sequence,
    line_size, most_pages, draws, everyone,
    WINDOW: tl.constexpr, PAGE: tl.constexpr, PLACES: tl.constexpr, LINE_PAD: tl.constexpr, PAGES_PAD: tl.constexpr,
):  # fmt: skip
    stream = tl.program_id(0).to(tl.int64)
    slot = tl.load(at + stream)
    line, table = lines + slot * line_size, pages + slot * most_pages
    most = (draws - 1).to(tl.int64)
    columns = tl.arange(0, LINE_PAD)
    value = tl.load(line + columns, columns < line_size, 0)
    value = tl.where(columns == _HELD, tl.minimum(value, most), value)
    tl.store(own + stream * line_size + columns, value, columns < line_size)
    numbers = tl.arange(0, PAGES_PAD)
    page = tl.load(table + numbers, numbers < most_pages, 0)
    tl.store(tables + stream * most_pages + numbers, page, numbers < most_pages)
    held, length = tl.minimum(tl.load(line + _HELD), most), tl.load(line + _LENGTH)
    mine = (tl.load(line + _LAID) > 0) | (everyone > 0)
    begin = tl.where(mine, stream * draws, tl.load(last + stream, everyone == 0, 0))
    places = tl.arange(0, PLACES)
    inside = places < draws
    says_at = begin + tl.minimum(places, tl.maximum(held, 0))
    tl.store(says + stream * draws + places, says_at, inside)
    if mine:
        fed = inside & (places <= held)
        position = tl.where(fed, length + places, 0)
        id = tl.load(line + _PAST + WINDOW - 1 + places, fed, 0)
        page_at = tl.load(table + position // PAGE, fed, 0).to(tl.int64)
        tl.store(ids + begin + places, id, inside)
        tl.store(kinds + begin + places, tl.full((PLACES,), 1, tl.int64), inside)
        tl.store(positions + begin + places, position, inside)
        tl.store(slots + begin + places, tl.where(fed, page_at * PAGE + position % PAGE, -1), inside)
        tl.store(first + stream, begin.to(tl.int32))
        tl.store(count + stream, (held + 1).to(tl.int32))
        tl.store(start + stream, length.to(tl.int32))
        tl.store(sequence + stream, stream.to(tl.int32))


def lay_out(at: Tensor, lines: Tensor, pages: Tensor, last: Tensor | None, laid: Laid, window: int, size: int) -> None:
    """As `lm_lines.lay_out`."""
    line_size, most_pages = lines.shape[1], pages.shape[1]
    _lay_out_kernel[(len(at),)](
        at, lines, pages, at if last is None else last, *laid, line_size, most_pages, laid.says.shape[1],
        int(last is None),
        WINDOW=window, PAGE=size, PLACES=_PLACES, LINE_PAD=triton.next_power_of_2(line_size),
        PAGES_PAD=triton.next_power_of_2(most_pages), num_warps=1,
    )  # fmt: skip


@triton.jit
def _number(word, usual):
    """The float32 whose bits are `word`; `usual` where that is 0."""
    return tl.where(word == 0, usual, word.to(tl.int32).to(tl.float32, bitcast=True))


@triton.jit(do_not_specialize=["draws", "usual_k", "usual_limit"])
def _sample_kernel(
    logits, lines, out, stride, line_size, usual_scale, usual_p, usual_k, usual_limit, draws,
    VOCAB: tl.constexpr, BLOCK: tl.constexpr, WINDOW: tl.constexpr, WINDOW_PAD: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    line, place = lines + row // draws * line_size, row % draws
    if place > tl.load(line + _HELD):
        tl.store(out + row, tl.full((), -1, tl.int64))
        return
    scale, top_p = _number(tl.load(line + _DRAWN), usual_scale), _number(tl.load(line + _DRAWN + 1), usual_p)
    own_k, own_window = tl.load(line + _DRAWN + 2), tl.load(line + _DRAWN + 3)
    own_limit = tl.load(line + _DRAWN + 4)
    top_k = tl.minimum(tl.where(own_k == 0, usual_k, own_k), VOCAB)
    recent, limit = tl.where(own_window == 0, WINDOW, own_window), tl.where(own_limit == 0, usual_limit, own_limit)
    position = tl.load(line + _SAID) + place
    ids = tl.arange(0, BLOCK)
    score = tl.load(logits + row * stride + ids, ids < VOCAB, float("-inf")).to(tl.float32)
    legal = (ids < VOCAB - 2) | ((ids == VOCAB - 1) & (position >= tl.load(line + _ENDS)))
    broken = tl.sum(tl.where(legal & (score != score), 1, 0), 0) > 0
    score = tl.where(legal, score * scale, float("-inf"))
    peak = tl.max(score, 0)
    broken = broken | (tl.abs(peak) == float("inf"))
    peak = tl.where(broken, 0.0, peak)
    shares = tl.exp(score - peak)
    probability = shares / tl.sum(shares, 0)
    key = _mixed(tl.load(line + _SEED) + _GAMMA)
    key = _mixed(key + position * _GAMMA + 1)
    first = _mixed(key + 2)
    drawn = _nucleus_draw(probability, first, top_p, top_k, BLOCK)
    window = tl.arange(0, WINDOW_PAD)
    past = tl.load(line + _PAST + place + window, window < WINDOW, -1)
    repeated = tl.sum(tl.where((past == drawn) & (window >= WINDOW - recent), 1, 0), 0)
    if repeated >= limit:
        second = _mixed(key + _GAMMA + 2)
        others = tl.where(legal & (ids != drawn), score.to(tl.float64) + _gumbel(second, ids), float("-inf"))
        drawn = tl.argmax(others, 0).to(tl.int64)
    tl.store(out + row, tl.where(broken, -1, drawn))


def sample(logits: Tensor, lines: Tensor, window: int, rule: Rule) -> Tensor:
    """As `lm_lines.sample`."""
    draws, vocab = len(logits) // len(lines), rule.speech_ids + 2
    ours = usual(rule.sampling, rule.temperature)
    out = torch.empty(len(lines), draws, dtype=torch.int64, device=logits.device)
    _sample_kernel[(len(logits),)](
        logits, lines, out, logits.stride(0), lines.stride(0), ours.scale, ours.top_p, ours.top_k, ours.limit, draws,
        VOCAB=vocab, BLOCK=triton.next_power_of_2(vocab), WINDOW=window, WINDOW_PAD=triton.next_power_of_2(window),
        num_warps=8,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["draws", "lots_end"])
def _verify_kernel(
    picks, lines, lots, tally, after, anchors, positions, seeds, said, history, line_size, draws, lots_end,
    SPEECH_IDS: tl.constexpr, WINDOW: tl.constexpr, PLACES: tl.constexpr, LINE_PAD: tl.constexpr, FORCED: tl.constexpr,
):  # fmt: skip
    stream = tl.program_id(0).to(tl.int64)
    line, own = lines + stream * line_size, after + stream * line_size
    seed, before, held = tl.load(line + _SEED), tl.load(line + _SAID), tl.load(line + _HELD)
    places = tl.arange(0, PLACES)
    pick = tl.load(picks + stream * draws + places, places < draws, -1)
    if FORCED:
        word = _mixed(_mixed(_mixed(seed + _GAMMA) + before * _GAMMA + 1) + _GAMMA + _GAMMA + 2)
        kept = tl.minimum(tl.load(lots + (word & lots_end)), tl.maximum(held, 0))
    else:
        # The place behind the last guess never agrees, so there is a first one that does not.
        guess = tl.load(line + _PAST + WINDOW + places, (places < held) & (places < draws - 1), -2)
        kept = tl.min(tl.where(guess != pick, places, PLACES), 0).to(tl.int64)
    said_now = kept + 1
    anchor = tl.sum(tl.where(places == kept, pick, 0), 0)
    no_speech = tl.sum(tl.where((places <= kept) & ((pick < 0) | (pick >= SPEECH_IDS)), 1, 0), 0)
    room, length = tl.load(line + _ROOM) - said_now, tl.load(line + _LENGTH) + said_now
    more = tl.minimum(tl.maximum(room - 1, 0), (draws - 1).to(tl.int64))
    smooth = (no_speech == 0) & (room > 0) & (length + 1 + more <= tl.load(line + _REACH))
    tl.store(tally + stream * 2, tl.where(smooth, said_now, -said_now))
    tl.store(tally + stream * 2 + 1, tl.maximum(held, 0))
    tl.store(anchors + stream, tl.where((anchor >= 0) & (anchor < SPEECH_IDS), anchor, 0))
    tl.store(positions + stream, tl.where(held >= 0, length, 0))
    tl.store(seeds + stream, seed)
    tl.store(said + stream, before + said_now)
    columns = tl.arange(0, LINE_PAD)
    value = tl.load(line + columns, columns < line_size, 0)
    value = tl.where((columns == _SAID) | (columns == _LENGTH), value + said_now, value)
    value = tl.where(columns == _ROOM, room, value)
    value = tl.where(columns == _HELD, more, value)
    value = tl.where(columns == _LAID, 1, value)
    recent = (columns >= _PAST) & (columns < _PAST + WINDOW)
    place = columns - _PAST + said_now
    old = tl.load(line + _PAST + place, recent & (place < WINDOW), -1)
    new = tl.load(picks + stream * draws + place - WINDOW, recent & (place >= WINDOW), -1)
    value = tl.where(recent, tl.where(place < WINDOW, old, new), value)
    tl.store(own + columns, value, columns < line_size)
    tl.store(history + stream * WINDOW + columns - _PAST, value, recent)


def verify(picks: Tensor, lines: Tensor, lots: Tensor | None, window: int, speech_ids: int) -> tuple[Tensor, ...]:
    """As `lm_lines.verify`."""
    (streams, draws), line_size = picks.shape, lines.shape[1]
    tally, after = picks.new_empty(streams, 2), torch.empty_like(lines)
    anchors, positions, seeds, said = torch.empty(4, streams, dtype=torch.int64, device=picks.device)
    history = picks.new_empty(streams, window)
    told = (anchors, positions, seeds, said, history)
    _verify_kernel[(streams,)](
        picks, lines, picks if lots is None else lots, tally, after, *told, line_size, draws,
        0 if lots is None else len(lots) - 1,
        SPEECH_IDS=speech_ids, WINDOW=window, PLACES=_PLACES, LINE_PAD=triton.next_power_of_2(line_size),
        FORCED=lots is not None, num_warps=1,
    )  # fmt: skip
    return tally, after, *told
