"""Messages to one coherent character stream.

Pieces are simply put one after another: blanks are taken as sent, and words are never glued or parted here, so half
words, single characters and tokens with leading blanks all join. What a message border can break is a character that
is two UTF-16 units; its halves are held until both are here.
"""


class Joiner:
    """Joins messages; never hands out half a character."""

    def __init__(self) -> None:
        self._half = ""

    @property
    def waiting(self) -> bool:
        """Half a character is held."""
        return bool(self._half)

    def push(self, message: str) -> str:
        """The joined text that `message` completes. Halves that stay alone are dropped, NUL too."""
        text = self._half + message
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        if any("\ud800" <= c <= "\udfff" for c in text):
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
        return text.replace("\0", "")

    def finish(self) -> None:
        """The stream ended; a half character that waits is dropped."""
        self._half = ""
