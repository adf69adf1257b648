"""Punctuation marks and symbols: which of them are pauses, which are said, and which merely part words."""

import re

from oscine_engine.text import numbers_en, numbers_zh
from oscine_engine.text.abbreviations import DAYS, SHORT_MONTHS
from oscine_engine.text.amounts import language_of, read_amount, spoken
from oscine_engine.text.chunks import with_power
from oscine_engine.text.context import Context
from oscine_engine.text.items import Item, Spoken, words
from oscine_engine.text.scan import Kind, Token
from oscine_engine.text.stretches import is_phone
from oscine_engine.text.tokens import has_digits, is_blank, position, significant
from oscine_engine.text.units import SIGNS, per

PAUSES = {
    ",": ",",
    "，": ",",
    ".": ".",
    "?": "?",
    "!": "!",
    ";": ";",
    ":": ":",
    "\n": "\n",
    "(": ",",
    ")": ",",
    "—": ",",
    "~": ",",
    "|": ",",
    "•": ",",
    "→": ",",
}
_BINARY = frozenset("=≈≠≤≥<>×÷±")
_UNARY = {
    "±": ("plus or minus", "正负"),
    "≈": ("about", "约"),
    "~": ("about", "约"),
    "<": ("less than", "小于"),
    ">": ("more than", "大于"),
    "≤": ("at most", "小于等于"),
    "≥": ("at least", "大于等于"),
    "√": ("the square root of", "根号"),
    "§": ("section", "第"),
}
_RATED = frozenset("元块万角分度米里斤克次人天月年")
"""Behind these characters a slash means for each."""
_PERIODS = frozenset("月年天日人次小斤个晚平张件份位周套台瓶盒箱公千克度吨米升分秒课股辆亩户期单包")
_LOOKING_AHEAD = _BINARY | frozenset(_UNARY) | frozenset("({-*/^∞|#")
_KEYS = frozenset("press hit dial enter key pressing".split())
_KEY_NAMES = {"#": ("pound", "井号"), "*": ("star", "星号")}
_MEASURED_POWER = re.compile(r"([-+]?\d+)([A-Za-z/]+[²³]?)")
_OPERATORS = {"!=": "≠", "!==": "≠", "==": "=", "===": "=", "<=": "≤", ">=": "≥", "->": "→", "-->": "→", "=>": "→"}
"""Signs of programs, and the one that each stands for."""
_LONGEST_OPERATOR = 3
_ABOUT = frozenset("is are was were be of at".split())
"""Behind these "≈ 3" is about three, and "≥ 3" at least three."""
_HALF_DAYS = frozenset("am pm a.m p.m".split())
_WEEK = re.compile(r"(?:周|星期|礼拜)[一二三四五六日天]$")
_LB = re.compile(r"\d-(?:lb|oz|ft|in|yr|hr|min|sec|gal|mi|yd|sq)$")
_GRADE = re.compile(r"[A-DF]")
_NOTHING: tuple[int, list[Item]] = (0, [])
_BLANK = Item(Spoken.BLANK, " ")


def read_sign(queue: list[Token], at: int, final: bool, context: Context) -> tuple[int, list[Item]]:
    """How many tokens from the sign at `at` on are settled (0: more are needed) and what they say."""
    sign = queue[at].text
    if sign in "!=<>-" and (operator := _operator(queue, at, final)) is not None:
        length, plain = operator
        if not length or plain == "→":
            return length, [Item(Spoken.PAUSE, ",")] if length else []
        if at + length == len(queue) and not final:
            return _NOTHING
        if context.after_blank != (at + length < len(queue) and is_blank(queue[at + length])):
            return length, [_BLANK]  # ==marked==
        used, read = _binary(queue, at + length - 1, final, context, plain)
        return (used + length - 1, read) if used else _NOTHING
    if sign == "." and _LB.search(context.before):
        following = significant(queue, at + 1)
        if following is None and not final:
            return _NOTHING
        if following is not None and following.text[:1].islower():
            return 1, [_BLANK]
    if sign in ".?!;,，:\n" or sign == " ":
        return 1, [Item(Spoken.PAUSE, PAUSES[sign]) if sign != " " else _BLANK]
    if sign == "—" and (context.before in DAYS or context.before in SHORT_MONTHS):
        following = queue[at + 1] if at + 1 < len(queue) else None
        if following is None and not final:
            return _NOTHING
        span = following is not None and (following.text in DAYS or following.text in SHORT_MONTHS)
        return 1, [_BLANK, *words("to"), _BLANK] if span else [Item(Spoken.PAUSE, ",")]
    if sign in "—-" and context.before.lower() in _HALF_DAYS:
        following = significant(queue, at + 1)
        if following is None and not final:
            return _NOTHING
        if following is not None and following.text[:1].isdecimal():
            return 1, [_BLANK, *words("to"), _BLANK]
    if sign in "~—-" and context.han and (to := _span(queue, at, final, context)) is not None:
        return (1, spoken("到", True)) if to else _NOTHING
    if sign == ")" and context.attached:
        return 1, [_BLANK]
    if sign not in _LOOKING_AHEAD:
        return 1, [Item(Spoken.PAUSE, PAUSES[sign]) if sign in PAUSES else _BLANK]
    if at + 1 == len(queue) and not final:
        return _NOTHING
    if sign == "|":
        return 1, [_BLANK if at + 1 < len(queue) and queue[at + 1].text == ">" else Item(Spoken.PAUSE, ",")]
    if sign in "({":
        return _opening(queue, at, final, context)
    if sign == "-":
        return _dash(queue, at, final, context)
    if sign == "#" and not context.after_blank and len(context.before) == 1 and context.before.isupper():
        return 1, [_BLANK, *words("sharp")]
    if sign in "#*" and (key := _key(queue, at, context)):
        return 1, key
    if sign == "#":
        return 1, [_BLANK]
    if sign == "*":
        return _star(queue, at, final, context)
    if sign == "/" and context.han[-1:] in _RATED and context.han and at + 1 < len(queue):
        unit = per(queue[at + 1].text)
        if unit is not None and unit.zh:
            return 2, spoken(f"每{unit.zh}", True)
    if sign == "/" and context.operand and not context.han and at + 1 < len(queue):
        below = queue[at + 1].text
        if below.isdecimal() or below == "(" or re.fullmatch("[a-z]", below):
            return 1, spoken("除以", True) if context.in_chinese else [_BLANK, *words("over"), _BLANK]
    if sign == "/":
        return 1, [Item(Spoken.HAN, "每") if _is_rate(queue, at, context) else _BLANK]
    if sign == "^" and context.operand and at + 1 < len(queue) and queue[at + 1].kind is Kind.CHUNK:
        return _power(queue, at, final, context)
    if sign == "√" or (sign in _UNARY and (not context.operand or (sign == "~" and context.after_blank))):
        return _unary(queue, at, final, context)
    if sign in _BINARY:
        return _binary(queue, at, final, context)
    if sign == "∞":
        return 1, spoken("无穷大", True) if context.in_chinese else words("infinity")
    if sign in PAUSES:
        return 1, [Item(Spoken.PAUSE, PAUSES[sign])]
    return 1, [_BLANK]


def _operator(queue: list[Token], at: int, final: bool) -> tuple[int, str] | None:
    """How many tokens make a sign of programs, and what it stands for; 0 of them: more are needed."""
    run = ""
    for token in queue[at : at + _LONGEST_OPERATOR + 1]:
        if token.kind is not Kind.GAP or token.text not in "!=<>-":
            break
        run += token.text
    else:
        if not final and at + len(run) == len(queue) and any(sign.startswith(run) for sign in _OPERATORS):
            return 0, ""
    return (len(run), _OPERATORS[run]) if run in _OPERATORS else None


def _span(queue: list[Token], at: int, final: bool, context: Context) -> bool | None:
    """A sign between two of a kind: 周一~周五, 第3章—第5章. None where it is none; False while that hangs on what
    follows."""
    start = at + 1 + (at + 1 < len(queue) and queue[at + 1].text == "第")
    following = queue[start : start + 2]
    if len(following) < 2:
        return None if final else False
    first, second = following
    if _WEEK.search(context.han):
        return True if first.text + second.text in ("周", "星期", "礼拜") or first.text == "周" else None
    same = first.kind is Kind.CHUNK and first.text.isdecimal() and second.text == context.han[-1]
    return True if same else None


def _key(queue: list[Token], at: int, context: Context) -> list[Item]:
    """The name of a telephone's key, nothing where no key is meant."""
    sign, following = queue[at].text, queue[at + 1] if at + 1 < len(queue) else None
    if context.han[-1:] == "按" or (following is not None and following.text == "键"):
        return spoken(_KEY_NAMES[sign][1], True)
    if sign == "*" and following is not None and following.text.isdecimal() and context.before.lower() in _KEYS:
        return words(_KEY_NAMES[sign][0])
    alone = following is None or (following.kind is Kind.GAP and following.text != "*")
    if alone and context.after_blank and context.before.lower() in _KEYS:
        return words(_KEY_NAMES[sign][0])
    return []


def _is_rate(queue: list[Token], at: int, context: Context) -> bool:
    """A slash between an amount and what it is for: 20元/斤, ¥88/年."""
    following = queue[at + 1] if at + 1 < len(queue) else None
    if following is None or following.kind is not Kind.HAN:
        return False
    counted = context.han[-1] in _RATED if context.han else has_digits(context.before)
    return counted and (following.text in _PERIODS or context.han[-1:] == "元")


def _operand(token: Token | None) -> bool:
    return token is not None and (token.kind is not Kind.GAP or token.text in "(√±-")


def _opening(queue: list[Token], at: int, final: bool, context: Context) -> tuple[int, list[Item]]:
    """A bracket is a pause, or the beginning of a telephone number: (555) 123-4567."""
    if queue[at].text == "{":
        return 1, [_BLANK]
    # A bracket that a word runs into parts nothing: f(x), book(s).
    attached = bool(context.before) and context.operand and not context.after_blank and not context.han
    mere = [_BLANK if attached else Item(Spoken.PAUSE, ",")]
    following = queue[at + 1] if at + 1 < len(queue) else None
    if following is None or not (following.text.isdecimal() and 2 <= len(following.text) <= 5):
        return 1, mere
    closing = queue[at + 2] if at + 2 < len(queue) else None
    if closing is None:
        return _NOTHING if not final else (1, mere)
    if closing.text != ")":
        return 1, mere
    start = position(queue, at + 3)
    if start == len(queue):
        return _NOTHING if not final else (1, mere)
    text = "".join(token.text for token in queue[at : start + 1])
    if queue[start].kind is not Kind.CHUNK or not is_phone(text):
        return 1, mere
    language = language_of(queue, start + 1, final, context)
    if language is None:
        return _NOTHING
    groups = [following.text, *queue[start].text.split("-")]
    if language == "zh":
        return start + 1 - at, spoken(",".join(map(numbers_zh.by_digit, groups)), True)
    return start + 1 - at, words(", ".join(map(numbers_en.by_digit, groups)))


def _dash(queue: list[Token], at: int, final: bool, context: Context) -> tuple[int, list[Item]]:
    """A dash is a pause only with blanks on both sides; in a sum it is a minus; elsewhere it merely parts words."""
    following = queue[at + 1] if at + 1 < len(queue) else None
    parts = following is None or (following.kind is Kind.GAP and following.text not in "->")
    if parts and _GRADE.fullmatch(context.before) and not context.after_blank and context.operand:
        return 1, _said("-", context)  # a B-
    if not (context.after_blank and following is not None and is_blank(following)):
        signed = context.equation and following is not None and following.kind is Kind.CHUNK and len(following.text) < 4
        return 1, _said("-", context) if signed and not context.operand else [_BLANK]
    short = len(context.before.rstrip("²³")) == 1 and context.before != "I"
    if context.operand and (short or context.equation):
        start = position(queue, at + 1)
        if start == len(queue) and not final:
            return _NOTHING
        small = start < len(queue) and queue[start].kind is Kind.CHUNK and len(queue[start].text) <= 3
        beyond = significant(queue, start + 1)
        if small and beyond is None and not final and not context.equation:
            return _NOTHING
        if small and (context.equation or (beyond is not None and beyond.text == "=")):
            return 1, _said("-", context)
    return 1, [Item(Spoken.PAUSE, ",")]


def _star(queue: list[Token], at: int, final: bool, context: Context) -> tuple[int, list[Item]]:
    """Emphasis is not said; where it began the sentence, as a stage direction does, its end is a pause."""
    if not context.starred or context.after_blank:
        return 1, [_BLANK]
    after = at
    while after < len(queue) and queue[after].text == "*":
        after += 1
    if after == len(queue) and not final:
        return _NOTHING
    if after == len(queue) or not is_blank(queue[after]):
        return after - at, [_BLANK]
    start = position(queue, after)
    if start == len(queue):
        return (after - at, [_BLANK]) if final else _NOTHING
    begins = queue[start].kind is Kind.HAN or (queue[start].kind is Kind.CHUNK and queue[start].text[:1].isupper())
    return after - at, [Item(Spoken.PAUSE, ",") if begins else _BLANK]


def _power(queue: list[Token], at: int, final: bool, context: Context) -> tuple[int, list[Item]]:
    exponent = queue[at + 1].text
    measured = _MEASURED_POWER.fullmatch(exponent)
    if measured is not None and (unit := per(measured[2])) is not None:
        if context.in_chinese:
            return 2, spoken(numbers_zh.power("", measured[1]) + unit.zh, True)
        return 2, words(f"{numbers_en.power(measured[1])} {unit.many}")
    if not exponent.lstrip("-+").isdecimal():
        if exponent == "n" or exponent.isalpha():
            said = with_power("ⁿ", context.in_chinese) if exponent == "n" else words(f"to the power of {exponent}")
            return 2, said
        return 1, [_BLANK]
    return 2, spoken(numbers_zh.power("", exponent), True) if context.in_chinese else words(numbers_en.power(exponent))


def _unary(queue: list[Token], at: int, final: bool, context: Context) -> tuple[int, list[Item]]:
    """A sign in front of a number: about, more than, the square root of."""
    sign, following = queue[at].text, queue[at + 1] if at + 1 < len(queue) else None
    number = following is not None and following.kind is Kind.CHUNK and (has_digits(following.text) or sign == "√")
    if following is not None and is_blank(following) and sign in "≈±√≤≥§":
        start = position(queue, at + 1)
        if start == len(queue) and not final:
            return _NOTHING
        number = start < len(queue) and queue[start].kind is Kind.CHUNK
    if not number or following is None:
        return 1, [Item(Spoken.PAUSE, PAUSES[sign]) if sign in PAUSES else _BLANK]
    used, _ = read_amount(queue, position(queue, at + 1), final, context) if has_digits(following.text) else (1, [])
    if not used:
        return _NOTHING
    language = "zh" if context.han else language_of(queue, position(queue, at + 1) + used, final, context)
    if language is None:
        return _NOTHING
    return 1, [*spoken(_UNARY[sign][1], True)] if language == "zh" else [*words(_UNARY[sign][0]), _BLANK]


def _binary(queue: list[Token], at: int, final: bool, context: Context, sign: str = "") -> tuple[int, list[Item]]:
    """A sign between two operands: that at `at`, or the one that it stands for."""
    sign = sign or queue[at].text
    following = significant(queue, at + 1)
    if following is None and not final:
        return _NOTHING
    questioned = sign == "=" and following is not None and following.text == "?"
    if not context.operand or not (_operand(following) or questioned):
        return 1, [Item(Spoken.PAUSE, ",") if sign == ">" and context.operand else _BLANK]
    if sign in "<>" and following is not None:
        blanks = context.after_blank and is_blank(queue[at + 1])
        if sign == "<" and following.text == "3" and not blanks and context.before[-1:].isalpha():
            return position(queue, at + 1) + 1 - at, [_BLANK]
        known = (
            has_digits(context.before)
            or has_digits(following.text)
            or (len(context.before) == 1 and context.before != "I")
        )
        if not known:
            return 1, [Item(Spoken.PAUSE, ",") if sign == ">" and blanks else _BLANK]
    if sign in "≈≤≥" and context.before.lower() in _ABOUT and not context.in_chinese:
        return 1, [_BLANK, *words(_UNARY[sign][0]), _BLANK]
    chinese_next = following is not None and following.kind is Kind.HAN
    if chinese_next and (not context.language or context.in_chinese):
        return 1, spoken("乘" if sign == "×" else SIGNS[sign][1], True)
    return 1, _said(sign, context)


def _said(sign: str, context: Context) -> list[Item]:
    if context.in_chinese:
        return spoken(SIGNS[sign][1], True)
    return [_BLANK, *words(SIGNS[sign][0]), _BLANK]
