"""One written chunk with digits -> English words, by its shape and by the words beside it."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from oscine_engine.text import units
from oscine_engine.text.numbers_en import (
    MAGNITUDES,
    MONTHS,
    by_digit,
    cardinal,
    clock,
    date,
    decimal,
    is_day,
    money,
    ordinal,
    plural,
    power,
    year,
)
from oscine_engine.text.units import CURRENCIES


@dataclass(frozen=True, slots=True)
class Near:
    """The words around a number, in lower case, "" where there are none."""

    before: str = ""
    before2: str = ""
    after: str = ""
    after_as_written: str = ""
    code: bool = False
    """A word in front says that a code or a telephone number follows."""


_NUMBER = r"(?:\d[\d,]*(?:\.\d+)?|\.\d+)"
_SIGN = "|".join(re.escape(sign) for sign in sorted(CURRENCIES, key=len, reverse=True))
_SUFFIXES = {"k": "thousand", "K": "thousand", "m": "million", "M": "million", "mn": "million", "mm": "million",
             "b": "billion", "B": "billion", "bn": "billion", "T": "trillion", "tn": "trillion"}  # fmt: skip
_FRACTIONS = {
    "9/11": "nine eleven",
    "24/7": "twenty four seven",
    "50/50": "fifty fifty",
    "20/20": "twenty twenty",
    "1/2": "one half",
    "1/3": "one third",
    "2/3": "two thirds",
    "1/4": "one quarter",
    "3/4": "three quarters",
}
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
MONTHS_SHORT = {name[:3].lower(): name for name in MONTHS} | {"sept": "September"}
_MONTH_NAMES = frozenset(name.lower() for name in MONTHS) | frozenset(MONTHS_SHORT)
_YEAR_AFTER = frozenset(
    "in by since from of until till before after during around circa c year years between early late mid spring summer "
    "autumn fall winter class copyright pre post q1 q2 q3 q4".split()
)
_YEAR_OR_COUNT_AFTER = frozenset("to and the a this that last or ©".split()) | {""}
_COUNTED = re.compile(
    r"(?!(?:was|is|has|as|this|us|vs)$)[a-z]+s|people|men|women|children|more|different|other|new|percent"
)
_HALF_DAYS = frozenset("am pm a.m p.m".split())
_CLOCK = r"(\d{1,2}):([0-5]\d)(?::([0-5]\d))?"
_FULL_HOUR = " o'clock"
_HALF = r"([ap])\.?m\.?"
_RAISED_TO_PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")


def read_number(text: str, near: Near | None = None) -> str | None:
    """Words for one chunk that holds digits, or None when it is no shape known here."""
    near = near or Near()
    if text[0] == "-" and near.before in _HALF_DAYS and (until := read_number(text[1:])) is not None:
        return f"to {until}"
    for shape, say in _SHAPES:
        match = shape.fullmatch(text)
        if match is not None:
            said = say(match, near)
            if said is not None:
                return said
    return None


def raised(exponent: str) -> str:
    """ "⁻³" -> "-3"."""
    return exponent.translate(_RAISED_TO_PLAIN)


def _money(match: re.Match[str], near: Near) -> str | None:
    sign, symbol, amount, suffix, upper, upper_suffix, behind = match.groups()
    magnitude = _SUFFIXES.get(upper_suffix or suffix or "", "")
    if not magnitude and near.after in MAGNITUDES:
        magnitude = near.after
    minus = {"-": "minus ", "+": "plus "}.get(sign, "")
    if behind is not None and units.period(behind) is None:
        return None
    rate = f" per {found.one}" if behind and (found := units.period(behind)) else ""
    if upper:
        first = decimal(amount) + (f" {_SUFFIXES[suffix]}" if suffix and suffix != upper_suffix else "")
        return f"{minus}{first} to {money(symbol, upper, magnitude)}{rate}"
    noun = near.before in ("a", "an") and near.after_as_written[:1].isalpha()
    return minus + money(symbol, amount, magnitude, noun and not rate) + rate


def _money_behind(match: re.Match[str], _near: Near) -> str | None:
    amount, symbol = match.groups()
    if symbol == "¢":
        return f"{decimal(amount)} {'cent' if amount == '1' else 'cents'}"
    return money(symbol, amount)


def _time(match: re.Match[str], near: Near) -> str | None:
    hours, minutes, seconds, half = match.groups()
    if int(hours) > 24 or near.after in _COMPARED or near.before in _COMPARED:
        return None
    if seconds and (near.before in ("in", "took", "ran", "for") or near.before2 == "record"):
        return _passed(hours, minutes, seconds)
    if near.after in ("min", "mins") and not seconds:
        return f"{cardinal(str(int(hours)))} {'' if minutes == '00' else cardinal(str(int(minutes)))}".strip()
    words = clock(hours, minutes)
    if seconds and seconds != "00":
        words = f"{clock(hours, minutes).removesuffix(_FULL_HOUR)} and {cardinal(str(int(seconds)))} seconds"
    if half or near.after in ("am", "pm", "a.m", "p.m", "a", "p", "est", "gmt", "utc", "hours"):
        words = words.removesuffix(_FULL_HOUR)
    return f"{words} {half.lower()} m" if half else words


_COMPARED = frozenset("dilution dilutions ratio odds scale mix mixture split leverage".split())
"""Beside these a colon is between two shares."""


def _passed(hours: str | None, minutes: str | None, seconds: str | None) -> str:
    parts = ((hours, "hour"), (minutes, "minute"), (seconds, "second"))
    some = [(str(int(part)), name) for part, name in parts if part and int(part)]
    return " ".join(f"{cardinal(part)} {name}{'' if part == '1' else 's'}" for part, name in some)


def _times(match: re.Match[str], _near: Near) -> str | None:
    first, first_half, second, second_half = match.groups()
    said = []
    for part, half in ((first, first_half), (second, second_half)):
        hours, _, minutes = part.partition(":")
        if int(hours) > 24:
            return None
        words = clock(hours, minutes) if minutes else cardinal(hours)
        if first_half or second_half:
            words = words.removesuffix(_FULL_HOUR)
        said.append(f"{words} {half.lower()} m" if half else words)
    return " to ".join(said)


_WAITED = frozenset("in for after within every takes took take wait about only last lasts lasted than".split())
_WAITED_UNTIL = frozenset(
    "and or then before to at per each on between after while until with so but from if".split()
) | {""}
"""Between these "30s" is a time; the thirties have "the" or "his" in front, or a noun behind."""


def _verses(match: re.Match[str], _near: Near) -> str:
    return f"{cardinal(match[1])} {cardinal(match[2])} to {cardinal(match[3])}"


def _port(match: re.Match[str], near: Near) -> str:
    address = read_number(match[1]) or by_digit(match[1])
    return f"{address} colon {by_digit(match[2])}"


def _decade(match: re.Match[str], near: Near) -> str | None:
    century, tens = match.groups()
    if (
        not century
        and match[0][0] != "'"
        and "'" not in match[0]
        and near.before in _WAITED
        and near.after in _WAITED_UNTIL
    ):
        return f"{cardinal(tens)} seconds"
    if tens == "00":
        return (
            plural(f"{cardinal(century)} hundred")
            if century and century[1] != "0"
            else (plural(cardinal(century + "00")) if century else None)
        )
    if tens[0] == "1":
        return plural(f"{cardinal(century)} ten") if century else None
    return f"{cardinal(century) + ' ' if century else ''}{plural(cardinal(tens))}"


def _iso(match: re.Match[str], _near: Near) -> str | None:
    day = date(match[1], match[2], match[3])
    if day is None or not match[4]:
        return day
    return f"{day}, {clock(match[4], match[5])}"


def _us_date(match: re.Match[str], _near: Near) -> str | None:
    month, day, years = match.groups()
    if len(years) == 2:
        years = ("20" if int(years) < 50 else "19") + years
    if int(month) > 12 and int(day) <= 12:
        month, day = day, month
    return date(years, month, day) or f"{cardinal(str(int(month)))} slash {cardinal(str(int(day)))} slash {year(years)}"


def _dotted_date(match: re.Match[str], _near: Near) -> str | None:
    return date(match[3], match[2], match[1]) or date(match[3], match[1], match[2])


def _fraction(match: re.Match[str], near: Near) -> str | None:
    above, below = match.groups()
    dated = near.before in _DATED or (near.before, near.before2) == ("of", "as")
    if dated and is_day("2000", above, below):
        return f"{MONTHS[int(above) - 1]} {ordinal(str(int(below)))}"
    if near.before in _EXPIRES and is_day("2000", above, "1") and len(below) == 2:
        return f"{MONTHS[int(above) - 1]} twenty {cardinal(below)}"
    if near.before in _COUNTED_OFF and "." not in above:
        return f"{cardinal(above)} of {cardinal(below)}"
    if below in ("10", "100") and near.after != "of" or (below == "5" and near.after in ("star", "stars")):
        return f"{decimal(above)} out of {cardinal(below)}"
    if "." in above:
        return f"{decimal(above)} {'out of' if below in ('4', '5', '20') else 'over'} {cardinal(below)}"
    if match[0] in _FRACTIONS:
        return _FRACTIONS[match[0]]
    small, large = int(above.replace(",", "")), int(below.replace(",", ""))
    if 3 <= large <= 20 and 0 < small < large:
        return f"{cardinal(above)} {ordinal(below)}{'' if small == 1 else 's'}"
    return f"{cardinal(above)} over {cardinal(below)}"


_EXPIRES = frozenset("exp expires expiry expiration thru until".split())
_COUNTED_OFF = frozenset("step page slide question part phase day episode lesson exercise".split())


def _digits(match: re.Match[str], _near: Near) -> str:
    return ", ".join(by_digit(part) for part in re.split(r"[-.]", match[0].lstrip("+")))


_NUMBERED = frozenset("figure fig table equation eq exhibit".split())
"""One of these has a number with a hyphen; several, as figures, a range."""


def _range(match: re.Match[str], near: Near) -> str | None:
    first, second, unit = match.groups()
    if near.before in _NUMBERED and not unit:
        return f"{decimal(first)} dash {decimal(second)}"
    if len(first) == 4 and first.isdecimal() and second.isdecimal() and not unit:
        if len(second) == 4 and 1000 <= int(first) <= 2199:
            return f"{year(first)} to {year(second)}"
        if len(second) == 2 and int(second) > int(first[2:]) and 1000 <= int(first) <= 2199:
            return f"{year(first)} to {cardinal(second)}"
    if near.before in _MONTH_NAMES and first.isdecimal() and second.isdecimal() and int(second) <= 31:
        return f"{ordinal(first)} to {ordinal(second)}"
    if near.code and first.isdecimal() and second.isdecimal():
        return f"{by_digit(first)}, {by_digit(second)}"
    if not unit:
        return f"{decimal(first)} to {decimal(second)}"
    if unit in ("%", "‰"):
        return f"{decimal(first)} to {decimal(second)} {_percent(unit)}"
    if unit == "x":
        return f"{decimal(first)} to {decimal(second)} times"
    found = units.per(unit)
    return f"{decimal(first)} to {decimal(second)} {found.many}" if found else None


def _range_of_one_unit(match: re.Match[str], _near: Near) -> str | None:
    first, sign, second, other = match.groups()
    unit = units.UNITS.get(sign) if sign == other else None
    return f"{decimal(first)} to {decimal(second)} {unit.many}" if unit else None


def _percent(sign: str) -> str:
    return "percent" if sign == "%" else "per mille"


def _percents(match: re.Match[str], _near: Near) -> str:
    return f"{decimal(match[1])} to {decimal(match[2])} percent"


def _ratio(match: re.Match[str], near: Near) -> str:
    parts = [part.replace(",", "") for part in match[0].split(":")]
    if len(parts) == 2 and re.fullmatch(r"[0-5]\d", parts[1]) and near.before in ("in", "at", "time", "after"):
        return f"{cardinal(parts[0])} {'oh ' if parts[1][0] == '0' else ''}{cardinal(str(int(parts[1])))}"
    return " to ".join(cardinal(str(int(part))) for part in parts)


def _spent(match: re.Match[str], _near: Near) -> str | None:
    """ "1h30m", "2m30s"."""
    hours, minutes, seconds = match.groups()[:3] if match[2] else match.groups()[3:]
    if not hours and not seconds:
        return None
    return _passed(hours, minutes, seconds)


def _dotted(match: re.Match[str], near: Near) -> str | None:
    parts = match[1].split(".")
    if len(parts) == 4 and all(int(part) < 256 for part in parts):
        return " dot ".join(by_digit(part) for part in parts)
    return " point ".join(cardinal(part) for part in parts)


_SHORTENED = {"no": "number", "nos": "numbers", "fig": "figure", "figs": "figures", "p": "page", "pp": "pages",
              "vol": "volume", "ch": "chapter", "sec": "section", "eq": "equation", "ext": "extension",
              "apt": "apartment", "art": "article", "rm": "room"}  # fmt: skip


def _shortened(match: re.Match[str], _near: Near) -> str | None:
    """ "No.1", "p.5": without the blank that belongs between."""
    word = _SHORTENED.get(match[1].lower())
    return f"{word} {cardinal(match[2])}" if word else None


def _version(match: re.Match[str], _near: Near) -> str:
    return "version " + " point ".join(cardinal(part) for part in match[1].split("."))


_HTTP_ERROR = re.compile(r"[45]\d[1-9]")
_ERRORS = frozenset("error errors http status response".split())


def _whole(match: re.Match[str], near: Near) -> str | None:
    """Digits alone: a code, a year, a day, or a count."""
    text = match[0]
    if near.code and len(text) >= 3:
        return by_digit(text)
    if text in ("911", "411", "311", "999", "112") and near.before in (
        "call",
        "dial",
        "phone",
        "calling",
        "dialed",
        "ring",
    ):
        return by_digit(text)
    if re.fullmatch(r"(?:1[1-9]|20)\d\d", text) and _is_year(text, near):
        return year(text)
    if re.fullmatch(r"10[1-9]\d", text) and near.before in ("in", "since", "until", "year") and near.after == "":
        return year(text)
    if _HTTP_ERROR.fullmatch(text) and (near.after in _ERRORS or near.before in _ERRORS):
        return by_digit(text)
    if near.after in ("bc", "ad", "bce", "ce", "b.c", "a.d") and len(text) == 4:
        return year(text)
    if len(text) <= 2 and 1 <= int(text) <= 31:
        if near.before in _MONTH_NAMES:
            return ordinal(text)
        if near.after in _MONTH_NAMES and near.after_as_written[:1].isupper() and near.before not in _MONTH_NAMES:
            return f"{'' if near.before == 'the' else 'the '}{ordinal(text)} of"
    if re.fullmatch(r"[A-Z]{2}", near.before.upper()) and len(text) == 5 and near.before.upper() in _STATES:
        return by_digit(text)
    return by_digit(text) if len(text) > 9 else cardinal(text)


_DATED = frozenset(
    "on by until since before after due dated through starting from mon tue wed thu fri sat sun monday tuesday "
    "wednesday thursday friday saturday sunday".split()
)
_STATES = frozenset(
    "AL AK AZ AR CA CO CT DE FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH OK OR PA "
    "RI SC SD TN TX UT VT VA WA WV WI WY DC".split()
)


def _is_year(text: str, near: Near) -> bool:
    counted = _COUNTED.fullmatch(near.after_as_written) is not None or near.after in MAGNITUDES
    if near.before in _MONTH_NAMES or re.fullmatch(_DAY, near.before):
        return True
    if near.before in _YEAR_AFTER:
        return not (counted and near.after not in ("more", "other", "new"))
    recent = 1800 <= int(text) < 2100
    if near.before in _YEAR_OR_COUNT_AFTER:
        if near.before == "" and not recent:
            return False
        verbal = near.after in ("was", "is", "has", "had", "saw", "will", "and", "to", "or", "")
        return recent and not counted and (near.before != "" or verbal)
    # A name in front: "Windows 2000", "CES 2024".
    return 1950 <= int(text) < 2060 and not counted and near.after in ("", "was", "is", "and", "in", "at", "will")


def _number(match: re.Match[str], _near: Near) -> str:
    text = match[0]
    whole = text.lstrip("+-").partition(".")[0].replace(",", "")
    return by_digit(text) if len(whole) > 9 and "," not in text else decimal(text)


def _measured(match: re.Match[str], near: Near) -> str | None:
    number, sign = match.groups()
    if sign == "x":
        return f"{decimal(number)} times"
    unit = units.per(sign.strip())
    if unit is None:
        return None
    if sign == "m" and (re.fullmatch(r"\d+h", near.before) or re.fullmatch(r"\d+(?:\.\d+)?s", near.after)):
        unit = units.UNITS["min"]
    one = number.lstrip("+-") == "1" or (near.before in ("a", "an") and near.after_as_written[:1].isalpha())
    return f"{decimal(number)} {unit.one if one else unit.many}"


def _scaled(match: re.Match[str], near: Near) -> str | None:
    """ "10M users" is counted in millions; the K of a 4K screen and the B of flat 4B are letters."""
    if match[2] in "BM" and near.after_as_written[:1].isupper():
        return None
    if near.before in _LETTERED or (match[2] == "K" and match[1] in ("2", "4", "5", "8")):
        return None
    if match[2] == "K" and near.before in ("a", "the") and _COUNTED.fullmatch(near.after_as_written) is None:
        return None  # a race
    return f"{decimal(match[1])} {_SUFFIXES[match[2]]}"


_LETTERED = frozenset(
    "apt apartment suite unit room block gate building seat row platform flat phase level grade type appendix exhibit "
    "section no number bus line route pier bay exit door stand lot hall zone terminal track bed "
    "ward locker aisle box page question".split()
)


def _size(match: re.Match[str], _near: Near) -> str | None:
    unit = units.UNITS.get(match[3] or "")
    if match[3] and unit is None:
        return None
    return f"{decimal(match[1])} by {decimal(match[2])}" + (f" {unit.many}" if unit else "")


def _feet(match: re.Match[str], _near: Near) -> str:
    return f"{cardinal(match[1])} foot {cardinal(match[2])}"


def _power(match: re.Match[str], _near: Near) -> str:
    return f"{decimal(match[1])} {power(raised(match[2]))}"


def _scientific(match: re.Match[str], _near: Near) -> str:
    exponent = match[2].lstrip("+")
    return f"{decimal(match[1])} times ten {power(exponent)}"


def _shapes() -> tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Near], str | None]], ...]:
    suffix = r"(k|K|mn|mm|m|M|bn|b|B|tn|T)?"
    table: list[tuple[str, Callable[[re.Match[str], Near], str | None]]] = [
        (rf"([-+]?)({_SIGN})({_NUMBER}){suffix}(?:-(?:{_SIGN})?({_NUMBER}){suffix})?(?:/([A-Za-z]+))?", _money),
        (rf"({_NUMBER})([€£¥₹₩₽₿¢$])", _money_behind),
        (rf"{_CLOCK}(?:{_HALF})?", _time),
        (rf"(\d{{1,2}}(?::[0-5]\d)?)(?:{_HALF})?-(\d{{1,2}}(?::[0-5]\d)?){_HALF}", _times),
        (r"(\d{1,2}:[0-5]\d)()-(\d{1,2}:[0-5]\d)()", _times),
        (r"(\d+):(\d+)-(\d+)", _verses),
        (r"(\d{1,2})-(\d{1,2})-(\d{4})", _us_date),
        (r"(0\d|1[0-2])-(\d\d)-(\d\d)", _us_date),
        (r"(\d{1,2}(?:-\d{1,2}){2})", lambda match, near: ", ".join(map(cardinal, match[0].split("-")))),
        (r"(\d+(?:\.\d+){3}):(\d+)", _port),
        (r"(\d+)°(\d+)'?", lambda match, near: f"{cardinal(match[1])} degrees {cardinal(match[2])} minutes"),
        (r"(\d)/(\d{2,4})s", lambda match, near: f"{cardinal(match[1])} over {cardinal(match[2])} seconds"),
        (r"[xX](\d{2,5})", lambda match, near: f"extension {by_digit(match[1])}" if near.code else None),
        (rf"(\d{{1,2}}){_HALF}", lambda match, near: f"{cardinal(str(int(match[1])))} {match[2].lower()} m"),
        (r"(\d[\d,]*)(?:st|nd|rd|th)", lambda match, near: ordinal(match[1])),
        (r"'?(\d{2})?(\d0)'?s", _decade),
        (r"'(\d\d)", lambda match, near: f"oh {cardinal(match[1][1])}" if match[1][0] == "0" else cardinal(match[1])),
        (rf"([-+]?{_NUMBER})([%‰])", lambda match, near: f"{decimal(match[1])} {_percent(match[2])}"),
        (rf"({_NUMBER})%-({_NUMBER})%", _percents),
        (r"(\d{4})-(\d{1,2})-(\d{1,2})(?:T(\d\d):(\d\d)(?::\d\d(?:\.\d+)?)?(?:Z|[-+]\d\d:?\d\d)?)?", _iso),
        (r"(\d{4})/(\d{1,2})/(\d{1,2})()()", _iso),
        (r"(\d{1,2})[/](\d{1,2})[/](\d{4}|\d{2})", _us_date),
        (r"(\d{1,2})\.(\d{1,2})\.(\d{4})", _dotted_date),
        (r"(\d[\d,]*(?:\.\d+)?)/(\d[\d,]*)", _fraction),
        (r"\+?\d+(?:-\d+){2,}|\d{3}-\d{4}|\+\d{4,}|0\d+-\d+|\d{3}\.\d{3}\.\d{4}", _digits),
        (rf"({_NUMBER})-({_NUMBER})([%‰]|°?[A-Za-zµΩ²³/°]+)?", _range),
        (rf"({_NUMBER})([A-Za-z]+)-({_NUMBER})([A-Za-z]+)", _range_of_one_unit),
        (r"(\d+(?:\.\d+)?)[xX](\d+(?:\.\d+)?)([a-z]+)?", _size),
        (r"(\d+)'(\d{1,2})", _feet),
        (
            r"([QH][1-4])'(\d\d)",
            lambda match, near: f"{match[1][0]} {cardinal(match[1][1])} twenty {cardinal(match[2])}",
        ),
        (r"\d+:\d+(?::\d+)?|\d{1,3}(?:,\d{3})+:\d+", _ratio),
        (r"(?:(\d+)h)?(\d+)m(?:in)?(?:(\d+)s)?|(\d+)h(\d\d)()", _spent),
        (r"(\d+(?:\.\d+){2,})", _dotted),
        (r"[vV](\d+(?:\.\d+)*)", _version),
        (r"([A-Za-z]{1,4})\.(\d+)", _shortened),
        (r"\d+", _whole),
        (rf"[-+]?{_NUMBER}", _number),
        (rf"([-+]?{_NUMBER})(°?[A-Za-zµΩ°‰]*[²³]?[23]?(?:/[A-Za-z]+[²³]?)?)", _measured),
        (rf"({_NUMBER})[eE]([-+]?\d+)", _scientific),
        (rf"({_NUMBER})(k|K|M|bn|mn|B)", _scaled),
        (rf"([-+]?{_NUMBER})([⁰¹²³⁴-⁹⁺⁻ⁿ]+)", _power),
    ]
    return tuple(
        (re.compile(shape, re.IGNORECASE if "[ap]" in shape or "st|nd" in shape else 0), say) for shape, say in table
    )


_SHAPES = _shapes()
