"""Written numbers as English words: pure functions from strings to strings."""

from calendar import monthrange

from oscine_engine.text.units import CURRENCIES, Currency

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_SCALES = ("", "thousand", "million", "billion", "trillion", "quadrillion")
_ORDINAL = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
MONTHS = "January February March April May June July August September October November December".split()
MAGNITUDES = ("hundred", "thousand", "million", "billion", "trillion")
"""Words that stand between an amount and its currency when spoken: "$5 million" is five million dollars."""
_LONGEST_CARDINAL = 3 * len(_SCALES)


def cardinal(digits: str) -> str:
    """ "1204" -> "one thousand two hundred four". Leading zeros and very long runs are read digit by digit."""
    digits = digits.replace(",", "")
    if len(digits) > 1 and digits[0] == "0" or len(digits) > _LONGEST_CARDINAL:
        return by_digit(digits)
    number = int(digits)
    if number == 0:
        return "zero"
    groups: list[str] = []
    for scale in _SCALES:
        number, group = divmod(number, 1000)
        if group:
            groups.append(f"{_below_thousand(group)} {scale}".strip())
    return " ".join(reversed(groups))


def _below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    words = [_ONES[hundreds], "hundred"] if hundreds else []
    if rest >= 20:
        words.append(_TENS[rest // 10 - 2])
        rest %= 10
    if rest:
        words.append(_ONES[rest])
    return " ".join(words)


def ordinal(digits: str) -> str:
    """ "21" -> "twenty first"."""
    *head, last = cardinal(digits).split()
    if last in _ORDINAL:
        last = _ORDINAL[last]
    else:
        last = last[:-1] + "ieth" if last.endswith("y") else last + "th"
    return " ".join([*head, last])


def plural(words: str) -> str:
    """ "nineteen ninety" -> "nineteen nineties", "twenty one" -> "twenty ones"."""
    if words.endswith("y"):
        return words[:-1] + "ies"
    return words + ("es" if words.endswith("x") else "s")


def year(digits: str) -> str:
    """Four digits as a year: "1999" -> "nineteen ninety nine", "2005" -> "two thousand five". Others are counted."""
    if len(digits) != 4:
        return cardinal(digits)
    century, rest = int(digits[:2]), int(digits[2:])
    if century % 10 == 0 and rest < 10:
        return cardinal(digits)
    if rest == 0:
        return f"{cardinal(digits[:2])} hundred"
    return f"{cardinal(digits[:2])} {'oh ' if rest < 10 else ''}{cardinal(str(rest))}"


def by_digit(digits: str) -> str:
    """Every digit by its name; anything else is dropped."""
    return " ".join(_ONES[int(c)] for c in digits if c.isdecimal())


def decimal(text: str) -> str:
    """ "3.50" -> "three point five zero"; commas group, a leading sign is spoken."""
    sign = {"-": "minus ", "+": "plus "}.get(text[:1], "")
    whole, _, fraction = text.lstrip("+-").partition(".")
    words = cardinal(whole) if whole else "zero"
    return sign + (f"{words} point {by_digit(fraction)}" if fraction else words)


def clock(hours: str, minutes: str) -> str:
    """ "8", "05" -> "eight oh five"; a full hour is "eight o'clock"."""
    if int(minutes) == 0:
        return f"{cardinal(str(int(hours)))} o'clock"
    return f"{cardinal(str(int(hours)))} {'oh ' if int(minutes) < 10 else ''}{cardinal(str(int(minutes)))}"


def money(sign: str | Currency, amount: str, magnitude: str = "", before_noun: bool = False) -> str:
    """ "$", "98.06" -> "ninety eight dollars and six cents"; "$", "5", "million" -> "five million dollars"."""
    currency = CURRENCIES[sign] if isinstance(sign, str) else sign
    if before_noun and ("." not in amount or magnitude):
        return f"{decimal(amount)} {magnitude} {currency.one}".replace("  ", " ")
    if magnitude:
        return f"{decimal(amount)} {magnitude} {currency.many}"
    whole, _, cents = amount.partition(".")
    if cents and (len(cents) != 2 or not currency.cent):
        return f"{decimal(amount)} {currency.many}"
    count = int(whole.replace(",", "") or 0)
    some = int(cents or 0)
    parts = [f"{cardinal(whole)} {currency.one if count == 1 else currency.many}"] if count or not some else []
    if some:
        parts.append(f"{cardinal(str(some))} {currency.cent if some == 1 else currency.cents}")
    return " and ".join(parts)


def is_day(years: str, months: str, days: str) -> bool:
    """True when the calendar has that day."""
    year_, month, day = int(years), int(months), int(days)
    return 1 <= month <= 12 and 1 <= day <= monthrange(max(1, year_), month)[1]


def date(years: str, months: str, days: str) -> str | None:
    """ "2025", "02", "03" -> "February third twenty twenty five", or None when there is no such day."""
    if not is_day(years, months, days):
        return None
    return f"{MONTHS[int(months) - 1]} {ordinal(str(int(days)))} {year(years)}"


def is_share(text: str) -> bool:
    """True for "1/2" and "3/4", which a unit follows as "half of a cup"; false for "120/80"."""
    above, _, below = text.partition("/")
    return 0 < int(above) < int(below) <= 20


def power(exponent: str) -> str:
    """What is said behind a base for an exponent."""
    if exponent in ("2", "3"):
        return "squared" if exponent == "2" else "cubed"
    return f"to the power of {decimal(exponent)}"
