"""Units of measure, currencies and signs: how they are written and what is said for them in either language."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit behind a number. `zh` is "" where Chinese speakers say the letters."""

    one: str
    many: str
    zh: str


_TABLE = """
km kilometer kilometers 公里
m meter meters 米
cm centimeter centimeters 厘米
mm millimeter millimeters 毫米
µm micrometer micrometers 微米
nm nanometer nanometers 纳米
mi mile miles 英里
nmi nautical_mile nautical_miles 海里
yd yard yards 码
yds yard yards 码
ft foot feet 英尺
inch inch inches 英寸
kg kilogram kilograms 公斤
g gram grams 克
mg milligram milligrams 毫克
µg microgram micrograms 微克
t ton tons 吨
lb pound pounds 磅
lbs pound pounds 磅
oz ounce ounces 盎司
l liter liters 升
L liter liters 升
ml milliliter milliliters 毫升
mL milliliter milliliters 毫升
dL deciliter deciliters 分升
cl centiliter centiliters 厘升
gal gallon gallons 加仑
pt pint pints 品脱
qt quart quarts 夸脱
tbsp tablespoon tablespoons 汤匙
tsp teaspoon teaspoons 茶匙
doz dozen dozen 打
ha hectare hectares 公顷
s second seconds 秒
sec second seconds 秒
secs second seconds 秒
ms millisecond milliseconds 毫秒
µs microsecond microseconds 微秒
ns nanosecond nanoseconds 纳秒
min minute minutes 分钟
mins minute minutes 分钟
h hour hours 小时
hr hour hours 小时
hrs hour hours 小时
yr year years 年
yrs year years 年
wk week weeks 周
wks week weeks 周
KB kilobyte kilobytes -
MB megabyte megabytes -
GB gigabyte gigabytes -
TB terabyte terabytes -
kbps kilobit_per_second kilobits_per_second -
Mbps megabit_per_second megabits_per_second 兆比特每秒
Gbps gigabit_per_second gigabits_per_second 千兆比特每秒
Hz hertz hertz 赫兹
kHz kilohertz kilohertz 千赫兹
MHz megahertz megahertz 兆赫兹
GHz gigahertz gigahertz 吉赫兹
W watt watts 瓦
kW kilowatt kilowatts 千瓦
MW megawatt megawatts 兆瓦
GW gigawatt gigawatts 吉瓦
Wh watt_hour watt_hours 瓦时
kWh kilowatt_hour kilowatt_hours 千瓦时
mAh milliamp_hour milliamp_hours 毫安时
V volt volts 伏
kV kilovolt kilovolts 千伏
mV millivolt millivolts 毫伏
A amp amps 安
mA milliamp milliamps 毫安
Ω ohm ohms 欧姆
kΩ kilohm kilohms 千欧
J joule joules 焦耳
kJ kilojoule kilojoules 千焦
cal calorie calories 卡
kcal kilocalorie kilocalories 千卡
N newton newtons 牛
Pa pascal pascals 帕
kPa kilopascal kilopascals 千帕
MPa megapascal megapascals 兆帕
hPa hectopascal hectopascals 百帕
mmHg millimeter_of_mercury millimeters_of_mercury 毫米汞柱
bar bar bars 巴
atm atmosphere atmospheres 个大气压
psi P_S_I P_S_I -
hp horsepower horsepower 马力
mol mole moles 摩尔
mmol millimole millimoles 毫摩尔
dB decibel decibels 分贝
rpm revolution_per_minute revolutions_per_minute 转每分钟
fps frame_per_second frames_per_second 帧每秒
bpm beat_per_minute beats_per_minute 次每分钟
mph mile_per_hour miles_per_hour 英里每小时
kph kilometer_per_hour kilometers_per_hour 公里每小时
kmh kilometer_per_hour kilometers_per_hour 公里每小时
pts point points 分
ppm part_per_million parts_per_million -
bps basis_point basis_points 个基点
pct percent percent -
sqft square_foot square_feet 平方英尺
° degree degrees 度
°C degree_Celsius degrees_Celsius 摄氏度
°F degree_Fahrenheit degrees_Fahrenheit 华氏度
‰ per_mille per_mille -
"""


def _units() -> dict[str, Unit]:
    units = {}
    for line in _TABLE.split("\n"):
        if line:
            sign, *said, zh = line.split(" ")
            one, many = (words.replace("_", " ") for words in said)
            units[sign] = Unit(one, many, "" if zh == "-" else zh)
    for power, word, zh in (("²", "square", "平方"), ("³", "cubic", "立方")):
        for sign in ("km", "m", "cm", "mm", "mi", "ft", "yd", "inch"):
            base = units[sign]
            units[sign + power] = Unit(f"{word} {base.one}", f"{word} {base.many}", zh + base.zh)
            if sign != "mi":
                units[sign + ("2" if power == "²" else "3")] = units[sign + power]
    return units


UNITS = _units()
"""Written unit -> unit. Case counts: MB is no mb."""

APART = frozenset(UNITS) - frozenset("A N J t s l pt cal inch".split())
"""Units that are one even when a blank parts them from their number. Others are words as often."""

DOTTED = {"lb": "lb", "lbs": "lbs", "oz": "oz", "ft": "ft", "in": "inch", "hr": "hr", "hrs": "hrs", "min": "min",
          "sec": "sec", "yd": "yd", "mi": "mi", "tsp": "tsp", "tbsp": "tbsp", "gal": "gal", "yrs": "yrs", "sq": "sq",
          "doz": "doz",
          "kg": "kg", "km": "km", "cm": "cm", "mm": "mm"}  # fmt: skip
"""Units that are also written with a full stop."""


def per(sign: str) -> Unit | None:
    """Unit of "km/h" or "mg/dL": one unit for each of another."""
    if sign in UNITS:
        return UNITS[sign]
    first, slash, second = sign.partition("/")
    top, bottom = UNITS.get(first), UNITS.get(second) or _PERIODS.get(second.lower())
    if slash and top is not None and bottom is None and (squared := UNITS.get(second.removesuffix("²"))) is not None:
        # "m/s²": per second squared.
        one, many = (f"{words} per {squared.one} squared" for words in (top.one, top.many))
        return Unit(one, many, f"{top.zh}每二次方{squared.zh}")
    if not slash or top is None or bottom is None:
        return None
    zh = f"{top.zh or first}每{bottom.zh or second}"
    return Unit(f"{top.one} per {bottom.one}", f"{top.many} per {bottom.one}", zh)


_PERIODS = {
    "hour": Unit("hour", "hours", "小时"),
    "day": Unit("day", "days", "天"),
    "week": Unit("week", "weeks", "周"),
    "month": Unit("month", "months", "月"),
    "mo": Unit("month", "months", "月"),
    "year": Unit("year", "years", "年"),
    "night": Unit("night", "nights", "晚"),
    "person": Unit("person", "people", "人"),
    "minute": Unit("minute", "minutes", "分钟"),
    "second": Unit("second", "seconds", "秒"),
}


def period(sign: str) -> Unit | None:
    """Unit behind the slash of a price: "$20/month", "$5/kg"."""
    return _PERIODS.get(sign.lower()) or UNITS.get(sign)


@dataclass(frozen=True, slots=True)
class Currency:
    """A currency and its hundredth part ("" for none that is said)."""

    one: str
    many: str
    cent: str
    cents: str
    zh: str


_DOLLAR = Currency("dollar", "dollars", "cent", "cents", "美元")
_YUAN = Currency("yuan", "yuan", "fen", "fen", "元")
CURRENCIES = {
    "$": _DOLLAR,
    "£": Currency("pound", "pounds", "penny", "pence", "英镑"),
    "€": Currency("euro", "euros", "cent", "cents", "欧元"),
    "¥": _YUAN,
    "₹": Currency("rupee", "rupees", "paisa", "paise", "卢比"),
    "₩": Currency("won", "won", "", "", "韩元"),
    "₽": Currency("ruble", "rubles", "kopek", "kopeks", "卢布"),
    "₿": Currency("bitcoin", "bitcoins", "", "", "比特币"),
    "US$": Currency("U S dollar", "U S dollars", "cent", "cents", "美元"),
    "A$": Currency("Australian dollar", "Australian dollars", "cent", "cents", "澳元"),
    "C$": Currency("Canadian dollar", "Canadian dollars", "cent", "cents", "加元"),
    "HK$": Currency("Hong Kong dollar", "Hong Kong dollars", "cent", "cents", "港元"),
    "NT$": Currency("Taiwan dollar", "Taiwan dollars", "cent", "cents", "新台币"),
    "S$": Currency("Singapore dollar", "Singapore dollars", "cent", "cents", "新加坡元"),
}
"""Sign in front of an amount -> currency."""

CODES = {
    "USD": Currency("U S dollar", "U S dollars", "cent", "cents", "美元"),
    "EUR": CURRENCIES["€"],
    "GBP": Currency("British pound", "British pounds", "penny", "pence", "英镑"),
    "CNY": _YUAN,
    "RMB": Currency("R M B", "R M B", "", "", "元"),
    "JPY": Currency("Japanese yen", "Japanese yen", "", "", "日元"),
    "HKD": CURRENCIES["HK$"],
    "CHF": Currency("Swiss franc", "Swiss francs", "centime", "centimes", "瑞士法郎"),
    "AUD": CURRENCIES["A$"],
    "CAD": CURRENCIES["C$"],
    "INR": Currency("Indian rupee", "Indian rupees", "paisa", "paise", "卢比"),
    "KRW": Currency("Korean won", "Korean won", "", "", "韩元"),
    "SGD": CURRENCIES["S$"],
}
"""Code beside an amount -> currency."""

SIGNS = {
    "=": ("equals", "等于"),
    "≈": ("is about", "约等于"),
    "≠": ("is not equal to", "不等于"),
    "≤": ("is at most", "小于等于"),
    "≥": ("is at least", "大于等于"),
    "<": ("less than", "小于"),
    ">": ("greater than", "大于"),
    "×": ("times", "乘以"),
    "*": ("times", "乘以"),
    "÷": ("divided by", "除以"),
    "±": ("plus or minus", "正负"),
    "^": ("to the power of", "的"),
    "+": ("plus", "加"),
    "-": ("minus", "减"),
    "→": ("to", "到"),
    ":": ("to", "比"),
    "/": ("divided by", "除以"),
}
"""Sign between two operands -> what is said."""
