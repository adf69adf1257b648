"""How written words, addresses and codes are said, apart from what stands around them."""

import re

from oscine_engine.text import numbers_en, numbers_zh, readings_en
from oscine_engine.text.abbreviations import WHOLE, WHOLE_CHINESE
from oscine_engine.text.items import Item, Spoken, words
from oscine_engine.text.readings_en import raised
from oscine_engine.text.units import UNITS

_IN_ADDRESS = {
    ".": "dot",
    "/": "slash",
    "_": "underscore",
    "-": "dash",
    "@": "at",
    ":": "colon",
    "+": "plus",
    "&": "and",
    "%": "percent",
    "#": "hash",
    "?": "question mark",
    "=": "equals",
    "~": "tilde",
    "'": "",
}
_SENTENCE_EDGE = re.compile(r"[A-Za-z0-9]*[a-z0-9][.:][A-Z][A-Za-z']*")
_LETTERS = r"A-Za-z\u00aa-\u00af\u00ba-\u024f\u0300-\u036f\u1e00-\u1eff"
_POWER = re.compile(r"(.*?)([⁰¹²³⁴-⁹⁺⁻ⁿ]+)")
_PARTS = re.compile(r"[A-Za-z\u00c0-\u024f']+|\d[\d,]*(?:\.\d+)?|[%‰°&@+:,/µΩ#]|[⁰¹²³⁴-⁹⁺⁻ⁿ]+")
_GROUPED = re.compile(r"\d,\d{3}")
_NO_UNITS = frozenset("A N J t s h W l bar".split())
"""Behind a hyphen these are rather letters and words."""
_CLIPPED = frozenset("'tis 'twas 'em 'cause 'til 'bout 'round 'n 'cept 'cuz 'nuff 'tween".split())
"""Words whose first letters the apostrophe stands for; in front of others it is a quotation mark."""
_RATED = re.compile(r"\d+[A-Za-z]*@\d+[A-Za-z]*")
"""4K@60Hz"""
_PRODUCT = re.compile(r"[A-Z]\d-[A-Z]\d")


def is_address(chunk: str) -> bool:
    """A mail or web address, or the name of a file."""
    return "@" in chunk[:-1] and chunk[0] != "@" or "://" in chunk or re.search(r"\w\.[A-Za-z]", chunk) is not None


def of_letters(chunk: str) -> str:
    """A chunk of letters and joiners: an address is read out, anything else falls into its words."""
    if is_address(chunk):
        if _SENTENCE_EDGE.fullmatch(chunk):
            return re.sub(r"[.:]", ". ", chunk)
        return _address(chunk)
    if chunk[0] == "'" and chunk.lower() not in _CLIPPED:
        chunk = chunk[1:]
    if chunk[0] == "@":
        chunk = "at " + chunk[1:]
    spaced = re.sub("&+", " and ", chunk).replace("+", " plus ").replace(":", ", ").replace(",", ", ")
    return re.sub(rf"[^{_LETTERS}', ]", " ", spaced)


def with_digits(chunk: str, chinese: bool = False) -> list[Item]:
    """Letters with digits, or a number shape nobody knows: each run on its own, short capitals by their names."""
    if _RATED.fullmatch(chunk):
        first, second = chunk.split("@")
        if (rate := readings_en.read_number(second)) is not None:
            return [*with_digits(first), Item(Spoken.BLANK, " "), *words(f"at {rate}")]
    if re.search(r"[A-Za-z]\.[A-Za-z]|@|://", chunk):
        return words(re.sub(r"\d+", lambda run: f" {_in_address(run.group())} ", _address(chunk)))
    chinese = chinese and not _PRODUCT.fullmatch(chunk)
    segments = (
        [segment for segment in re.split(r"[-/_:,#]", chunk) if segment] if not _GROUPED.search(chunk) else [chunk]
    )
    spoken: list[Item] = []
    for number, segment in enumerate(segments):
        if spoken:
            spoken.append(Item(Spoken.BLANK, " "))
        if segment.isdecimal() and len(segments) > 1:
            spoken += _segment_of_digits(segment, segments, number, chinese)
            continue
        said = None
        if len(segments) > 1 and segment[0].isdecimal():
            model = re.fullmatch(r"\d{4,}[A-Z]", segment) is not None
            said = None if chinese or model else readings_en.read_number(segment, readings_en.Near(before="in"))
        elif number and segments[number - 1].isdecimal() and segment in UNITS and segment not in _NO_UNITS:
            said = UNITS[segment].one
        spoken += words(said) if said is not None else _runs(segment, chinese)
    return spoken


def _segment_of_digits(segment: str, segments: list[str], number: int, chinese: bool) -> list[Item]:
    """Digits between hyphens: "24" of 24-hour is counted, "747" of Boeing-747 spelled, "2008" of pre-2008 a year."""
    if len(segment) == 4 and 1900 < int(segment) < 2100 and number == len(segments) - 1 and segments[0].isalpha():
        return _digits(segment, True) if chinese else words(numbers_en.year(segment))
    following = segments[number + 1] if number + 1 < len(segments) else ""
    counted = len(following) > 1 and following.isalpha() and not following.isupper()
    if len(segment) <= 2 or (counted and segment[0] != "0") or segment.endswith("00"):
        return _count(segment, chinese)
    return _digits(segment, chinese)


def _runs(chunk: str, chinese: bool) -> list[Item]:
    """Runs of letters, digits and signs without hyphens, one after another."""
    parts = _PARTS.findall(chunk)
    coded = any(part[0].isalpha() for part in parts)
    spoken: list[Item] = []
    for part in parts:
        if spoken:
            spoken.append(Item(Spoken.BLANK, " "))
        if "0" <= part[0] <= "9":
            digits = part.rstrip(",")
            by_digit = digits.isdecimal() and len(digits) > (2 if coded else 4) and not re.fullmatch(r"\d0+", digits)
            if parts[0] in ("FY", "CY", "AY") and len(digits) == 4 and not chinese:
                spoken += words(numbers_en.year(digits))
                continue
            spoken += (_digits if by_digit else _count)(digits, chinese)
        elif _POWER.fullmatch(part):
            spoken += _raised(raised(part), chinese)
        elif (part.isupper() and len(part) <= 3) or (len(part) == 1 and part.isalpha()):
            spoken.append(Item(Spoken.LETTERS, part))
        elif chinese and part in WHOLE_CHINESE:
            spoken += [Item(Spoken.HAN, c) for c in WHOLE_CHINESE[part]]
        elif part not in (":", ",", "/", "#"):
            spoken += words(WHOLE.get(part.lower(), part))
    return spoken


def with_power(chunk: str, chinese: bool) -> list[Item]:
    """Letters with raised characters and no digit: "x²", "Fe³⁺"."""
    said: list[Item] = []
    for part in re.split(r"([-+/:])", chunk):
        if part:
            said += [*([Item(Spoken.BLANK, " ")] if said else []), *_term(part, chinese)]
    return said


def _term(part: str, chinese: bool) -> list[Item]:
    if part in "-+/:":
        name = {"-": ("minus", "减"), "+": ("plus", "加"), "/": ("over", "除以"), ":": ("to", "比")}[part]
        return [Item(Spoken.HAN, c) for c in name[1]] if chinese else words(name[0])
    match = _POWER.fullmatch(part)
    if match is None:
        return words(of_letters(part))
    base = match[1]
    said: list[Item] = []
    if base:
        spelled = len(base) <= 2 or base.isupper()
        said = (
            [item for c in base for item in (Item(Spoken.LETTERS, c), Item(Spoken.BLANK, " "))]
            if spelled
            else words(base)
        )
    return [*said, Item(Spoken.BLANK, " "), *_raised(raised(match[2]), chinese, base)]


def _raised(exponent: str, chinese: bool, base: str = "x") -> list[Item]:
    """An exponent; a charge, which ends in its sign, by its parts."""
    if exponent[-1] in "+-":
        sign = {"+": "plus", "-": "minus"}[exponent[-1]]
        return [*(_count(exponent[:-1], chinese) if exponent[:-1].isdecimal() else []), *words(sign)]
    if exponent == "n" or not re.fullmatch(r"[-+]?\d+", exponent):
        return [Item(Spoken.HAN, c) for c in "的n次方"] if chinese else words("to the power of n")
    if chinese:
        return [Item(Spoken.HAN, c) for c in numbers_zh.power("", exponent)]
    return words(numbers_en.power(exponent))


def _count(digits: str, chinese: bool) -> list[Item]:
    if chinese:
        return [Item(Spoken.HAN, c) for c in numbers_zh.decimal(digits)]
    return words(numbers_en.decimal(digits))


def _digits(digits: str, chinese: bool) -> list[Item]:
    if chinese:
        return [Item(Spoken.HAN, c) for c in numbers_zh.by_digit(digits)]
    return words(numbers_en.by_digit(digits))


def _in_address(digits: str) -> str:
    return numbers_en.by_digit(digits) if len(digits) > 2 else numbers_en.cardinal(digits)


def _address(chunk: str) -> str:
    """A mail or web address with its signs by name, without the scheme."""
    address = re.sub(r"^(https?|ftp|mailto):(//)?", "", chunk, flags=re.IGNORECASE).rstrip("/")
    return re.sub(rf"[^{_LETTERS}0-9]", lambda sign: f" {_IN_ADDRESS.get(sign.group(), '')} ", address)
