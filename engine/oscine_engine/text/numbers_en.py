"""Written numbers as English words: pure functions from strings to strings."""

import re

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
_CURRENCIES = {"$": ("dollar", "cent"), "£": ("pound", "penny"), "€": ("euro", "cent"), "¥": ("yuan", "fen")}
_MAGNITUDES = {
    "k": "thousand",
    "K": "thousand",
    "m": "million",
    "M": "million",
    "mn": "million",
    "b": "billion",
    "B": "billion",
    "bn": "billion",
    "T": "trillion",
}
MAGNITUDES = ("thousand", "million", "billion", "trillion")
"""Words that stand between an amount and its currency when spoken: "$5 million" is five million dollars."""
UNITS = {
    "km": "kilometers",
    "kg": "kilograms",
    "cm": "centimeters",
    "mm": "millimeters",
    "m": "meters",
    "g": "grams",
    "mg": "milligrams",
    "lb": "pounds",
    "lbs": "pounds",
    "oz": "ounces",
    "ft": "feet",
    "mph": "miles an hour",
    "km/h": "kilometers an hour",
    "kph": "kilometers an hour",
    "KB": "kilobytes",
    "MB": "megabytes",
    "GB": "gigabytes",
    "TB": "terabytes",
    "Hz": "hertz",
    "kHz": "kilohertz",
    "MHz": "megahertz",
    "GHz": "gigahertz",
    "ms": "milliseconds",
    "s": "seconds",
    "sec": "seconds",
    "min": "minutes",
    "mins": "minutes",
    "h": "hours",
    "hr": "hours",
    "hrs": "hours",
    "ml": "milliliters",
    "l": "liters",
    "L": "liters",
    "kW": "kilowatts",
    "kWh": "kilowatt hours",
    "W": "watts",
    "V": "volts",
    "x": "times",
    "°": "degrees",
    "°C": "degrees Celsius",
    "°F": "degrees Fahrenheit",
}
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


def year(digits: str) -> str:
    """Four digits as a year: "1999" -> "nineteen ninety nine", "2005" -> "two thousand five"."""
    century, rest = int(digits[:2]), int(digits[2:])
    if century % 10 == 0 and rest < 10:
        return cardinal(digits)
    if rest == 0:
        return f"{cardinal(digits[:2])} hundred"
    return f"{cardinal(digits[:2])} {'oh ' if rest < 10 else ''}{cardinal(str(rest))}"


def by_digit(digits: str) -> str:
    """Every digit by its name; anything else is dropped."""
    return " ".join(_ONES[int(c)] for c in digits if c.isdigit())


def decimal(text: str) -> str:
    """ "3.50" -> "three point five zero"; commas group, a leading minus is spoken."""
    sign = "minus " if text.startswith("-") else ""
    whole, _, fraction = text.lstrip("-").partition(".")
    words = cardinal(whole) if whole else "zero"
    return sign + (f"{words} point {by_digit(fraction)}" if fraction else words)


def clock(hours: str, minutes: str) -> str:
    """ "8", "05" -> "eight oh five"; a full hour is "eight o'clock"."""
    if int(minutes) == 0:
        return f"{cardinal(str(int(hours)))} o'clock"
    return f"{cardinal(str(int(hours)))} {'oh ' if int(minutes) < 10 else ''}{cardinal(str(int(minutes)))}"


def money(symbol: str, amount: str, magnitude: str = "") -> str:
    """ "$", "98.06" -> "ninety eight dollars and six cents"; "$", "5", "million" -> "five million dollars"."""
    unit, small = _CURRENCIES[symbol]
    plural = unit if unit == "yuan" else unit + "s"
    if magnitude:
        return f"{decimal(amount)} {magnitude} {plural}"
    whole, _, cents = amount.partition(".")
    if cents and len(cents) != 2:
        return f"{decimal(amount)} {plural}"
    count = int(whole.replace(",", "") or 0)
    parts = [f"{cardinal(whole)} {unit if count == 1 else plural}"] if count or not int(cents or 0) else []
    if int(cents or 0):
        smalls = {"penny": "pence", "fen": "fen"}.get(small, small + "s")
        parts.append(f"{cardinal(str(int(cents)))} {small if int(cents) == 1 else smalls}")
    return " and ".join(parts)


def date(years: str, months: str, days: str) -> str | None:
    """ "2025", "02", "03" -> "February third twenty twenty five", or None when there is no such day."""
    month, day = int(months), int(days)
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return f"{MONTHS[month - 1]} {ordinal(str(day))} {year(years)}"


_NUMBER = r"\d[\d,]*(?:\.\d+)?|\.\d+"
_FRACTIONS = {"1/2": "one half", "1/3": "one third", "2/3": "two thirds", "1/4": "one quarter", "3/4": "three quarters"}
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_YEAR_AFTER = frozenset(
    "in by since from of until till before after during around circa year years between to and early late mid".split()
) | frozenset(month.lower() for month in MONTHS)


def read_number(text: str, before: str = "", after: str = "") -> str | None:
    """Words for one chunk that starts with a digit, sign or currency, or None when it is no plain number.

    before, after: the neighbouring words in lower case, which decide about years and magnitudes ("$5 million").
    """
    if match := re.fullmatch(rf"([-+]?)([$£€¥])({_NUMBER})(k|K|mn|m|M|bn|b|B|T)?", text):
        sign, symbol, amount, suffix = match.groups()
        magnitude = _MAGNITUDES.get(suffix or "", "")
        if not magnitude and after in MAGNITUDES:
            magnitude = after
        return ("minus " if sign == "-" else "") + money(symbol, amount, magnitude)
    if match := re.fullmatch(r"(\d{1,2}):([0-5]\d)(?::[0-5]\d)?((?:[ap]\.?m)?)", text, re.IGNORECASE):
        hours, minutes, half = match.groups()
        words = clock(hours, minutes)
        if half or after in ("am", "pm", "a.m", "p.m", "a", "p"):
            words = words.removesuffix(" o'clock")
        return f"{words} {' '.join(half.replace('.', '').lower())}".strip()
    if match := re.fullmatch(r"(\d{1,2})([ap])\.?m", text, re.IGNORECASE):
        return f"{cardinal(match[1])} {match[2].lower()} m"
    if match := re.fullmatch(r"(\d+)(?:st|nd|rd|th)", text, re.IGNORECASE):
        return ordinal(match[1])
    if match := re.fullmatch(r"'?(\d0)'?s|(\d{2})(\d0)'?s", text):
        tens = _TENS[int((match[1] or match[3])[0]) - 2] if (match[1] or match[3])[0] not in "01" else None
        if tens:
            return f"{cardinal(match[2])} {tens[:-1]}ies" if match[2] else f"{tens[:-1]}ies"
    if match := re.fullmatch(rf"(-?(?:{_NUMBER}))%", text):
        return f"{decimal(match[1])} percent"
    if match := re.fullmatch(r"(\d{4})-(\d{1,2})-(\d{1,2})", text):
        return date(*match.groups())
    if match := re.fullmatch(r"(\d{1,2})/(\d{1,2})/(\d{4})", text):
        return date(match[3], match[1], match[2])
    if text in _FRACTIONS:
        return _FRACTIONS[text]
    if re.fullmatch(r"\+?\d+(?:-\d+){2,}|\d{3}-\d{4}|\+\d{4,}|0\d+-\d+", text):
        return ", ".join(by_digit(part) for part in text.split("-"))
    if match := re.fullmatch(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)(%?)", text):
        first, second, percent = match.groups()
        reading = year if len(first) == len(second) == 4 and "." not in text else decimal
        return f"{reading(first)} to {reading(second)}{' percent' if percent else ''}"
    if match := re.fullmatch(r"(\d+)/(\d+)", text):
        return f"{cardinal(match[1])} over {cardinal(match[2])}"
    if re.fullmatch(r"\d+(?:\.\d+){2,}", text):
        return " point ".join(cardinal(part) for part in text.split("."))
    if re.fullmatch(r"(?:1[1-9]|20)\d\d", text) and (before in _YEAR_AFTER or re.fullmatch(_DAY, before)):
        return year(text)
    if re.fullmatch(r"\d{1,2}", text) and before.title() in MONTHS and 1 <= int(text) <= 31:
        return ordinal(text)
    if re.fullmatch(rf"-?(?:{_NUMBER})", text):
        whole = text.lstrip("-").partition(".")[0].replace(",", "")
        return by_digit(text) if len(whole) > 9 and "," not in text else decimal(text)
    if match := re.fullmatch(rf"(-?(?:{_NUMBER}))(°?[A-Za-z/]*)", text):
        unit = UNITS.get(match[2])
        if unit is not None:
            return f"{decimal(match[1])} {unit.removesuffix('s') if match[1] == '1' else unit}"
    return None
