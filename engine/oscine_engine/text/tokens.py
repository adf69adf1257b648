"""Questions about written tokens that several readers ask."""

from oscine_engine.text.scan import Kind, Token


def is_blank(token: Token) -> bool:
    """A blank, but not a newline."""
    return token.kind is Kind.GAP and token.text == " "


def significant(queue: list[Token], at: int) -> Token | None:
    """The first token from `at` on that is no blank."""
    return next((token for token in queue[at:] if not is_blank(token)), None)


def position(queue: list[Token], at: int) -> int:
    """Where that token stands; the length of the queue when there is none."""
    while at < len(queue) and is_blank(queue[at]):
        at += 1
    return at


def has_digits(chunk: str) -> bool:
    """True for a chunk with an ordinary digit; raised and lowered ones are none."""
    return any("0" <= c <= "9" for c in chunk)


def has_letters(chunk: str) -> bool:
    """True for a chunk with a Latin letter."""
    return any(c.isalpha() for c in chunk)


def is_word(token: Token | None) -> bool:
    """A chunk that begins with a letter."""
    return token is not None and token.kind is Kind.CHUNK and token.text[:1].isalpha()
