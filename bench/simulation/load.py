"""Who calls when, and what for: Poisson arrivals of utterances like those of Seed-TTS."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

IDS_PER_S = 25
TEXT_IDS_PER_S = 4.0
"""Text ids for a second of English speech."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """arrives: seconds. ids: speech ids it will have. text_rate: text ids a second, None for all at once."""

    arrives: float
    ids: int
    text_rate: float | None = None

    @property
    def text_ids(self) -> int:
        return max(5, round(self.ids / IDS_PER_S * TEXT_IDS_PER_S))


@dataclass(frozen=True, slots=True)
class Load:
    """rate: arrivals a second. mean_s and spread: a log-normal of durations, whose logarithm deviates by `spread`.

    The English sentences of Seed-TTS take 4.4 s on average; about 1.5 to 11 s is what such a list holds.
    """

    rate: float
    seconds: float
    mean_s: float = 4.4
    spread: float = 0.4
    shortest_s: float = 1.0
    longest_s: float = 15.0
    text_rate: float | None = None

    def utterances(self, rng: random.Random) -> Iterator[Utterance]:
        at = rng.expovariate(self.rate)
        while at < self.seconds:
            drawn = self.mean_s * math.exp(rng.gauss(0.0, self.spread) - self.spread**2 / 2)
            seconds = min(max(drawn, self.shortest_s), self.longest_s)
            yield Utterance(at, max(1, round(seconds * IDS_PER_S)), self.text_rate)
            at += rng.expovariate(self.rate)
