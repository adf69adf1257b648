"""Units that a blank parts from their number, with or without a full stop of their own: "5 km", "5 ft. tall"."""

from oscine_engine.text.scan import Kind, Token
from oscine_engine.text.tokens import is_word, position, significant
from oscine_engine.text.units import APART, DOTTED, UNITS, Unit, per

_ENDS = ".,;)!?\n"
_AFTER_INCHES = frozenset("tall wide long by".split())
_FLUID_OUNCE = Unit("fluid ounce", "fluid ounces", "液盎司")


class NotYet(Exception):
    """Whether there is a unit hangs on tokens that are not here yet."""


def unit_apart(queue: list[Token], start: int, final: bool, chinese: bool) -> tuple[Unit, int] | None:
    """The unit at `start`, and where the text goes on behind it and its full stop; None when it is no unit."""
    sign, end = queue[start].text, start + 1
    if sign in ("sq", "fl"):
        return _two_words(queue, sign, end, final)
    if sign in DOTTED and end == len(queue) and not final:
        raise NotYet
    dotted = _is_dot(queue, end)
    if sign == "s" and _Behind(queue, end, final).ends:
        return UNITS["s"], end
    if sign in DOTTED and (dotted or sign in APART):
        unit = per(DOTTED[sign])
    else:
        unit = per(sign) if sign in APART or "/" in sign else None
    if unit is None or (len(sign) == 1 and _is_initial(queue, end, final, chinese)):
        return None
    if not dotted or sign not in DOTTED:
        return unit, end
    behind = _Behind(queue, end + 1, final)
    if sign == "in" and is_word(behind.token) and behind.text not in _AFTER_INCHES:
        return None
    return unit, end + behind.goes_on


class _Behind:
    """The next token that is no blank."""

    def __init__(self, queue: list[Token], at: int, final: bool) -> None:
        self.token = significant(queue, at)
        if self.token is None and not final:
            raise NotYet
        self.text = self.token.text if self.token is not None else ""
        self.is_chunk = self.token is not None and self.token.kind is Kind.CHUNK
        self.ends = self.token is None or (self.token.kind is Kind.GAP and self.text in _ENDS)
        self.goes_on = self.token is not None and self.token.kind is not Kind.GAP and not self.text[:1].isupper()
        """A full stop in front of it ends no sentence."""


def _is_dot(queue: list[Token], at: int) -> bool:
    return at < len(queue) and queue[at].text == "."


def _is_initial(queue: list[Token], end: int, final: bool, chinese: bool) -> bool:
    """A single letter is rather a name than a unit: 55 W. 5th Avenue, 45 W 34th Street."""
    if _is_dot(queue, end) and _Behind(queue, end + 1, final).is_chunk:
        return True
    if chinese:
        return False
    behind = _Behind(queue, end, final)
    return behind.is_chunk and not behind.text[0].islower()


def _two_words(queue: list[Token], sign: str, end: int, final: bool) -> tuple[Unit, int] | None:
    """ "sq ft", "sq. m", "fl oz"."""
    start = position(queue, end + _is_dot(queue, end))
    if start == len(queue):
        if not final:
            raise NotYet
        return None
    unit = UNITS.get(queue[start].text + "²") if sign == "sq" else _FLUID_OUNCE
    if unit is None or (sign == "fl" and queue[start].text != "oz"):
        return None
    end = start + 1
    return unit, end + (_is_dot(queue, end) and _Behind(queue, end + 1, final).goes_on)
