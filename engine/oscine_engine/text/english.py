"""English words to ARPAbet: dictionary, then inflection, compounds, spelled letters, and letter-to-sound rules."""

import re
import unicodedata
from functools import lru_cache

from oscine_engine.text import letter_sounds, lexicon
from oscine_engine.text.endings import CLITICS, PREFIXES, SUFFIXES, stems, with_s
from oscine_engine.text.heteronyms import reading
from oscine_engine.text.lexicon import Phones

LETTERS: dict[str, Phones] = {
    letter: tuple(sound.split())
    for letter, sound in zip(
        "abcdefghijklmnopqrstuvwxyz",
        (
            "EY1|B IY1|S IY1|D IY1|IY1|EH1 F|JH IY1|EY1 CH|AY1|JH EY1|K EY1|EH1 L|EH1 M|EH1 N|OW1|P IY1|K Y UW1|AA1 R|"
            "EH1 S|T IY1|Y UW1|V IY1|D AH1 B AH0 L Y UW0|EH1 K S|W AY1|Z IY1"
        ).split("|"),
        strict=True,
    )
}

# All-capital words of the dictionary that are nevertheless said letter by letter.
SPELLED = frozenset(
    "ai api atm bbc ceo cfo cia cnn cpu cto diy dna eu faq fbi gps gpu hr html http https id iq it jfk ko mba mri nba "
    "nfl ok pc pdf phd pm pr qr rsvp sms sos sql tv uk un url us usa usb vip vpn est pst cst gmt utc ba".split()
)

EXTRA: dict[str, Phones] = {
    word: tuple(sound.split())
    for word, sound in {
        "hmm": "HH AH1 M",
        "hm": "HH AH1 M",
        "mm": "AH1 M",
        "mhm": "AH0 M HH AH1 M",
        "ugh": "AH1 G",
        "uh": "AH1",
        "um": "AH1 M",
        "er": "ER1",
        "ah": "AA1",
        "shh": "SH AH1",
        "psst": "P S T",
        "brr": "B ER1",
        "ok": "OW2 K EY1",
        "okay": "OW2 K EY1",
        "wifi": "W AY1 F AY2",
        "th": "DH AH0",
        "miz": "M IH1 Z",
        "app": "AE1 P",
        "emoji": "IH0 M OW1 JH IY0",
        "blog": "B L AA1 G",
        "podcast": "P AA1 D K AE2 S T",
        "selfie": "S EH1 L F IY0",
        "houses": "HH AW1 Z IH0 Z",
        "y'all": "Y AO1 L",
        "covid": "K OW1 V IH0 D",
    }.items()
}

_VOWEL = re.compile(r"[aeiou]|y$")
_LONGEST_WORD = 32
"""Letters that are sounded out in one go; a longer run is cut, which bounds the search."""
_CAMEL = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+|[A-Z]")
_FOLD = str.maketrans(
    {
        "ø": "o",
        "Ø": "O",
        "ł": "l",
        "Ł": "L",
        "đ": "d",
        "Đ": "D",
        "ß": "ss",
        "æ": "ae",
        "Æ": "AE",
        "œ": "oe",
        "Œ": "OE",
        "þ": "th",
        "Þ": "Th",
        "ð": "th",
        "Ð": "Th",
        "ı": "i",
    }
)


def plain_letters(word: str) -> str:
    """`word` without accents and without anything but a-z, A-Z and apostrophes."""
    folded = unicodedata.normalize("NFKD", word.translate(_FOLD))
    return re.sub(r"[^A-Za-z']", "", folded)


def pronounce(word: str, before: str = "") -> list[Phones]:
    """Phones of one written word, as one or more spoken words.

    word: letters and apostrophes, case kept (capitals decide about spelling letter by letter).
    before: the word in front of it as written, for words whose sound depends on it.
    """
    word = plain_letters(word).strip("'")
    if not word:
        return []
    lower = word.lower()
    if len(word) > 1 and _capitals(word):
        shouting = len(before) > 1 and _capitals(before)
        if _is_spelled(word, shouting):
            return spell(word)
    known = reading(lower, before.lower()) or _known(lower)
    if known is not None:
        return [known]
    parts = [part for run in word.split("'") for part in _CAMEL.findall(run)]
    if len(parts) > 1 and "'" not in word:
        return [spoken for part in parts for spoken in (spell(part) if part.isupper() else [_sound(part.lower())])]
    return [_sound(lower)]


def spell(letters: str) -> list[Phones]:
    """Each letter by its name; a trailing 's (or small s) sounds on the last one."""
    names = [LETTERS[letter] for letter in letters.lower() if letter in LETTERS]
    if names and len(letters) > 2 and letters.endswith("s"):
        return [*names[:-2], with_s(names[-2])]
    return names


def _capitals(word: str) -> bool:
    """True for an acronym's shape: capitals, possibly with a plural or possessive s."""
    return re.sub(r"('?s)$", "", word).replace("'", "").isupper()


def _is_spelled(word: str, shouting: bool) -> bool:
    stem = re.sub(r"'?s$", "", word).lower()
    if stem in SPELLED:
        return not (shouting and stem in ("it", "us", "id", "un"))
    if stem in lexicon.shipped() or stem in EXTRA:
        return False
    return len(stem) <= 5 and not (shouting and _VOWEL.search(stem))


@lru_cache(maxsize=20000)
def _known(word: str) -> Phones | None:
    """Dictionary, or a dictionary word with an ending, a prefix or another dictionary word; None otherwise."""
    words = lexicon.shipped()
    if len(word) == 1:
        return LETTERS[word] if word != "a" else ("AH0",)
    found = EXTRA.get(word) or words.get(word)
    if found is not None:
        return found
    for clitic, sound in CLITICS:
        if word.endswith(clitic):
            return sound(_sound(word[: -len(clitic)]))
    if "'" in word:
        return _known(word.replace("'", ""))
    if word.endswith("in") and words.get(word + "g"):
        return (*(words.get(word + "g") or ())[:-1], "N")
    for suffix, sound in SUFFIXES:
        if word.endswith(suffix):
            for stem in stems(word, suffix):
                phones = words.get(stem)
                if phones is not None and len(stem) >= 3:
                    return sound(phones)
    for prefix, before in PREFIXES:
        rest = words.get(word[len(prefix) :]) if word.startswith(prefix) else None
        if rest is not None and len(word) >= len(prefix) + 4:
            return (*before, *rest)
    return _compound(word)


def _compound(word: str) -> Phones | None:
    """Two dictionary words of at least three letters, split as evenly as possible; the second gives up its stress."""
    words = lexicon.shipped()
    middle = len(word) / 2
    for cut in sorted(range(3, len(word) - 2), key=lambda position: abs(position - middle)):
        first, second = words.get(word[:cut]), words.get(word[cut:])
        if first is not None and second is not None:
            return (*first, *(phone.replace("1", "2") for phone in second))
    return None


def _sound(word: str) -> Phones:
    """Phones of any lower-case word; the last resort is the letter-to-sound model, or names where no vowel helps."""
    known = _known(word)
    if known is not None:
        return known
    bare = word.replace("'", "")
    if not _VOWEL.search(bare[1:]) and len(bare) <= 5:
        return tuple(phone for name in spell(bare) for phone in name)
    pieces = [bare[start : start + _LONGEST_WORD] for start in range(0, len(bare), _LONGEST_WORD)]
    # Nobody writes words of so many letters, and all other sessions wait while one is sounded out.
    roughly = len(pieces) > 2
    return tuple(phone for piece in pieces for phone in letter_sounds.sound_out(piece, roughly=roughly))
