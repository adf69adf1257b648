"""Nonsense, drawn: the same for the same random numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

WORDS = (
    "Hello", "3.5", "$12.50", "Dr.", "你好", "重庆", "3:30", "2026-11-30", "https://a.b/c?d=e", "a@b.co", "No.",
    "…", "🙂",
    "½", "x²", "١٢٣", "Ⅻ", "ß", "İ", "ﬁ", "e\u0301", "\u202e", "\u0000", "\ufeff", "\u200d", "\ud83d", "\udc00", "—",
    "[h]", "[ǎo]", "[HH]", "[AH0]", "[breath]", "[laughter]", "<|endofprompt|>", "<strong>", "</strong>", "<speak>",
    "<break time='1s'/>", "<sub alias='x'>", "</sub>", "<prosody rate='50%'>", "</prosody>", "<phoneme", "<!--", "-->",
    "&amp;", "&#x110000;", "&#0;", "<![CDATA[", "]]>", "<?xml", "```", "**", "~~", "| a | b |", "[a](b)", "![", "](",
    "\\", "$", "¥", "%", "°C", "km/h", "1/2", "10-20", "0", "-", "１２", "555-0123", "1,200", "12e400", "0x1F",
    "v1.2.3", "\r\n", "\n", "\t", "\u2028", "  ", ". ", "。", "！", "?", ";", "：", "\"", "'", "(", ")", "「", "』",
)  # fmt: skip
"""Pieces that readers of text treat in some way of their own."""
NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 7, 255, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53, 2**63 - 1, 2**63, -(2**63), 2**64, 10**40,
    0.0, -0.0, 0.5, 1.5, 1e-320, 1e308, -1e308,
)  # fmt: skip
ODD: tuple[Any, ...] = (None, True, False, "", [], {}, [None], {"": ""}, "null", "NaN")


def chance(random: Random, share: float) -> bool:
    return random.random() < share


def size(random: Random, most: int) -> int:
    """Mostly small, now and then up to `most`."""
    return min(most, int(math.exp(random.random() * math.log(most + 1))) - random.randrange(2))


def noise(random: Random, most: int) -> bytes:
    return random.randbytes(max(0, size(random, most)))


def text(random: Random, most: int = 400) -> str:
    """Up to `most` characters: of pieces, of one piece again and again, or of any code points."""
    length = max(0, size(random, most))
    match random.randrange(4):
        case 0:
            piece = "".join(random.choices(WORDS, k=random.randint(1, 3)))
            return (piece * (length // len(piece) + 1))[:length]
        case 1:
            return "".join([chr(random.randrange(random.choice((128, 0x250, 0x110000)))) for _ in range(length)])
        case _:
            between = random.choices(("", " ", "", "."), k=length // 3 + 1)
            pieces = random.choices(WORDS, k=length // 3 + 1)
            return "".join([part for pair in zip(pieces, between, strict=True) for part in pair])[:length]


def plain(random: Random, most: int = 400) -> str:
    """The same, as UTF-8 can hold it."""
    return text(random, most).encode(errors="replace").decode()


def split(random: Random, whole: str) -> list[str]:
    """Cut anywhere, into a few pieces."""
    cuts = sorted(random.randrange(len(whole) + 1) for _ in range(random.randrange(6)))
    return [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


def damaged(random: Random, data: bytes, most: int = 4096) -> bytes:
    """Cut short, bytes changed, doubled, left out or put in; or not like it at all."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(changed) + 1)
        match random.randrange(7):
            case 0:
                del changed[at:]
            case 1:
                del changed[at : at + size(random, 64)]
            case 2:
                changed[at:at] = noise(random, 64)
            case 3:
                changed[at:at] = changed[at : at + size(random, 256)]
            case 4 if at < len(changed):
                changed[at] ^= 1 << random.randrange(8)
            case 5 if at < len(changed):
                changed[at] = random.choice((0, 0x7F, 0x80, 0xFF))
            case 6 if chance(random, 0.1):
                changed = bytearray(noise(random, most))
    return bytes(changed)


def value(random: Random, depth: int = 2) -> Any:
    """Something that JSON can hold."""
    match random.randrange(6 if depth else 3):
        case 0:
            return random.choice(ODD)
        case 1:
            return random.choice(NUMBERS)
        case 2:
            return text(random, 60) if chance(random, 0.95) else plain(random, 100_000)
        case 3:
            return [value(random, depth - 1) for _ in range(random.randrange(4))]
        case _:
            return {plain(random, 12): value(random, depth - 1) for _ in range(random.randrange(4))}


def altered(random: Random, valid: Any) -> Any:
    """`valid` with something in it changed, whatever kind of JSON it is."""
    if isinstance(valid, dict) and valid:
        name = random.choice(list(valid))
        match random.randrange(5):
            case 0:
                return {each: was for each, was in valid.items() if each != name}
            case 1:
                return {**valid, plain(random, 20): value(random)}
            case _:
                return {**valid, name: altered(random, valid[name])}
    if isinstance(valid, list) and valid and chance(random, 0.7):
        place = random.randrange(len(valid))
        return [*valid[:place], altered(random, valid[place]), *valid[place + 1 :]]
    if isinstance(valid, str) and chance(random, 0.5):
        return text(random, 300)
    if isinstance(valid, int | float) and not isinstance(valid, bool) and chance(random, 0.6):
        return random.choice(NUMBERS)
    return value(random)


def dumped(random: Random, found: Any) -> str:
    """As JSON has it, or nearly so."""
    whole = json.dumps(found, ensure_ascii=chance(random, 0.5))
    match random.randrange(24):
        case 0:
            return whole[: random.randrange(len(whole) + 1)]
        case 1:
            place = random.randrange(len(whole) + 1)
            return whole[:place] + plain(random, 8) + whole[place:]
        case 2:
            deep = random.choice((10, 1000, 20_000))
            return random.choice(("[", '{"a":')) * deep
        case 3:
            return whole.replace("1", random.choice(("NaN", "Infinity", "-Infinity", "1" * 5000, "1e999", "01")), 1)
        case 4:
            return whole + whole
        case 5:
            return whole.replace("{", '{"type":1,"type":', 1)
    return whole


def shuffled(random: Random, of: Sequence[T], most: int) -> list[T]:
    """Some of these in any order, some more than once."""
    return [random.choice(of) for _ in range(random.randint(0, most))]


def shown(data: object, most: int = 300) -> str:
    """For a report."""
    told = ascii(data)
    return told if len(told) <= most else f"{told[:most]}... ({len(told)} characters)"
