"""One written chunk with digits -> Chinese characters, by its shape and by the characters beside it.

Readings hold characters, commas for pauses, and Latin letters and blanks where letters are said.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from oscine_engine.text import units
from oscine_engine.text.numbers_en import is_day
from oscine_engine.text.numbers_zh import by_digit, cardinal, decimal, power
from oscine_engine.text.readings_en import raised
from oscine_engine.text.units import CURRENCIES


@dataclass(frozen=True, slots=True)
class Beside:
    """The Chinese around a number."""

    before: str = ""
    """Characters directly in front."""
    after: str = ""
    """The next one or two characters, blanks left out."""
    latin: str = ""
    """A Latin word in front, across a blank."""
    recent: str = ""
    """Up to a dozen characters in front with blanks left out, across colons and commas."""


_MEASURES = frozenset(
    "个位名只条张本件次天年周岁块元点分秒种杯瓶碗双套辆台座层家间所口头匹棵朵颗把支枝片封份门倍里米斤步句段首场节课页项小公"
    "升克千立平包盒箱袋罐串滴勺杆株幅款类组队对批群堆列笔单桌人晚夜顿趟遍局轮季集圈根艘架部万亿美欧英港日星厅场例刻打成寸寻吨尺团餐"
)
_ORDINAL_AFTER = ("年级", "日", "楼", "星级", "人行道", "单元")
"""Behind these a two is 二 although a measure word seems to follow."""
_CODES = re.compile(
    r"(?:编号|单号|号码|尾号|卡号|账号|帐号|证号|工号|学号|房号|运单|订单|流水号|序列号|邮编|密码|口令|验证码|校验码|取件码|核销码|代码|错误码|状态码|会议号|(?<![A-Za-z])ID|电话|手机|座机"
    r"|传真|热线|拨打|拨|致电|客服|微信|QQ|来电|短信|回复|房间|航班|车次|股票|联系方式|总机|分机|转|身份证|车牌|按)"
    r"(?:后四位|号|号码|是|为|:|，|,|至|到|转)*$"
    r"|(?:单元|号楼|栋|幢|层)$|(?:端口|port)(?:号|是|为|:)*$"
)
_LISTED = re.compile(r"[036]\d{5}")
"""The number of a share, in brackets behind its name."""
_SCORE_AFTER = frozenset("胜负战逼击输赢领落告逆横险完淘")
_NUMBERED_PLACES = ("室", "房", "会议", "教室", "包间", "包厢", "病房", "办公", "号房", "次列", "次航", "次高", "航班")
_SERVICE = re.compile(r"1[12]\d|9[56]\d{3}|123\d\d|100(?:00|10|11|16|50|80|86|99)|400\d{7}|800\d{7}")
_NO_SERVICE_AFTER = frozenset("个元块人名只台辆件年天米吨公万亿美次度分套户家页字平步")
_HOTLINES = ("报警", "急救", "火警", "热线", "电话", "客服", "指挥", "服务", "平台")
_SPENT = re.compile(r"(?:用时|耗时|历时|时长|成绩)[了为是:]?$")
"""Behind these a time is how long something took."""
_SPAN_BEFORE = frozenset("了近约超过达有存历跨余")
_SCORE = re.compile(
    r"(?:比分|战胜|击败|领先|大胜|完胜|险胜|落后|不敌|战平|逆转|比例|配比|之比|以|按|胜|负|平)[了为是:]?$"
)
_NUMBER = r"(?:\d[\d,]*(?:\.\d+)?|\.\d+)"
_SIGN = "|".join(re.escape(sign) for sign in sorted(CURRENCIES, key=len, reverse=True))
_CURRENCY_WORDS = ("元", "块", "美元", "欧元", "英镑", "日元", "港元", "港币", "人民币", "美金")
_SUFFIXES = {"k": 3, "K": 3, "m": 6, "M": 6, "b": 9, "B": 9, "bn": 9, "w": 4, "W": 4}
_SPEEDS = re.compile(r"(km|m|mi|L|ml|mL)/(h|s|min)")


def read_number(text: str, beside: Beside | None = None) -> str | None:
    """What is said for one chunk that holds digits, or None when it is no shape known here."""
    beside = beside or Beside()
    for shape, say in _SHAPES:
        match = shape.fullmatch(text)
        if match is not None:
            said = say(match, beside)
            if said is not None:
                return said
    return None


def is_code(recent: str) -> bool:
    """True when the characters in front say that a code or a telephone number follows."""
    return _CODES.search(recent) is not None


def counted(text: str, after: str) -> str:
    """A count: a lone two before a measure word is 两."""
    if text.lstrip("+-") == "2" and after[:1] in _MEASURES and after[:1] and not after.startswith(_ORDINAL_AFTER):
        return decimal(text)[:-1] + "两"
    return decimal(text)


def clock(hours: str, minutes: str, seconds: str = "") -> str:
    """ "8", "05" -> "八点零五分"."""
    said = f"{'两' if int(hours) == 2 else cardinal(str(int(hours)))}点"
    if minutes != "00" or seconds:
        said += f"{'零' if minutes[0] == '0' and minutes != '00' else ''}{cardinal(str(int(minutes)))}分"
    return said + (f"{cardinal(str(int(seconds)))}秒" if seconds else "")


def _money(match: re.Match[str], beside: Beside) -> str | None:
    sign, symbol, amount, suffix, upper, behind = match.groups()
    named = beside.after.startswith(_CURRENCY_WORDS)
    large = beside.after[:1] in ("万", "亿", "千", "百") and bool(beside.after)
    unit = "" if named or large else CURRENCIES[symbol].zh
    said = {"-": "负", "+": "正"}.get(sign, "") + _amount(amount, suffix, unit or beside.after)
    if upper:
        said += "到" + _amount(upper, None, unit or beside.after)
    per = units.period(behind) if behind else None
    if behind and per is None:
        return None
    return said + unit + (f"每{per.zh}" if per else "")


def _amount(amount: str, suffix: str | None, after: str) -> str:
    if "." in amount:
        amount = amount.rstrip("0").rstrip(".")
    if suffix:
        return _shifted(amount, _SUFFIXES[suffix])
    return counted(amount, after)


def _shifted(amount: str, places: int) -> str:
    """ "1.5", 6 -> "一百五十万"."""
    whole, _, fraction = amount.replace(",", "").partition(".")
    if len(fraction) > places:
        return decimal(amount)
    digits = (whole + fraction).lstrip("0") + "0" * (places - len(fraction))
    for size, name in ((8, "亿"), (4, "万")):
        if len(digits) > size:
            rest = digits[-size:].rstrip("0")
            head = digits[:-size] + (f".{rest}" if rest else "")
            return counted(head, name) + name
    return cardinal(digits)


def _money_behind(match: re.Match[str], _beside: Beside) -> str | None:
    amount, symbol = match.groups()
    return _amount(amount, None, "美") + ("美分" if symbol == "¢" else CURRENCIES[symbol].zh)


def _time(match: re.Match[str], beside: Beside) -> str | None:
    hours, minutes, seconds = match.groups()
    if _SPENT.search(beside.recent):
        names = ("小时", "分", "秒") if seconds else ("分", "秒")
        return "".join(
            counted(str(int(part)), name) + name for part, name in zip(match[0].split(":"), names, strict=True)
        )
    if int(hours) > 24 or _SCORE.search(beside.recent):
        return None
    return clock(hours, minutes, "" if seconds in (None, "00") else seconds)


def _times(match: re.Match[str], _beside: Beside) -> str | None:
    first, first_minutes, second, second_minutes = match.groups()
    if int(first) > 24 or int(second) > 24:
        return None
    return f"{clock(first, first_minutes)}到{clock(second, second_minutes)}"


def _ratio(match: re.Match[str], _beside: Beside) -> str:
    return "比".join(cardinal(str(int(part))) if "." not in part else decimal(part) for part in match[0].split(":"))


def _percent(match: re.Match[str], _beside: Beside) -> str:
    number, sign = match.groups()
    plus = "正" if number[0] == "+" else ""
    return f"{plus}{'百' if sign == '%' else '千'}分之{decimal(number.lstrip('+'))}"


def _percents(match: re.Match[str], _beside: Beside) -> str:
    return f"百分之{decimal(match[1])}到百分之{decimal(match[2])}"


def _date(match: re.Match[str], _beside: Beside) -> str | None:
    years, months, days = match[1], match[2], match[3]
    if not is_day(years, months, days):
        return None
    said = f"{by_digit(years)}年{cardinal(str(int(months)))}月{cardinal(str(int(days)))}日"
    if match.lastindex and match.lastindex >= 5:
        said += clock(match[4], match[5])
    return said


def _grouped_digits(match: re.Match[str], _beside: Beside) -> str:
    return ",".join(by_digit(part) for part in match[0].lstrip("+").split("-"))


def _years(match: re.Match[str], beside: Beside) -> str | None:
    first, second = match.groups()
    if beside.after[:1] not in ("年", "赛", "学", "财") or not beside.after:
        return None
    return f"{by_digit(first)}到{by_digit(second)}"


def _range(match: re.Match[str], beside: Beside) -> str | None:
    first, second, sign = match.groups()
    after = beside.after[:1]
    if _CODES.search(beside.recent) and first.isdecimal() and second.isdecimal() and len(first + second) > 5:
        return f"{by_digit(first)},{by_digit(second)}"
    if sign and sign in ("%", "‰"):
        return (
            f"{'百' if sign == '%' else '千'}分之{decimal(first)}到{'百' if sign == '%' else '千'}分之{decimal(second)}"
        )
    if not sign:
        if beside.recent[-1:] in ("图", "表") and after not in _MEASURES - {""}:
            return f"{decimal(first)}杠{decimal(second)}"
        if re.fullmatch(r"(?:19|20)\d\d", second) and re.fullmatch(r"[3-9]\d{3}|\d{5}", first):
            return f"{by_digit(first)},{by_digit(second)}"  # a standard and its year
        if beside.before[-1:] == "满" and beside.before and first.isdecimal() and second.isdecimal():
            return f"{cardinal(first)}减{cardinal(second)}"
        falling = first.isdecimal() and second.isdecimal() and int(second) <= int(first) < 200
        if falling and not after:
            return f"{decimal(first)}比{decimal(second)}"
        if second == "0" or _SCORE.search(beside.recent) or (after in _SCORE_AFTER and len(first) < 4):
            return f"{decimal(first)}比{decimal(second)}"
        return f"{counted(first, beside.after)}到{counted(second, beside.after)}"
    if speed := _speed(f"{decimal(first)}到{decimal(second)}", sign):
        return speed
    unit = units.per(sign)
    return f"{counted(first, unit.zh)}到{counted(second, unit.zh)}{unit.zh or _spelled(sign)}" if unit else None


def _range_of_one_unit(match: re.Match[str], _beside: Beside) -> str | None:
    first, sign, second, other = match.groups()
    unit = units.UNITS.get(sign) if sign == other else None
    return f"{counted(first, unit.zh)}到{counted(second, unit.zh)}{unit.zh or _spelled(sign)}" if unit else None


def _lap(match: re.Match[str], _beside: Beside) -> str:
    return f"{cardinal(match[1])}分{cardinal(str(int(match[2])))}秒"


def _fraction(match: re.Match[str], beside: Beside) -> str:
    if match[1][0] == "0" and len(match[2]) == 2 and re.search("有效期[至到为:]*$", beside.recent):
        return f"{by_digit('20' + match[2])}年{cardinal(str(int(match[1])))}月"
    if int(match[1]) > int(match[2]) >= 40:
        return f"{cardinal(match[1])},{cardinal(match[2])}"  # a blood pressure
    dated = beside.recent[-1:] in ("至", "到", "于", "止") or beside.after[:1] in ("前", "起", "止")
    dated = (dated and beside.recent + beside.after != "") or int(match[1]) > int(match[2])
    if dated and is_day("2000", match[1], match[2]):
        return f"{cardinal(str(int(match[1])))}月{cardinal(str(int(match[2])))}日"
    return f"{cardinal(match[2])}分之{cardinal(match[1])}"


def _dotted(match: re.Match[str], _beside: Beside) -> str:
    parts = match[0].lstrip("vV").split(".")
    address = len(parts) == 4 and all(int(part) < 256 for part in parts)
    return "点".join(by_digit(part) if address else cardinal(part) for part in parts)


def _version(match: re.Match[str], _beside: Beside) -> str:
    return "V" + "点".join(cardinal(part) for part in match[1].split("."))


def _whole(match: re.Match[str], beside: Beside) -> str | None:
    """Digits alone: a code, a year, a decade, or a count."""
    text, after, before = match[0], beside.after, beside.before
    if before[-1:] == "第":
        return cardinal(text)
    if (
        len(text) >= 3
        and (_CODES.search(beside.recent) or after.startswith(_NUMBERED_PLACES))
        and after[:1] not in (*"元块个万亿米天年",)
    ):
        return by_digit(text)
    if after[:1] == "年" and (read := _year(text, beside)) is not None:
        return read
    if after.startswith("年代") and len(text) == 4:
        return by_digit(text)
    if after[:1] == "后" and len(text) == 2 and text[1] in "05" and not before[-1:].isdecimal():
        return by_digit(text)
    if _SERVICE.fullmatch(text) and (
        (len(text) == 3 and (before[-1:] in ("打", "拨", "按") or after.startswith(_HOTLINES)))
        or (
            text in ("110", "119", "120", "122")
            and not after
            and re.search("电话|报警|急救|火警|热线|拨", beside.recent)
        )
        or (len(text) > 3 and after[:1] not in _NO_SERVICE_AFTER and not text.endswith("000"))
    ):
        return by_digit(text)
    if (beside.recent[-1:] == "(" and _LISTED.fullmatch(text)) or (
        len(text) == 2 and not after and re.search(r"\d[秒米]$", beside.recent)
    ):
        return by_digit(text)
    if _ERROR.fullmatch(text) and (after[:1] == "错" or after == "报错"):
        return by_digit(text)
    if len(text) == 5 and _PLATE.search(beside.recent):
        return by_digit(text)
    if len(text) == 3 and ((text, after) in _NAMES or (text in ("985", "211", "996") and not after)):
        return by_digit(text)
    if len(text) == 4 and 1950 <= int(text) < 2100 and after[:1] in _EDITIONS and after:
        return by_digit(text)
    if 3 <= len(text) <= 4 and beside.latin.isupper() and after[:1] not in (_MEASURES | _NO_SERVICE_AFTER):
        return by_digit(text)
    if len(text) == 3 and after[:1] == "路" and text[1:] != "00":
        return by_digit(text)
    if len(text) > 8 or (len(text) > 1 and text[0] == "0"):
        return by_digit(text)
    return None


_ERROR = re.compile(r"[45]\d[1-9]")
_PLATE = re.compile(r"[京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼][A-Z]$")
"""How the number of a car begins: 京A."""
_NAMES = frozenset(
    [
        *(("618", after) for after in ("大促", "购物", "活动", "期间", "电商")),
        *((name, after) for name in ("985", "211") for after in ("高校", "大学", "院校", "工程", "毕业")),
        *(("996", after) for after in ("工作", "加班", "模式")),
        ("315", "晚会"),
        ("520", "快乐"),
        ("110", "报警"),
        ("007", "系列"),
    ]
)


_EDITIONS = frozenset("版款届级赛春秋冬夏奥世财学")
"""Behind these characters four digits are a year: 2019版."""
_NAMED_DAYS = ("晚会", "假期", "黄金", "国庆")
_MODELS = frozenset("歼轰运直风舟征娥宫问图表型")
"""Behind these a hyphen joins a model's number: 歼-20, 图-2."""


def _year(text: str, beside: Beside) -> str | None:
    """Digit by digit before 年, unless it is a span of years."""
    span = beside.before[-1:] in _SPAN_BEFORE or beside.after.startswith(
        ("年历", "年来", "年间", "年级", "年以", "年的历")
    )
    if len(text) == 4 and text[0] in "12":
        recent = 1900 <= int(text) < 2100
        if text[1:] == "000":
            return by_digit(text) if text == "2000" and not span else None
        return by_digit(text) if recent or not span else None
    if (beside.before == "前" or beside.before.endswith(("公元", "公元前", "西元"))) and len(text) == 3:
        return by_digit(text)
    return None


def _number(match: re.Match[str], beside: Beside) -> str:
    text = match[0]
    if (named := re.fullmatch(r"(\d|10)\.(\d{1,2})", text)) and beside.after in _NAMED_DAYS:
        return cardinal(named[1]) + by_digit(named[2])
    if re.fullmatch(r"-\d+", text) and beside.before[-1:] in _MODELS and beside.before:
        return cardinal(text[1:])
    if re.fullmatch(r"-\d+", text) and beside.before and beside.before[-1] == beside.after[:1]:
        return "到" + counted(text[1:], beside.after)  # 8点-10点
    if beside.after[:1] in ("元", "块") and "." in text and beside.after:
        text = text.rstrip("0").rstrip(".")
    if text[0] == "-" and beside.after[:1] == "度" and beside.after:
        return "零下" + decimal(text[1:])
    return counted(text, beside.after)


def _measured(match: re.Match[str], _beside: Beside) -> str | None:
    number, sign = match.groups()
    if sign in ("°C", "°F", "°") and number[0] == "-":
        return f"零下{decimal(number[1:])}{units.UNITS[sign].zh}"
    if speed := _speed(decimal(number), sign):
        return speed
    unit = units.per(sign)
    if unit is None or sign in ("A", "N", "T", "K"):
        return None
    return counted(number, unit.zh) + (unit.zh or _spelled(sign))


def _speed(number: str, sign: str) -> str | None:
    """ "六十", "km/h" -> "每小时六十公里"."""
    match = _SPEEDS.fullmatch(sign)
    if match is None:
        return None
    return f"每{units.UNITS[match[2]].zh.removesuffix('钟')}{number}{units.UNITS[match[1]].zh}"


def _spelled(letters: str) -> str:
    return " ".join(letters)


def _temperatures(match: re.Match[str], _beside: Beside) -> str | None:
    first, second, sign = match.groups()
    unit = units.UNITS.get(sign)
    if unit is None:
        return None
    low = f"零下{decimal(first[1:])}" if first[0] == "-" else decimal(first)
    high = f"零下{decimal(second[1:])}" if second[0] == "-" else decimal(second)
    return f"{low}到{high}{unit.zh}"


def _power(match: re.Match[str], _beside: Beside) -> str | None:
    said, sign = power(decimal(match[1]), raised(match[2])), match[3]
    if not sign:
        return said
    unit = units.per(sign)
    return None if unit is None else said + (unit.zh or _spelled(sign))


def _scientific(match: re.Match[str], _beside: Beside) -> str:
    return f"{decimal(match[1])}乘以{power('十', match[2].lstrip('+'))}"


def _pressure(match: re.Match[str], _beside: Beside) -> str | None:
    unit = units.per(match[3])
    if unit is None or not unit.zh:
        return None
    if int(match[1]) < int(match[2]):
        return f"{cardinal(match[2])}分之{cardinal(match[1])}{unit.zh}"
    return f"{cardinal(match[1])},{cardinal(match[2])}{unit.zh}"


def currency(text: str) -> str:
    """The unit of an amount that begins with its sign, "" for other chunks."""
    match = re.match(_SIGN, text)
    return CURRENCIES[match[0]].zh if match else ""


def _scaled(match: re.Match[str], _beside: Beside) -> str | None:
    if match[2] in "kK" and match[1] in ("2", "4", "8"):
        return None
    return _shifted(match[1], _SUFFIXES[match[2]])


def _train(match: re.Match[str], beside: Beside) -> str | None:
    """Flights, trains and number plates: letters, then digits one by one."""
    return f"{_spelled(match[1])} {by_digit(match[2])}"


_SHAPES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Beside], str | None]], ...] = tuple(
    (re.compile(shape), say)
    for shape, say in (
        (rf"([-+]?)({_SIGN})({_NUMBER})(k|K|m|M|b|B|bn|w|W)?(?:-(?:{_SIGN})?({_NUMBER}))?(?:/([A-Za-z]+))?", _money),
        (rf"({_NUMBER})([€£¥₹₩₽₿¢$])", _money_behind),
        (r"(\d{1,2}):([0-5]\d)(?::([0-5]\d))?", _time),
        (r"(\d{1,2}):([0-5]\d)-(\d{1,2}):([0-5]\d)", _times),
        (r"\d+(?:\.\d+)?(?::\d+(?:\.\d+)?)+", _ratio),
        (rf"([-+]?{_NUMBER})([%‰])", _percent),
        (rf"({_NUMBER})%-({_NUMBER})%", _percents),
        (r"(\d{4})-(\d{1,2})-(\d{1,2})(?:T(\d\d):(\d\d)(?::\d\d(?:\.\d+)?)?(?:Z|[-+]\d\d:?\d\d)?)?", _date),
        (r"(\d{4})/(\d{1,2})/(\d{1,2})", _date),
        (r"((?:19|20)\d\d)\.(\d{1,2})\.(\d{1,2})", _date),
        (r"\+?\d+(?:-\d+){2,}|\d{3}-\d{4}|\+\d+(?:-\d+)*(?=$)(?<=\d{5})|0\d+-\d+", _grouped_digits),
        (r"((?:1[5-9]|20)\d\d)-((?:1[5-9]|20)\d\d)", _years),
        (rf"(-?{_NUMBER})-(-?{_NUMBER})(°[CF]?)", _temperatures),
        (rf"({_NUMBER})-({_NUMBER})([%‰]|[A-Za-zµΩ²³/°]+)?", _range),
        (r"(\d+)/(\d+)", _fraction),
        (r"(\d+\.\d+)/(\d+)", lambda match, beside: f"{cardinal(match[2])}分之{decimal(match[1])}"),
        (r"(\d+)h(\d+)m(?:in)?", lambda match, beside: f"{counted(match[1], '小')}小时{cardinal(match[2])}分钟"),
        (r"(\d+)/(\d+)([A-Za-z]+)", _pressure),
        (rf"({_NUMBER})([A-Za-z]+)-({_NUMBER})([A-Za-z]+)", _range_of_one_unit),
        (r"(\d+)'(\d{2})", _lap),
        (rf"({_NUMBER})[xX]({_NUMBER})", lambda match, beside: f"{decimal(match[1])}乘{decimal(match[2])}"),
        (r"[vV]?\d+(?:\.\d+){2,}", _dotted),
        (r"(\d+(?:\.\d+){3}):(\d+)", lambda match, beside: f"{read_number(match[1])}冒号{by_digit(match[2])}"),
        (r"(\d+)°(\d+)'?", lambda match, beside: f"{cardinal(match[1])}度{cardinal(match[2])}分"),
        (r"[vV](\d+(?:\.\d+)*)", _version),
        (r"[Nn][Oo]\.?(\d+)", lambda match, beside: f"第{cardinal(match[1])}"),
        (r"([A-Z]{1,3})(\d{3,5})", _train),
        (r"\d+", _whole),
        (rf"[-+]?{_NUMBER}", _number),
        (rf"([-+]?{_NUMBER})(°?[A-Za-zµΩ°]*[²³]?[23]?(?:/[A-Za-z]+[²³]?)?)", _measured),
        (rf"({_NUMBER})[eE]([-+]?\d+)", _scientific),
        (rf"({_NUMBER})([kKwW])", _scaled),
        (rf"([-+]?{_NUMBER})([⁰¹²³⁴-⁹⁺⁻ⁿ]+)([A-Za-z]+(?:/[A-Za-z]+[²³]?)?)?", _power),
    )
)
