"""New utterances from pieces of recorded ones, cut where words meet.

A language model that only ever hears the corpus' sentences learns them by heart, since what was said so far tells what
comes next. In a spliced utterance it does not: the next word is known from the text alone. Pieces are of one voice; the
first is the beginning of a clip, the last the end of one, so that edges, their silence and their marks stay natural.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from training.data import Corpus

Word = tuple[int, int, int, int]
"""(text start, text end, token start, token end) within a clip, half-open."""

PIECE_WORDS, PIECES = 3.0, 2.0
"""Mean words of a piece and mean number of inner pieces; both drawn geometrically."""


def read_words(path: Path, corpus: Corpus) -> list[list[Word]]:
    """Words of every clip of `corpus`, as `training.align` wrote them; empty for a clip that it left out."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found = json.load(file)
    return [[(a, b, c, d) for a, b, c, d in found.get(clip["id"], [])] for clip in corpus.clips]


class Splicer:
    """Draws utterances of one voice from the clips that have at least two words."""

    def __init__(
        self, corpus: Corpus, tokens: npt.NDArray[np.int16], words: list[list[Word]], clips: npt.NDArray[np.int64]
    ) -> None:
        self._corpus, self._tokens, self._words = corpus, tokens, words
        self._clips = [int(clip) for clip in clips if len(words[clip]) > 1]
        if not self._clips:
            raise ValueError("no clip to splice from has two aligned words")

    def draw(self, rng: np.random.Generator) -> tuple[list[int], list[int]]:
        """Text ids and speech ids of a new utterance."""
        text: list[int] = []
        speech: list[int] = []
        inner = int(rng.geometric(1 / (1 + PIECES))) - 1
        for place in range(inner + 2):
            clip = self._clips[int(rng.integers(len(self._clips)))]
            words = self._words[clip]
            # Only the last piece may hold a clip's last word, whose tone and mark say that the sentence ends.
            count = min(int(rng.geometric(1 / PIECE_WORDS)), len(words) - 1)
            if place == 0:
                first = 0
            elif place == inner + 1:
                first = len(words) - count
            else:
                first = int(rng.integers(len(words) - count))
            text_start, token_start = words[first][0], words[first][2]
            text_end, token_end = words[first + count - 1][1], words[first + count - 1][3]
            text += self._corpus.text_of(clip)[text_start:text_end]
            at = self._corpus.starts[clip]
            speech += self._tokens[at + token_start : at + token_end].tolist()
        return text, speech
