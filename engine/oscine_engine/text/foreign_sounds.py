"""Letters of Russian, Japanese and Korean as the English sounds that come nearest, to find words in speech by.

Nobody is to say them so: models that read these scripts read the letters themselves. Kana and Hangul are taken apart by
their names in Unicode ("HIRAGANA LETTER SMALL TU", "HANGUL CHOSEONG KIYEOK").
"""

import re
import unicodedata
from functools import cache

from oscine_engine.text.sounds import sound

_CYRILLIC = dict(
    pair.split("=")
    for pair in (
        "а=AA б=B в=V г=G ґ=G д=D е=EH є=EH ё=OW ж=ZH з=Z и=IY і=IY ї=IY й=Y к=K л=L м=M н=N о=AO п=P р=R с=S т=T у=UW "
        "ф=F х=HH ц=T+S ч=CH ш=SH щ=SH ъ= ы=IH ь= э=EH ю=Y+UW я=Y+AA"
    ).split()
)
_VOWELS = {"A": "AA", "I": "IY", "U": "UW", "E": "EH", "O": "OW"}
_KANA = {
    "SI": "SH IY",
    "TI": "CH IY",
    "TU": "T S UW",
    "HU": "F UW",
    "ZI": "JH IY",
    "DI": "JH IY",
    "DU": "Z UW",
    "N": "N",
}
_KANA_FRONTS = {letter: "HH" if letter == "H" else letter for letter in "KGSZTDNHBPMYRWV"}
_HANGUL_VOWELS = {
    "EO": "AH",
    "EU": "UH",
    "AE": "EH",
    "OE": "W EH",
    "WE": "W EH",
    "WEO": "W AH",
    "WAE": "W EH",
    "WI": "W IY",
    "YI": "IY",
    "WA": "W AA",
    "YAE": "Y EH",
    "YEO": "Y AH",
    **_VOWELS,
}
_HANGUL_FRONTS = {
    "KIYEOK": "K",
    "NIEUN": "N",
    "TIKEUT": "T",
    "RIEUL": "L",
    "MIEUM": "M",
    "PIEUP": "P",
    "SIOS": "S",
    "CIEUC": "JH",
    "CHIEUCH": "CH",
    "KHIEUKH": "K",
    "THIEUTH": "T",
    "PHIEUPH": "P",
    "HIEUH": "HH",
    "IEUNG": "NG",
}
_KANA_NAME = re.compile(r"(?:HIRAGANA|KATAKANA) LETTER (?:SMALL )?([A-Z]+)")
_CHANGING = "っッー"
"""They make the sound beside them longer."""


@cache
def foreign_sounds(letter: str) -> tuple[int, ...] | None:
    """The sounds of one letter, by number; none for a sign that only changes others. None for other scripts."""
    small = letter.lower()
    if small in _CYRILLIC:
        return _numbers(_CYRILLIC[small].replace("+", " "))
    if letter in _CHANGING:
        return ()
    if (kana := _KANA_NAME.fullmatch(unicodedata.name(letter, ""))) is not None:
        return _numbers(_kana(kana.group(1)))
    jamo = [unicodedata.name(part, "") for part in unicodedata.normalize("NFD", letter)]
    if all(name.startswith("HANGUL ") for name in jamo):
        return _numbers(" ".join(map(_jamo, jamo)))
    return None


def _kana(name: str) -> str:
    if name in _KANA:
        return _KANA[name]
    return " ".join((*(_KANA_FRONTS.get(front, "") for front in name[:-1]), _VOWELS.get(name[-1], "")))


def _jamo(name: str) -> str:
    kind, _, letter = name.removeprefix("HANGUL ").partition(" ")
    if kind == "JUNGSEONG":
        return _HANGUL_VOWELS.get(letter) or f"Y {_VOWELS.get(letter[1:], '')}"
    if kind == "CHOSEONG" and letter == "IEUNG":
        return ""
    return _HANGUL_FRONTS.get(letter.split("-")[0].removeprefix("SSANG"), "")


def _numbers(names: str) -> tuple[int, ...]:
    return tuple(number for name in names.split() if (number := sound(f"[{name}]")) is not None)
