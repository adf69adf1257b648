"""Sentences whose lengths are distributed like those of Seed-TTS English, for models that speak by the word."""

from __future__ import annotations

import math
import random

from oscine_engine.text.words import IDS_PER_WORD, WORDS

MEDIAN_S, SPREAD = 4.1, 0.32
"""Of a lognormal distribution; rounded to whole words its mean is 4.4 s."""
SHORTEST_S, LONGEST_S = 1.6, 9.6
IDS_PER_S = 25


def utterance(number: int) -> str:
    """Sentence `number` of an endless list, which is always the same."""
    draw = random.Random(number)
    seconds = min(max(MEDIAN_S * math.exp(draw.gauss(0, SPREAD)), SHORTEST_S), LONGEST_S)
    # The full stop is an id as well.
    return spoken(number, max(2, round(seconds * IDS_PER_S / IDS_PER_WORD)) - 1)


def spoken(number: int, words: int) -> str:
    """A sentence of so many words."""
    draw = random.Random(-1 - number)
    return " ".join(draw.choice(WORDS) for _ in range(words)) + "."
