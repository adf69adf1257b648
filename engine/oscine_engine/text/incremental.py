"""Text that arrives in pieces, as ids that later pieces can no longer change."""

import math
from collections.abc import Sequence

from oscine_engine.text.context import Language
from oscine_engine.text.items import Item
from oscine_engine.text.origins import Origin
from oscine_engine.text.pieces import LONGEST_S, Cutter
from oscine_engine.text.render import Renderer
from oscine_engine.text.scan import Scanner
from oscine_engine.text.verbalise import Verbaliser
from oscine_engine.text.word_sounds import Word, WordReader


class PieceStream:
    """One sentence's text in, ids out: characters -> tokens -> items -> pieces -> ids, each stage holding back what it
    must.

    The unfinished word, numbers that may go on, abbreviations whose full stop may end a sentence, Chinese characters
    that a longer phrase may read differently, and pauses that may grow are held back. For every way of cutting a text
    the pieces and their concatenated ids are those of one push and finish.

    words: those settled by the last call, a list for each of the pieces that it gave; all empty without a reader.
    """

    def __init__(
        self,
        renderer: Renderer,
        longest_s: float = LONGEST_S,
        reader: WordReader | None = None,
        language: Language = "",
    ) -> None:
        self._scanner = Scanner()
        self._verbaliser = Verbaliser(sources=reader is not None, language=language)
        self._cutter = Cutter(longest_s)
        self._renderer = renderer
        self._reader = reader
        self.words: list[list[Word]] = []

    def push(self, text: str, origins: Sequence[Origin] = ()) -> list[list[int]]:
        """Ids settled by `text`: the first list goes on with the open piece, every further one is a new piece.

        origins: of `text`; they show in the words.
        """
        tokens = self._scanner.push(text, () if self._reader is None else origins)
        return self._render(self._verbaliser.push(tokens))

    def finish(self) -> list[list[int]]:
        """Ids of everything held back, as from `push`; the stream is as new afterwards."""
        pieces = self._render(self._verbaliser.push(self._scanner.finish()) + self._verbaliser.finish())
        self._finish(pieces)
        self._cutter.reset()
        return pieces

    def _render(self, items: list[Item]) -> list[list[int]]:
        pieces: list[list[int]] = []
        self.words = []
        for run in self._cutter.push(items):
            if pieces:
                self._finish(pieces)
            pieces.append(self._renderer.push(run))
            self.words.append([] if self._reader is None else self._reader.push(run))
        return pieces

    def _finish(self, pieces: list[list[int]]) -> None:
        """The last piece is complete."""
        pieces[-1] += self._renderer.finish()
        if self._reader is not None:
            self.words[-1] += self._reader.finish()


class WordStream:
    """The same for a text that is one piece, however long."""

    def __init__(self, renderer: Renderer) -> None:
        self._pieces = PieceStream(renderer, math.inf)

    def push(self, text: str) -> list[int]:
        """Ids settled by `text`."""
        (ids,) = self._pieces.push(text)
        return ids

    def finish(self) -> list[int]:
        """Ids of everything held back; the stream is as new afterwards."""
        (ids,) = self._pieces.finish()
        return ids
