"""How written words, addresses and codes are said, apart from what stands around them."""

import re

from oscine_engine.text import numbers_en
from oscine_engine.text.items import Item, Spoken, words

TITLES = {
    "mr": "mister",
    "mrs": "missus",
    "ms": "miz",
    "dr": "doctor",
    "prof": "professor",
    "st": "saint",
    "mt": "mount",
    "jr": "junior",
    "sr": "senior",
    "vs": "versus",
    "approx": "approximately",
    "dept": "department",
    "gen": "general",
    "capt": "captain",
    "sgt": "sergeant",
    "rev": "reverend",
    "fig": "figure",
    "ext": "extension",
    "rm": "room",
    "apt": "apartment",
    "ave": "avenue",
    "jan": "January",
    "feb": "February",
    "apr": "April",
    "aug": "August",
    "sep": "September",
    "sept": "September",
    "oct": "October",
    "nov": "November",
    "dec": "December",
    "tues": "Tuesday",
    "wed": "Wednesday",
    "thurs": "Thursday",
}
"""Shortened words, in full only before a full stop (except ALWAYS_TITLES)."""
ALWAYS_TITLES = frozenset({"mr", "mrs", "dr", "vs", "prof"})
WHOLE = {
    "e.g": "for example",
    "i.e": "that is",
    "w/o": "without",
    "24/7": "twenty four seven",
    "etc": "et cetera",
    "'n": "and",
    "wi-fi": "wifi",
    "e-mail": "email",
    "&": "and",
    "@": "at",
    "%": "percent",
    "+": "plus",
    "$": "dollars",
    "£": "pounds",
    "€": "euros",
    "°c": "degrees Celsius",
    "°f": "degrees Fahrenheit",
    "°": "degrees",
    "¥": "yuan",
}
"""Whole chunks, in lower case, and what is said for them."""
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
    "'": "",
}
_SENTENCE_EDGE = re.compile(r"[A-Za-z0-9]*[a-z0-9][.:][A-Z][A-Za-z']*")
_LETTERS = r"A-Za-z\u00aa-\u024f\u0300-\u036f\u1e00-\u1eff"


def of_letters(chunk: str) -> str:
    """A chunk of letters and joiners: an address is read out, anything else falls into its words."""
    if "@" in chunk or "://" in chunk or re.search(r"\w\.\w", chunk):
        if _SENTENCE_EDGE.fullmatch(chunk):
            return re.sub(r"[.:]", ". ", chunk)
        return _address(chunk)
    spaced = chunk.replace("&", " and ").replace("+", " plus ").replace(":", ", ").replace(",", ", ")
    return re.sub(rf"[^{_LETTERS}', ]", " ", spaced)


def with_digits(chunk: str) -> list[Item]:
    """Letters with digits, or a number shape nobody knows: each run on its own, short capitals by their names."""
    if re.search(r"[A-Za-z]\.[A-Za-z]|@|://", chunk):
        return words(re.sub(r"\d+", lambda run: f" {numbers_en.cardinal(run.group())} ", _address(chunk)))
    parts = re.findall(r"[A-Za-z\u00c0-\u024f']+|\d[\d,]*(?:\.\d+)?|[%°&@+:,/]", chunk)
    coded = any(part[0].isalpha() for part in parts)
    spoken: list[Item] = []
    for part in parts:
        if part[0].isdigit():
            digits = part.rstrip(",")
            by_digit = digits.isdigit() and len(digits) > (2 if coded else 4)
            spoken += words(numbers_en.by_digit(digits) if by_digit else numbers_en.decimal(digits))
        elif part.isupper() and len(part) <= 3 or len(part) == 1 and part.isalpha():
            spoken.append(Item(Spoken.LETTERS, part))
        elif part not in (":", ",", "/"):
            spoken += words(WHOLE.get(part.lower(), part))
        spoken.append(Item(Spoken.BLANK, " "))
    return spoken[:-1]


def _address(chunk: str) -> str:
    """A mail or web address with its signs by name, without the scheme."""
    address = re.sub(r"^https?://", "", chunk, flags=re.IGNORECASE)
    return re.sub(rf"[^{_LETTERS}0-9]", lambda sign: f" {_IN_ADDRESS.get(sign.group(), '')} ", address)
