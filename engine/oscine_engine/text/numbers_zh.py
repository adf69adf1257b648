"""Written numbers as Chinese characters: pure functions from strings to strings."""

import re

DIGITS = "零一二三四五六七八九"
_PLACES = ("", "十", "百", "千")
_GROUPS = ("", "万", "亿", "兆")
_MEASURES = frozenset(
    "个位名只条张本件次天年周岁块元点分秒种杯瓶碗双套辆台座层家间所口头匹棵朵颗把支枝片封份门楼倍里米斤步句段首场节课页项小公"
)
_UNITS = {
    "km": "公里",
    "kg": "公斤",
    "cm": "厘米",
    "mm": "毫米",
    "m": "米",
    "g": "克",
    "ml": "毫升",
    "L": "升",
    "h": "小时",
    "min": "分钟",
    "s": "秒",
    "ms": "毫秒",
    "GB": "G B",
    "°C": "摄氏度",
    "°F": "华氏度",
    "°": "度",
    "km/h": "公里每小时",
}
_MONEY = {"¥": "元", "$": "美元", "€": "欧元", "£": "英镑"}
_CODE_BEFORE = frozenset("编码号话")
_LONGEST_CARDINAL = 16
_NUMBER = r"\d[\d,]*(?:\.\d+)?"


def by_digit(digits: str) -> str:
    """Every digit by its name."""
    return "".join(DIGITS[int(c)] for c in digits if c.isdigit())


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
        words += ("零" if gap else "") + _below_myriad(group) + _GROUPS[index]
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
    """ "3080.50" -> "三千零八十点五零"."""
    sign = "负" if text.startswith("-") else ""
    whole, _, fraction = text.lstrip("-").partition(".")
    return sign + cardinal(whole or "0") + (f"点{by_digit(fraction)}" if fraction else "")


def read_number(text: str, after: str = "", before: str = "") -> str | None:
    """Chinese characters (and commas for pauses) for one chunk, or None when it is no plain number.

    after: the characters that follow, of which the first tells a year or a measure word.
    before: the two characters in front, which tell codes (邮编, 房间号) and ordinals (第).
    """
    if before[-1:] in _CODE_BEFORE and re.fullmatch(r"\d{3,}", text):
        return by_digit(text)
    if before[-1:] == "第" and text.isdigit():
        return cardinal(text)
    if match := re.fullmatch(rf"(-?)([$£€¥])({_NUMBER})([万亿]?)", text):
        amount = match[3].rstrip("0").rstrip(".") if "." in match[3] else match[3]
        unit = "" if after[:1] in ("元", "块") or after.startswith(("美元", "欧元", "英镑")) else _MONEY[match[2]]
        return ("负" if match[1] else "") + decimal(amount) + (unit if after[:1] not in ("万", "亿") else "")
    if match := re.fullmatch(r"(\d{1,2}):([0-5]\d)(?::([0-5]\d))?", text):
        minutes = "" if match[2] == "00" else ("零" if match[2][0] == "0" else "") + cardinal(str(int(match[2]))) + "分"
        seconds = f"{cardinal(str(int(match[3])))}秒" if match[3] else ""
        return f"{_counted(str(int(match[1])), '点')}点{minutes}{seconds}"
    if match := re.fullmatch(rf"(-?{_NUMBER})%", text):
        return f"百分之{decimal(match[1])}"
    if match := re.fullmatch(rf"({_NUMBER})%?-({_NUMBER})%", text):
        return f"百分之{decimal(match[1])}到百分之{decimal(match[2])}"
    if match := re.fullmatch(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})", text):
        return f"{by_digit(match[1])}年{cardinal(str(int(match[2])))}月{cardinal(str(int(match[3])))}日"
    if re.fullmatch(r"\+?\d+(?:-\d+){2,}|\d{3}-\d{4}|\+\d+|0\d+-\d+", text):
        return ",".join(by_digit(part) for part in text.split("-"))
    if match := re.fullmatch(rf"({_NUMBER})-({_NUMBER})", text):
        return f"{decimal(match[1])}到{_counted(match[2], after)}"
    if match := re.fullmatch(r"(\d+)/(\d+)", text):
        return f"{cardinal(match[2])}分之{cardinal(match[1])}"
    if re.fullmatch(r"\d+(?:\.\d+){2,}", text):
        return "点".join(cardinal(part) for part in text.split("."))
    if re.fullmatch(r"\d{4}", text) and after[:1] == "年" and text[0] in "12" and text[1:] != "000":
        return by_digit(text)
    if re.fullmatch(r"\d+", text) and (len(text) > 8 or (len(text) > 1 and text[0] == "0")):
        return by_digit(text)
    if re.fullmatch(rf"-?{_NUMBER}", text):
        if "." in text and after[:1] in ("元", "块"):
            text = text.rstrip("0").rstrip(".")
        return _counted(text, after)
    if match := re.fullmatch(rf"(-?{_NUMBER})(°?[A-Za-z/]*)", text):
        measure = _UNITS.get(match[2])
        return None if measure is None else _counted(match[1], measure) + measure
    return None


def _counted(text: str, after: str) -> str:
    """A count: a lone two before a measure word is 两."""
    return "两" if text == "2" and after[:1] in _MEASURES else decimal(text)
