"""Written numbers as Chinese characters: pure functions from strings to strings."""

DIGITS = "零一二三四五六七八九"
_PLACES = ("", "十", "百", "千")
_GROUPS = ("", "万", "亿", "兆")
_LONGEST_CARDINAL = 16


def by_digit(digits: str) -> str:
    """Every digit by its name."""
    return "".join(DIGITS[int(c)] for c in digits if c.isdecimal())


def cardinal(digits: str) -> str:
    """ "1234567" -> "一百二十三万四千五百六十七"; leading zeros and very long runs are read digit by digit."""
    digits = digits.replace(",", "")
    if len(digits) > 1 and digits[0] == "0" or len(digits) > _LONGEST_CARDINAL:
        return by_digit(digits)
    if int(digits) == 0:
        return "零"
    groups = [int(digits[max(0, end - 4) : end]) for end in range(len(digits), 0, -4)]
    words = ""
    for index in range(len(groups) - 1, -1, -1):
        group = groups[index]
        if group == 0:
            continue
        gap = words and (group < 1000 or groups[index + 1] == 0)
        counted = "两" if group == 2 and index and not words else _below_myriad(group)
        words += ("零" if gap else "") + counted + _GROUPS[index]
    return words.removeprefix("一") if words.startswith("一十") else words


def _below_myriad(number: int) -> str:
    words, zero = "", False
    for place in range(3, -1, -1):
        digit = number // 10**place % 10
        if digit == 0:
            zero = bool(words)
            continue
        two = "两" if digit == 2 and place >= 2 else DIGITS[digit]
        words += ("零" if zero else "") + two + _PLACES[place]
        zero = False
    return words


def decimal(text: str) -> str:
    """ "3080.50" -> "三千零八十点五零"; a leading sign is spoken."""
    sign = {"-": "负", "+": "正"}.get(text[:1], "")
    whole, _, fraction = text.lstrip("+-").partition(".")
    return sign + cardinal(whole or "0") + (f"点{by_digit(fraction)}" if fraction else "")


def power(base: str, exponent: str) -> str:
    """Base and exponent: "十", "8" -> "十的八次方"."""
    if exponent in ("2", "3"):
        return f"{base}的{'平' if exponent == '2' else '立'}方"
    return f"{base}的{decimal(exponent)}次方"
