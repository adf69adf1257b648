"""Letter-to-sound for words that no dictionary has: an n-gram model over (letter, phones) pairs with beam search.

Each letter says zero to two phones; the model gives the probability of each such pair after the pairs before it
(back-off n-grams, after Bisani and Ney's joint-sequence models, 2008). `training/text/train_letter_sounds.py` makes
the data. Unpacked on first use (about 0.2 s), then a few milliseconds a word, remembered.
"""

import lzma
import math
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from oscine_engine.text.lexicon import Phones

START, END = "\x01", "\x02"
FIRST_PAIR = 0x21
"""Pair n of the table is written as chr(FIRST_PAIR + n)."""
STEP = 0.1
"""Log probabilities are stored in steps of this many nats."""
_BEAM, _NARROW = 24, 3
"""Hypotheses kept for each letter of a word, and of a run of letters that is none."""


@dataclass(frozen=True, slots=True)
class Model:
    """Back-off n-grams over pairs, each written as one character."""

    order: int
    phones: dict[str, Phones]
    """Pair -> what it says."""
    by_letter: dict[str, tuple[str, ...]]
    """Letter -> its pairs."""
    log_probability: dict[str, float]
    backoff: dict[str, float]

    def score(self, history: str, pair: str) -> float:
        """Natural log of the probability of `pair` after `history`."""
        context = history[-(self.order - 1) :]
        penalty = 0.0
        while True:
            found = self.log_probability.get(context + pair)
            if found is not None:
                return penalty + found
            if not context:
                return penalty - 20.0
            penalty += self.backoff.get(context, 0.0)
            context = context[1:]


def unpack(packed: bytes) -> Model:
    """Read the compressed form: order, pair table, n-grams, then a byte for each probability and each back-off."""
    head, grams, probabilities, backoffs = lzma.decompress(packed).split(b"\0\0")
    order, *table = head.decode("ascii").split("\n")
    pairs = {chr(FIRST_PAIR + n): entry for n, entry in enumerate(table)}
    by_letter: dict[str, list[str]] = {}
    for pair, entry in pairs.items():
        by_letter.setdefault(entry[0], []).append(pair)
    keys = grams.decode("utf-8").split("\n")
    return Model(
        order=int(order),
        phones={pair: tuple(entry[1:].split()) for pair, entry in pairs.items()},
        by_letter={letter: tuple(of) for letter, of in by_letter.items()},
        log_probability={key: -STEP * (code - 1) for key, code in zip(keys, probabilities, strict=True)},
        backoff={key: STEP * (code - 128) for key, code in zip(keys, backoffs, strict=True) if code != 128},
    )


@cache
def shipped() -> Model:
    """The model that comes with this package."""
    return unpack(files(__package__).joinpath("data/letter_sounds.xz").read_bytes())


@lru_cache(maxsize=10000)
def sound_out(word: str, *, roughly: bool = False) -> Phones:
    """Most probable phones of a lower-case word of the letters a to z. roughly: nearly so, in a fifth of the time."""
    return decode(shipped(), word, _NARROW if roughly else _BEAM)


def decode(model: Model, word: str, beam: int = _BEAM) -> Phones:
    """Beam search for the best pair sequence that spells `word`."""
    beams: list[tuple[float, str]] = [(0.0, START)]
    for letter in word:
        grown: dict[str, tuple[float, str]] = {}
        for score, history in beams:
            for pair in model.by_letter[letter]:
                total = score + model.score(history, pair)
                # Hypotheses that the model can no longer tell apart are merged: the best one stays.
                key = (history + pair)[-(model.order - 1) :]
                if key not in grown or total > grown[key][0]:
                    grown[key] = (total, history + pair)
        beams = sorted(grown.values(), reverse=True)[:beam]
    best = max((score + model.score(history, END), history) for score, history in beams)[1]
    spoken = [phone for pair in best[1:] for phone in model.phones[pair]]
    return _stressed(tuple(spoken))


def _stressed(spoken: Phones) -> Phones:
    """At least one primary stress: where the model gave none, the first vowel gets it."""
    if any(phone.endswith("1") for phone in spoken):
        return spoken
    vowel = next((n for n, phone in enumerate(spoken) if phone[-1].isdigit()), None)
    if vowel is None:
        return spoken
    return (*spoken[:vowel], spoken[vowel][:-1] + "1", *spoken[vowel + 1 :])


def log_code(value: float) -> int:
    """Byte for a log probability (never 0, so that sections can be told apart)."""
    return min(255, max(1, 1 + round(-value / STEP)))


def backoff_code(value: float) -> int:
    """Byte for a back-off weight's log; 128 is none."""
    return min(255, max(1, 128 + round(value / STEP))) if math.isfinite(value) else 1
