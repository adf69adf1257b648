"""How English inflection sounds: the regular endings after a known stem, in ARPAbet."""

from collections.abc import Callable

from oscine_engine.text.lexicon import Phones

_SIBILANTS = frozenset({"S", "Z", "SH", "ZH", "CH", "JH"})
_VOICELESS = frozenset({"P", "T", "K", "F", "TH", "S", "SH", "CH", "HH"})


def with_s(stem: Phones) -> Phones:
    """Plural, possessive and third person: S after voiceless, Z after voiced, IH0 Z after a sibilant."""
    if stem[-1] in _SIBILANTS:
        return (*stem, "IH0", "Z")
    return (*stem, "S" if stem[-1] in _VOICELESS else "Z")


def with_d(stem: Phones) -> Phones:
    """Past tense: T, D, or IH0 D after T and D."""
    if stem[-1] in ("T", "D"):
        return (*stem, "IH0", "D")
    return (*stem, "T" if stem[-1] in _VOICELESS else "D")


def _plus(*phones: str) -> Callable[[Phones], Phones]:
    return lambda stem: (*stem, *phones)


CLITICS: tuple[tuple[str, Callable[[Phones], Phones]], ...] = (
    ("'s", with_s),
    ("n't", _plus("AH0", "N", "T")),
    ("'ll", _plus("AH0", "L")),
    ("'ve", _plus("AH0", "V")),
    ("'re", _plus("ER0")),
    ("'d", with_d),
    ("'m", _plus("AH0", "M")),
)
"""What an apostrophe attaches to any stem."""

SUFFIXES: tuple[tuple[str, Callable[[Phones], Phones]], ...] = (
    ("ing", _plus("IH0", "NG")),
    ("ings", _plus("IH0", "NG", "Z")),
    ("ed", with_d),
    ("s", with_s),
    ("es", with_s),
    ("er", _plus("ER0")),
    ("ers", _plus("ER0", "Z")),
    ("est", _plus("AH0", "S", "T")),
    ("ly", _plus("L", "IY0")),
    ("ness", _plus("N", "AH0", "S")),
    ("less", _plus("L", "AH0", "S")),
    ("ful", _plus("F", "AH0", "L")),
    ("able", _plus("AH0", "B", "AH0", "L")),
    ("ment", _plus("M", "AH0", "N", "T")),
    ("y", _plus("IY0")),
    ("ish", _plus("IH0", "SH")),
    ("like", _plus("L", "AY2", "K")),
)
"""Suffix -> what it does to the stem's sound."""

PREFIXES: tuple[tuple[str, Phones], ...] = (
    ("un", ("AH0", "N")),
    ("re", ("R", "IY0")),
    ("non", ("N", "AA0", "N")),
    ("over", ("OW2", "V", "ER0")),
    ("under", ("AH2", "N", "D", "ER0")),
    ("pre", ("P", "R", "IY0")),
    ("mis", ("M", "IH0", "S")),
    ("out", ("AW2", "T")),
    ("anti", ("AE2", "N", "T", "IY0")),
    ("multi", ("M", "AH2", "L", "T", "IY0")),
    ("micro", ("M", "AY2", "K", "R", "OW0")),
    ("inter", ("IH2", "N", "T", "ER0")),
    ("super", ("S", "UW2", "P", "ER0")),
    ("dis", ("D", "IH0", "S")),
)


def stems(word: str, suffix: str) -> tuple[str, ...]:
    """Spellings that `word` may have had before `suffix`: plain, with a dropped e, with a doubled last letter,
    with y turned into i."""
    cut = word[: len(word) - len(suffix)]
    if len(cut) < 2:
        return ()
    found = [cut]
    if suffix[0] in "eaiy":
        found.append(cut + "e")
        if cut[-1] == cut[-2] and cut[-1] not in "aeiou":
            found.append(cut[:-1])
    if cut[-1] == "i" and suffix not in ("s", "ing", "y", "ish"):
        found.append(cut[:-1] + "y")
    if suffix == "es":
        found = [spelling for spelling in found if spelling[-1] in "sxzohy"]
    return tuple(found)
