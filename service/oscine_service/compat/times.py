"""Word times, as dialects tell them."""

from oscine_service.conversation import Word


def heard(word: Word) -> str:
    """A word with the punctuation that touches it: "Hello,"."""
    touching = word.behind.split(None, 1)[0] if word.behind[:1].strip() else ""
    return word.text + touching
