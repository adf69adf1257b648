"""Chunks with digits, in the language of what stands beside them, together with the unit or the currency behind."""

import re

from oscine_engine.text import numbers_en, readings_en, readings_zh, stretches, units
from oscine_engine.text.apart import NotYet, unit_apart
from oscine_engine.text.characters import GREEK
from oscine_engine.text.chunks import is_address, with_digits
from oscine_engine.text.context import Context, Language
from oscine_engine.text.items import Item, Spoken, words
from oscine_engine.text.readings_en import Near
from oscine_engine.text.readings_zh import Beside
from oscine_engine.text.scan import Kind, Token
from oscine_engine.text.tokens import has_digits, has_letters, is_word, position, significant
from oscine_engine.text.units import APART, CODES, UNITS

_NOTHING: tuple[int, list[Item]] = (0, [])
_NEEDS_TWO = frozenset("会教包病办年人单星日美万亿假黄国报急火热电客服指平大高院工晚加模快系毕购活期房次欧英港人")
"""Chinese characters behind a number whose meaning hangs on the next one."""
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:-\d[\d,]*(?:\.\d+)?|[⁰¹²³⁴-⁹⁺⁻]+)?|\d+/\d+")
_AMOUNT = re.compile(r"\d[\d,]*(?:\.\d+)?")
_HALF_DAY = re.compile(r"\d{1,2}(?::\d\d)?[apAP]\.[mM]")
_FEET = re.compile(r"\d+'\d{1,2}")


def read_amount(queue: list[Token], at: int, final: bool, context: Context) -> tuple[int, list[Item]]:
    """How many tokens from the number at `at` on are settled (0: more are needed) and what they say."""
    if is_address(queue[at].text) and not _HALF_DAY.fullmatch(queue[at].text):
        return 1, with_digits(queue[at].text)
    found = stretches.ends(queue, at, final)
    if found is None or (significant(queue, found[-1]) is None and not final):
        return _NOTHING
    language = language_of(queue, found[-1], final, context)
    if language is None:
        return _NOTHING
    if language in ("other", "ja"):
        return 1, [Item(Spoken.OTHER, queue[at].text)]
    chinese = language == "zh"
    for end in reversed(found[1:]):
        after = _after(queue, end, final)
        if after is None:
            return _NOTHING

        def number(text: str, behind: str = after) -> str | None:
            return _plain_number(text, chinese, context, behind)

        text = "".join(token.text for token in queue[at:end])
        said = stretches.read(text, chinese, _code(chinese, context), number, after)
        if said is not None:
            return _with_unit_behind(queue, end, at, context, said, chinese)
    return _one(queue, at, final, context, chinese)


def language_of(queue: list[Token], at: int, final: bool, context: Context) -> Language | None:
    """The language of a number that ends before `at`; None when it hangs on what is not here yet."""
    if context.given in ("ja", "other"):
        return context.given
    own: Language = "zh" if context.in_chinese else context.language or context.given
    following = queue[at] if at < len(queue) else None
    if own == "ja":
        return "ja"
    if context.han or (following is not None and following.kind is Kind.HAN):
        return "zh"
    after = significant(queue, at)
    if after is None:
        return (own or _first_language(queue, at - 1, final)) if final else None
    if after.kind is Kind.HAN:
        return "zh"
    if after.kind is Kind.OTHER and after.text not in GREEK:
        return "other" if own in ("", "other") else own
    if own == "other":
        return "other"
    if after.kind is Kind.CHUNK and has_letters(after.text) and not has_digits(after.text):
        if after.text not in UNITS and after.text not in CODES:
            return "en"
        beyond = significant(queue, position(queue, at) + 1)
        if beyond is None and not final:
            return None
        if beyond is not None and beyond.kind is Kind.HAN:
            return "zh"
    if own:
        return own
    return _first_language(queue, at - 1, final)


def _first_language(queue: list[Token], at: int, final: bool) -> Language | None:
    """Where nothing was said yet, numbers speak the language of the first letter that comes."""
    if queue[at].text[:1] == "¥":
        return "zh"
    for token in queue[at:]:
        if token.kind is Kind.HAN:
            return "zh"
        if token.kind is Kind.OTHER and token.text not in GREEK:
            return "other"
        if token.text == "，":
            return "zh"
        if token.kind is Kind.CHUNK and is_word(token) and not has_digits(token.text) and token.text not in UNITS:
            return "en"
    return "en" if final else None


def _code(chinese: bool, context: Context) -> bool:
    return readings_zh.is_code(context.recent) if chinese else context.code


def _after(queue: list[Token], at: int, final: bool) -> str | None:
    """The word, or the first one or two Chinese characters, from `at` on; None when it must be waited for."""
    start = position(queue, at)
    if start == len(queue):
        return "" if final else None
    token = queue[start]
    if token.kind is Kind.CHUNK:
        return token.text
    if token.kind is not Kind.HAN:
        return ""
    if start + 1 == len(queue) and not final and token.text in _NEEDS_TWO:
        return None
    second = queue[start + 1] if start + 1 < len(queue) else None
    # Only those characters look at their successor, so that nothing hangs on whether it is here.
    needed = second is not None and second.kind is Kind.HAN and token.text in _NEEDS_TWO
    return token.text + second.text if needed and second is not None else token.text


def _near(context: Context, after: str) -> Near:
    return Near(context.before.lower(), context.before2.lower(), after.lower(), after, context.code)


def _plain_number(text: str, chinese: bool, context: Context, after: str) -> str | None:
    if chinese:
        latin = "" if context.han else context.before
        return readings_zh.read_number(text, Beside(context.han, after, latin, context.recent))
    said = readings_en.read_number(text, _near(context, after))
    if said is None and text[0] in "#'":
        said = readings_en.read_number(text[1:], _near(context, after))
        return said if said is None or text[0] == "'" else f"number {said}"
    return said


def _with_unit_behind(
    queue: list[Token], end: int, at: int, context: Context, said: str, chinese: bool
) -> tuple[int, list[Item]]:
    """A range or a mixed fraction and the unit that follows it."""
    start = position(queue, end)
    token = queue[start] if start < len(queue) else None
    unit = units.per(token.text) if token is not None and (token.text in APART or "/" in token.text) else None
    if unit is not None:
        if context.before.lower() in ("a", "an") and not chinese:
            unit = units.Unit(unit.one, unit.one, unit.zh)
        if chinese and unit.zh:
            return start + 1 - at, spoken(said + unit.zh, True)
        return start + 1 - at, [*spoken(said, chinese), Item(Spoken.BLANK, " "), *words(unit.many)]
    return end - at, spoken(said, chinese)


def _one(queue: list[Token], at: int, final: bool, context: Context, chinese: bool) -> tuple[int, list[Item]]:
    """One chunk, and what belongs to it behind: a unit, a currency, "million", the inches of a height."""
    chunk = queue[at].text
    after = _after(queue, at + 1, final)
    if after is None:
        return _NOTHING
    start = position(queue, at + 1)
    token = queue[start] if start < len(queue) else None
    if token is not None and token.kind is Kind.CHUNK and _NUMBER.fullmatch(chunk):
        joined = _with_unit(queue, at, start, final, context, chinese)
        if joined is not None:
            return joined
    if token is not None and start == at + 1 and token.text == '"' and not context.quoted:
        if _FEET.fullmatch(chunk) and chinese:
            pace = [token.text for token in queue[at + 2 : at + 4]]
            if len(pace) < 2 and not final:
                return _NOTHING
            per_km = pace == ["/", "km"]
            return 2 + 2 * per_km, spoken((_plain_number(chunk, True, context, "") or "") + "每公里" * per_km, True)
        if _FEET.fullmatch(chunk):
            feet, _, inches = chunk.partition("'")
            return 2, spoken(f"{numbers_en.cardinal(feet)} foot {numbers_en.cardinal(inches)}", chinese=False)
        if re.fullmatch(r"\d/\d{1,2}", chunk) and not chinese:
            return 2, words(f"{readings_en.read_number(chunk)} inch")
        if re.fullmatch(r"\d{1,3}(?:\.\d+)?", chunk):
            if chinese:
                return 2, spoken(readings_zh.counted(chunk, "英") + "英寸", True)
            one = chunk == "1" or context.before.lower() in ("a", "an", "the")
            return 2, words(f"{numbers_en.decimal(chunk)} {'inch' if one else 'inches'}")
    said = _plain_number(chunk, chinese, context, after)
    used = 1
    if chunk[:1] in "$£€¥₹" and after.lower() in numbers_en.MAGNITUDES and not chinese:
        used = start + 1 - at
    if said is not None and chinese and after[:1] in ("万", "亿") and (unit := readings_zh.currency(chunk)):
        # "$5万" is 五万美元: the unit goes behind what makes the amount large.
        named = after[1:2] in ("元", "块", "美", "欧", "英", "港", "日")
        return start + 1 - at, spoken(said + after[0] + ("" if named else unit), True)
    if said is None and "+" in chunk[1:]:
        return used, _added(chunk, chinese, context)
    return used, spoken(said, chinese) if said is not None else with_digits(chunk, chinese)


def _added(chunk: str, chinese: bool, context: Context) -> list[Item]:
    """Amounts with a plus between: "12GB+256GB"."""
    items: list[Item] = []
    for part in chunk.split("+"):
        if items:
            items += [Item(Spoken.BLANK, " "), *spoken("加" if chinese else "plus", chinese), Item(Spoken.BLANK, " ")]
        said = _plain_number(part, chinese, context, "") if part else None
        items += spoken(said, chinese) if said is not None else with_digits(part, chinese)
    return items


def _with_unit(
    queue: list[Token], at: int, start: int, final: bool, context: Context, chinese: bool
) -> tuple[int, list[Item]] | None:
    """A number at `at` and the unit or currency that stands behind a blank, at `start`; None when there is none."""
    chunk, sign = queue[at].text, queue[start].text
    if sign in CODES:
        if _AMOUNT.fullmatch(chunk) is None:
            return None
        said = readings_zh.counted(chunk, "") + CODES[sign].zh if chinese else numbers_en.money(CODES[sign], chunk)
        return start + 1 - at, spoken(said, chinese)
    try:
        found = unit_apart(queue, start, final, chinese)
    except NotYet:
        return _NOTHING
    if found is None:
        return None
    unit, end = found
    whole = readings_zh.read_number(chunk + sign) if chinese else None
    if whole is not None:
        return end - at, spoken(whole, True)
    number = _plain_number(chunk, chinese, context, "")
    if number is None:
        return None
    if chinese and unit.zh:
        return end - at, spoken(number + unit.zh, True)
    share = "/" in chunk and numbers_en.is_share(chunk)
    one = chunk == "1" or share or context.before.lower() in ("a", "an")
    name = f"{'of a ' if share else ''}{unit.one if one else unit.many}"
    return end - at, [*spoken(number, chinese), Item(Spoken.BLANK, " "), *words(name)]


def spoken(reading: str, chinese: bool) -> list[Item]:
    """Items of a reading: English words, or Chinese characters with commas for pauses and letters that are said."""
    return [_han(c) for c in reading] if chinese else words(reading)


def _han(character: str) -> Item:
    if character == ",":
        return Item(Spoken.PAUSE, ",")
    if character.isascii():
        return Item(Spoken.LETTERS if character.isalpha() else Spoken.BLANK, character)
    return Item(Spoken.HAN, character)
