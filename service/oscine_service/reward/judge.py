"""Speech and what it should have said -> a reward.

    error rate   English: words. Mandarin: syllables with their tones, so that homophones are as good as right.
    reward       1 - tanh(3 * error rate): 1 for all understood, 0.36 where a quarter is wrong, 0.005 where all is

It is the reward that CosyVoice's own recipe tunes its language model by.
"""

import math
import threading
from dataclasses import dataclass

from oscine_engine.errors import InvalidInput
from oscine_service.listening.recogniser import Language, Recogniser, Samples
from oscine_service.listening.scoring import edits, syllables, words

STEEPNESS = 3.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """heard: what the recogniser wrote. units: words or syllables that were wanted; edits: how many are wrong."""

    reward: float
    error_rate: float
    edits: int
    units: int
    language: Language
    heard: str


def reward(error_rate: float) -> float:
    """From 1 at 0 down towards 0; an error rate may be above 1."""
    return 1.0 - math.tanh(STEEPNESS * error_rate)


def language_of(text: str) -> Language:
    """Mandarin as soon as there is a Chinese character."""
    return "zh" if any("\u4e00" <= char <= "\u9fff" for char in text) else "en"


def units(language: Language, text: str) -> list[str]:
    """What one error counts."""
    return words(text) if language == "en" else syllables(text, tones=True)


class Judge:
    """May be asked from `workers` threads at once. Loads a recogniser when its language is first asked for, or before
    that by `load`. Raises MissingPackage where the packages that it listens with are not installed."""

    def __init__(self, workers: int = 1) -> None:
        self._workers = workers
        self._recognisers: dict[Language, Recogniser] = {}
        self._loading = threading.Lock()

    def load(self, language: Language) -> Recogniser:
        with self._loading:
            if language not in self._recognisers:
                self._recognisers[language] = Recogniser(language, workers=self._workers)
            return self._recognisers[language]

    def __call__(self, samples: Samples, rate: int, text: str, language: Language | None = None) -> Verdict:
        """Of mono samples in [-1, 1]. language: None is told from the text. Raises InvalidInput for no words."""
        language = language or language_of(text)
        wanted = units(language, text)
        if not wanted:
            raise InvalidInput("text: it has no words that could be heard; send what the speech should say")
        heard = self.load(language).transcribe(samples, rate)
        wrong = edits(units(language, heard), wanted)
        rate_of_errors = wrong / len(wanted)
        return Verdict(reward(rate_of_errors), rate_of_errors, wrong, len(wanted), language, heard)
