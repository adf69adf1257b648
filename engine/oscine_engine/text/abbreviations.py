"""Shortened words, set phrases and the words that tell how the number behind them is said."""

from oscine_engine.text.readings_en import MONTHS_SHORT

TITLES = {
    "mr": "mister", "mrs": "missus", "ms": "miz", "dr": "doctor", "prof": "professor", "st": "saint", "mt": "mount",
    "jr": "junior", "sr": "senior", "vs": "versus", "approx": "approximately", "dept": "department", "gen": "general",
    "capt": "captain", "sgt": "sergeant", "rev": "reverend", "gov": "governor", "sen": "senator", "lt": "lieutenant",
    "col": "colonel", "maj": "major", "hon": "honorable", "fig": "figure", "figs": "figures", "ext": "extension",
    "rm": "room", "apt": "apartment", "ave": "avenue", "blvd": "boulevard", "rd": "road", "hwy": "highway",
    "rte": "route",
    "inc": "incorporated", "ltd": "limited", "corp": "corporation", "co": "company", "bros": "brothers",
    "est": "established", "vol": "volume", "ed": "edition", "pp": "pages", "eq": "equation", "sec": "section",
    "op": "opus", "exp": "expires",
    "ch": "chapter", "max": "maximum", "min": "minimum", "avg": "average", "temp": "temperature",
    "govt": "government", "univ": "university", "tel": "telephone", "dob": "date of birth", "qty": "quantity",
    "ref": "reference", "art": "article", "attn": "attention", "misc": "miscellaneous",
    "assn": "association", "intl": "international",
    "natl": "national", "ariz": "Arizona", "calif": "California", "colo": "Colorado", "conn": "Connecticut",
    "fla": "Florida", "mich": "Michigan", "minn": "Minnesota", "okla": "Oklahoma", "tenn": "Tennessee",
    "wis": "Wisconsin", "wyo": "Wyoming", "esp": "especially", "incl": "including", "excl": "excluding",
    "ca": "circa", "cf": "compare", "mon": "Monday", "tue": "Tuesday", "tues": "Tuesday",
    "wed": "Wednesday", "thu": "Thursday", "thur": "Thursday", "thurs": "Thursday", "fri": "Friday",
    "sat": "Saturday", "sun": "Sunday", **{short: name for short, name in MONTHS_SHORT.items() if short != "may"},
}  # fmt: skip
"""Shortened words, in full only before a full stop (except ALWAYS_TITLES)."""
ALWAYS_TITLES = frozenset({"mr", "mrs", "dr", "vs", "prof", "blvd", "approx"})
BEFORE_NUMBERS = frozenset("ext apt fig figs rm vol pp eq ch".split())
"""Shortened words that need no full stop in front of a number."""
WORDS_TOO = frozenset(
    "sun sat wed fig gen rev est sec min ed col co st sen temp ref art op exp max ch mar jun dec sep oct nov ca".split()
)
"""Shortened words that, with a full stop at the end of a sentence, are words or names of their own."""
NAMES_FIRST = frozenset(
    "inc ltd co corp jr sr bros ave blvd rd st ariz calif colo conn fla mich minn okla tenn wis wyo".split()
)
"""Shortened words that stand behind a name, so that a capital behind their full stop begins a sentence."""
WHOLE = {
    "e.g": "for example", "i.e": "that is", "w/o": "without", "w/": "with", "b/c": "because",
    "24/7": "twenty four seven", "etc": "et cetera", "'n": "and", "wi-fi": "wifi", "e-mail": "email", "&": "and",
    "@": "at", "%": "percent", "+": "plus", "$": "dollars", "£": "pounds", "€": "euros", "°c": "degrees Celsius",
    "°f": "degrees Fahrenheit", "°": "degrees", "¥": "yuan", "km/h": "kilometers per hour", "mph": "miles per hour",
    "cmd": "command", "ctrl": "control", "wwi": "World War one", "wwii": "World War two",
}  # fmt: skip
"""Whole chunks, in lower case, and what is said for them."""
WHOLE_CHINESE = {
    "&": "和", "+": "加", "%": "百分号", "°c": "摄氏度", "°f": "华氏度", "°": "度", "¥": "元", "$": "美元",
    "€": "欧元", "£": "英镑", "km/h": "公里每小时", "kg": "公斤", "km": "公里", "cm": "厘米", "mm": "毫米",
    "ml": "毫升", "mg": "毫克", "m²": "平方米", "m³": "立方米", "km²": "平方公里", "kwh": "千瓦时",
}  # fmt: skip
"""The same beside Chinese."""
CODE_WORDS = frozenset(
    "code codes pin otp passcode password zip postcode postal phone telephone tel mobile cell fax extension ext "
    "account tracking reference confirmation booking invoice serial ending hotline dial call text order ticket case "
    "card room flight ssn id imei isbn routing port".split()
)
CODE_LINKS = frozenset(
    "number numbers no is was at on in ending ends id code of the to your with us me my now or and digits".split()
)
"""Words that may stand between such a word and its digits."""
NUMBERED_BY_ROMANS = frozenset(
    "chapter part volume act scene phase type book level stage class figure table appendix section article title war "
    "bowl grade unit episode season mark world".split()
)
RULERS = frozenset(
    "henry louis george edward charles elizabeth richard james william philip paul pius benedict francis leo gregory "
    "napoleon nicholas alexander catherine ferdinand frederick otto ramesses ptolemy wilhelm john".split()
)
_ROMAN = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
ROMANS = {
    (tens + ones).upper(): number * 10 + place
    for number, tens in enumerate(("", "x", "xx", "xxx"))
    for place, ones in enumerate(_ROMAN)
    if tens or ones
}
DAYS = {"Mon": "Monday", "Tue": "Tuesday", "Tues": "Tuesday", "Wed": "Wednesday", "Thu": "Thursday",
         "Thurs": "Thursday", "Fri": "Friday", "Sat": "Saturday", "Sun": "Sunday"}  # fmt: skip
SHORT_MONTHS = {short.title(): name for short, name in MONTHS_SHORT.items() if short != "may"}
