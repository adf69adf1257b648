"""Can the model read these words, and can they take that long? If not, they ruin a voice without any other sign."""

import re
import unicodedata

from oscine_engine.config import FrontEnd
from oscine_engine.errors import InvalidInput
from oscine_engine.text.front_end import unread

SLOWEST, FASTEST = 1.0, 11.0
"""Syllables in a second of speech, pauses not counted: people speak between 2 and 8."""
LETTERS_A_SYLLABLE = 2.5
"""Of scripts that are neither Latin nor written by syllables."""
MOST_SHOWN, LONGEST_SHOWN = 5, 20
"""Words of a transcript that cannot be read, and letters of each, in a message about them."""

_VOWELS = re.compile(r"[aeiouy]+")
_NUMBER_SYLLABLES = 2
"""Of a digit as it is read within a number, roughly."""


def syllables(text: str) -> float:
    """About how many syllables `text` has when it is read out."""
    folded = unicodedata.normalize("NFKD", text).casefold()
    latin = "".join(char if "a" <= char <= "z" else " " for char in folded if not unicodedata.combining(char))
    count = float(sum(max(1, len(_VOWELS.findall(word))) for word in latin.split()))
    for char in unicodedata.normalize("NFC", text):
        if char.isdigit():
            count += _NUMBER_SYLLABLES
        elif _is_syllable(char):
            count += 1
        elif char.isalpha() and not unicodedata.name(char, "").startswith("LATIN"):
            count += 1 / LETTERS_A_SYLLABLE
    return count


def check_letters(text: str, rules: FrontEnd, field: str = "transcript") -> None:
    """Raises InvalidInput that names `field` if a model with these text rules would leave out letters of `text`: what
    is said of the recording, and not read, is speech that the voice believes to be said already."""
    if found := unread(rules, text):
        shown = ", ".join(repr(letters[:LONGEST_SHOWN]) for letters in dict.fromkeys(found[:MOST_SHOWN]))
        more = " and more" if len(found) > MOST_SHOWN else ""
        raise InvalidInput(
            f"{field}: this model has no way to read {shown}{more}; leave the transcript out, or write what is said in "
            "letters that it reads"
        )


def check(text: str, speech_s: float) -> None:
    """Raises InvalidInput if `text` cannot be what is said in so many seconds of speech."""
    count = syllables(text)
    if not count:
        raise InvalidInput("the transcript has no words; write what is said in the recording, or leave it out")
    pace = count / speech_s
    if not SLOWEST <= pace <= FASTEST:
        much = "long" if pace > FASTEST else "short"
        raise InvalidInput(
            f"the transcript is too {much} for the recording: about {count:.0f} syllables for {speech_s:.1f} s of "
            "speech; write exactly what is said in it, all of it and nothing else"
        )


def _is_syllable(char: str) -> bool:
    """Han, kana and Hangul are written by the syllable."""
    return (
        "\u3040" <= char <= "\u30ff"
        or "\u3400" <= char <= "\u9fff"
        or "\uac00" <= char <= "\ud7af"
        or "\U00020000" <= char <= "\U0003ffff"
    )
