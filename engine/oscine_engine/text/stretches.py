"""Numbers that belong together though blanks or signs part them: telephone numbers, sums, ranges, mixed fractions.

"+1 415 555 0100" is one number, "10 - 4 = 6" one sum, "5 – 10" one range. A stretch is a run of chunks with digits and
what may stand between them; what follows it must be known before any of it is read.
"""

import re
from collections.abc import Callable

from oscine_engine.text import numbers_en, numbers_zh
from oscine_engine.text.scan import Kind, Token
from oscine_engine.text.units import SIGNS, UNITS

_LONGEST = 12
"""Chunks of one stretch: a longer list of numbers is read from its beginning."""
_BETWEEN = frozenset(" -—~×÷*^<>≤≥≈≠±=→/·")
_TIMES = ("x", "X")
_PLAIN = re.compile(r"[-+'#]?[$£€¥₹]?\d[\d.,:/+'-]*[%‰⁰¹²³⁴-⁹⁺⁻]*|[+]|[-+]?\d+(?:\.\d+)?°?[a-zA-Z]{1,4}")
_PHONES = tuple(
    re.compile(shape)
    for shape in (
        r"\+\d{1,3}(?:[ -]\(?\d{1,4}\)?)?(?:[ -]\d{2,})+",
        r"\+\d{1,3} \d{6,}",
        r"\(\d{2,5}\)[ -]?\d{3,4}[ -]?\d{3,4}",
        r"\d{3} \d{3} \d{4}",
        r"0\d{1,3}(?: \d{3,4}){1,3}",
        r"\d{3}[ -]\d{4}[ -]\d{4}",
        r"[48]00[ -]\d{3,4}[ -]\d{3,4}",
        r"\d{4} \d{4} \d{4} \d{4}",
    )
)
_SPELLED = re.compile(r"\d{2,}(?:[ -]\d{2,})+")
_OPERAND = r"[-+]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:[%‰]|[⁰¹²³⁴-⁹⁺⁻ⁿ]+|[a-z](?![a-z]))?"
_OPERATOR = r"\s*[-+×÷*^<>≤≥≈≠±=/:]\s*"
_SUM = re.compile(rf"({_OPERAND})((?:{_OPERATOR}{_OPERAND})+)")
_STEP = re.compile(rf"({_OPERATOR})({_OPERAND})")
_MEMORIAL = re.compile(r"\d{1,2}·\d{1,2}")
"""A day that gave something its name: 3·15."""
_MIXED = re.compile(r"(\d+) (\d+/\d+)")
_RANGE = re.compile(
    r"([$£€¥]?\d[\d,.:]*%?|-?\d[\d,.]*°[CF]?)\s*[-—~→]\s*([$£€¥]?\d[\d,.:]*(?:%|°?[A-Za-z]+)?|-\d[\d,.]*°[CF]?)"
)
_SAME_UNIT = re.compile(r"(\d[\d,.]*)([A-Za-z]+)\s*[-—~]\s*(\d[\d,.]*)([A-Za-z]+)")
_SIZE = re.compile(r"\d[\d.]*(?:\s*[×*]\s*\d[\d.]*)+")
_LENGTHS = frozenset("m cm mm ft inch in km feet foot inches meters centimeters pixels px".split())


def ends(queue: list[Token], at: int, final: bool) -> list[int] | None:
    """Ends of the chunks from `at` on that make one stretch, the first being `at + 1`; None when more could come."""
    found = [at + 1]
    position = at + 1
    between = _BETWEEN | frozenset("()") if queue[at].text[0] == "+" else _BETWEEN
    while position < len(queue) and len(found) < _LONGEST:
        token = queue[position]
        if token.kind is Kind.CHUNK and _PLAIN.fullmatch(token.text):
            if any("0" <= c <= "9" for c in token.text):
                found.append(position + 1)
        elif token.text not in _TIMES and (token.kind is not Kind.GAP or token.text not in between):
            return found
        position += 1
    return found if final or position < len(queue) or len(found) == _LONGEST else None


def is_phone(text: str) -> bool:
    """True for a telephone or card number written in groups."""
    return any(shape.fullmatch(text) for shape in _PHONES)


def read(text: str, chinese: bool, code: bool, number: Callable[[str], str | None], after: str) -> str | None:
    """What is said for several chunks as one, or None when they are no such thing.

    number: reads one chunk of it. after: the word behind.
    """
    tiled = re.search(r"\d ?[xX] ?\d", text) is not None and re.fullmatch("[a-z]{3,}s", after) is not None
    text = re.sub(r"(?<=[\d ])[xX](?= *\d)", "×", text.strip())
    if is_phone(text) or (code and _SPELLED.fullmatch(text)):
        spell = numbers_zh.by_digit if chinese else numbers_en.by_digit
        groups = [group for group in re.split(r"[ ()+-]+", text) if group]
        return ("," if chinese else ", ").join(spell(group) for group in groups)
    if chinese and _MEMORIAL.fullmatch(text):
        return numbers_zh.by_digit(text)
    if match := _MIXED.fullmatch(text):
        whole, part = number(match[1]), number(match[2])
        return f"{whole}又{part}" if chinese else _mixed(f"{whole}", f"{part}")
    if (match := _SAME_UNIT.fullmatch(text)) and match[2] == match[4] in UNITS:
        return number(f"{match[1]}-{match[3]}{match[2]}")
    if match := _RANGE.fullmatch(text):
        return number(f"{match[1]}-{match[2]}") or _joined(
            number(match[1]), "到" if chinese else " to ", number(match[2])
        )
    if _SIZE.fullmatch(text) and not chinese and (tiled or after in _LENGTHS or re.fullmatch(r"\d{3,}\D+\d{3,}", text)):
        return " by ".join(number(part.strip()) or "" for part in re.split(r"[×*]", text))
    if match := _SUM.fullmatch(text):
        return _sum(match, chinese, number)
    return None


def _mixed(whole: str, part: str) -> str:
    part = {"one half": "a half", "one quarter": "a quarter", "one third": "a third"}.get(part, part)
    return f"{whole} and {part}"


def _joined(first: str | None, link: str, second: str | None) -> str | None:
    return None if first is None or second is None else first + link + second


def _sum(match: re.Match[str], chinese: bool, number: Callable[[str], str | None]) -> str | None:
    """Operands and signs in turn. Without a sign that makes a sum it is none: "5-10" is a range."""
    signs = [step[1].strip() for step in _STEP.finditer(match[2])]
    if not any(sign in "=×÷*^<>≤≥≈≠±+" for sign in signs):
        return None
    said = [_operand(match[1], chinese, number)]
    for step in _STEP.finditer(match[2]):
        sign, operand = step[1].strip(), _operand(step[2], chinese, number)
        if sign == "^":
            exponent = step[2]
            if re.fullmatch(r"[-+]?\d+(?:\.\d+)?", exponent) is None:
                return None
            base = said.pop() or ""
            said.append(numbers_zh.power(base, exponent) if chinese else f"{base} {numbers_en.power(exponent)}")
            continue
        name = SIGNS[sign][chinese]
        if chinese and sign in "×*" and "=" not in signs:
            name = "乘"
        said += [name, operand]
    if any(part is None for part in said):
        return None
    return ("" if chinese else " ").join(part for part in said if part)


def _operand(text: str, chinese: bool, number: Callable[[str], str | None]) -> str | None:
    if (match := re.fullmatch(r"([-+]?[\d.,]+)([a-z])", text)) and text[-1] not in UNITS:
        return f"{number(match[1])} {match[2]}"
    return number(text)
