"""Text that arrives in pieces, as ids that later pieces can no longer change."""

from oscine_engine.text.render import Renderer
from oscine_engine.text.scan import Scanner
from oscine_engine.text.verbalise import Verbaliser


class WordStream:
    """One segment's text in, ids out: characters -> tokens -> items -> ids, each stage holding back what it must.

    The unfinished word, numbers that may go on, abbreviations whose full stop may end a sentence, Chinese characters
    that a longer phrase may read differently, and pauses that may grow are held back. For every way of cutting a text
    the concatenated ids are those of one push and finish.
    """

    def __init__(self, renderer: Renderer) -> None:
        self._scanner = Scanner()
        self._verbaliser = Verbaliser()
        self._renderer = renderer

    def push(self, text: str) -> list[int]:
        """Ids settled by `text`."""
        return self._renderer.push(self._verbaliser.push(self._scanner.push(text)))

    def finish(self) -> list[int]:
        """Ids of everything held back; the stream is as new afterwards."""
        ids = self._renderer.push(self._verbaliser.push(self._scanner.finish()) + self._verbaliser.finish())
        return ids + self._renderer.finish()
