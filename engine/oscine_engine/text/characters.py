"""Single characters: widths, quotes, dashes and blanks evened out, and which script a letter belongs to."""

import re
import unicodedata


def _numbered(first: int, count: int, form: str) -> dict[str | int, str]:
    """Characters that stand for 1, 2, 3 and so on, each written as `form` says."""
    return {first + n: form.format(n + 1) for n in range(count)}


_PLAIN: dict[str | int, str] = {
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys((0x00A0, 0x3000, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x0009, 0x000B, 0x000C), " "),
    **dict.fromkeys((0x000D, 0x0085, 0x2028, 0x2029), "\n"),
    **dict.fromkeys("’‘ʼ‛´′", "'"),
    **dict.fromkeys("“”„‟«»《》〈〉「」『』〝〞″", '"'),
    **dict.fromkeys("‐‑‒−﹣", "-"),
    **dict.fromkeys("–—―─", "—"),
    **dict.fromkeys("、，﹐", "，"),
    "،": ",",
    **dict.fromkeys("。．｡।॥۔།።", "."),
    **dict.fromkeys("；؛", ";"),
    **dict.fromkeys("？؟", "?"),
    **dict.fromkeys("：∶", ":"),
    "！": "!",
    "…": "...",
    "‥": "..",
    "％": "%",
    "￥": "¥",
    "￡": "£",
    "￠": "¢",
    "￦": "₩",
    "℃": "°C",
    "℉": "°F",
    "º": "°",
    "½": " 1/2",
    "¼": " 1/4",
    "¾": " 3/4",
    "⅓": " 1/3",
    "⅔": " 2/3",
    "⅕": " 1/5",
    "⅛": " 1/8",
    "⅜": " 3/8",
    "⅝": " 5/8",
    "⅞": " 7/8",
    "‽": "?!",
    "¿": "",
    "¡": "",
    **dict.fromkeys("✕✖⨯╳", "×"),
    **dict.fromkeys("∗⋅∙", "*"),
    **dict.fromkeys("➗∕⁄", "/"),
    "➕": "+",
    "➖": "-",
    "⩽": "≤",
    "⩾": "≥",
    "≦": "≤",
    "≧": "≥",
    "≅": "≈",
    **dict.fromkeys("➔➜➡⟶⇒", "→"),
    "μ": "µ",
    "Ω": "Ω",
    "№": "No.",
    "【": "(",
    "〔": "(",
    "】": ")",
    "〕": ")",
    "～": "~",
    "〜": "~",
    "∼": "~",
    "㎡": "m²",
    "㎥": "m³",
    "㎞": "km",
    "㏄": "ml",
    "☎": "",
    "⌘": "Command",
    "⌥": "Option",
    **_numbered(0x2160, 12, "{}"),  # Roman numerals
    **_numbered(0x2170, 12, "{}"),
    **_numbered(0x2460, 20, " {}, "),  # in circles
    **_numbered(0x2776, 10, " {}, "),
    **_numbered(0x2474, 20, "({})"),
    **_numbered(0x2488, 20, "{}. "),
    **{chr(0x3220 + n): f"{c}，" for n, c in enumerate("一二三四五六七八九十")},
}
_TABLE = {ord(key) if isinstance(key, str) else key: value for key, value in _PLAIN.items()}
_INVISIBLE = frozenset(("Cf", "Cs", "Co", "Cn"))
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that show nothing (Unicode: default-ignorable): selectors of forms, fillers, joiners of marks."""
_DRAWN = re.compile("[\u2500-\u25ff]")
"""Lines, blocks and shapes, of which faces are made: a degree sign behind one is an eye."""
_JOINERS = "\u200c\u200d"
_COMPATIBLE = re.compile("[\uf900-\ufaff\U0001d400-\U0001d7ff\ufb00-\ufb06\u3371-\u33df\ua7f3\U0001f130-\U0001f149]")
"""Other forms of letters that are said like the plain ones: bold and slanted alphabets, ligatures, squared units."""
GREEK = {
    "α": ("alpha", "阿尔法"),
    "β": ("beta", "贝塔"),
    "γ": ("gamma", "伽马"),
    "δ": ("delta", "德尔塔"),
    "Δ": ("delta", "德尔塔"),
    "ε": ("epsilon", "艾普西隆"),
    "η": ("eta", "伊塔"),
    "θ": ("theta", "西塔"),
    "λ": ("lambda", "拉姆达"),
    "ξ": ("xi", "克西"),
    "π": ("pi", "派"),
    "ρ": ("rho", "柔"),
    "σ": ("sigma", "西格玛"),
    "Σ": ("sigma", "西格玛"),
    "τ": ("tau", "陶"),
    "φ": ("phi", "斐"),
    "Φ": ("phi", "斐"),
    "χ": ("chi", "卡"),
    "ψ": ("psi", "普西"),
    "ω": ("omega", "欧米伽"),
}
"""A letter that stands alone -> its English and its Chinese name."""


def canonical(text: str, before: str = "") -> str:
    """Width, quotes, dashes and blanks evened out; invisible characters gone but for joiners inside scripts that need
    them. Acts on each character and the one in front of it (`before`: that of the first)."""
    text = text.translate(_TABLE)
    if text.isascii():
        return text
    out: list[str] = []
    for character in text:
        if character in _JOINERS:
            if is_of_other_script(out[-1][-1] if out else before):
                out.append(character)
        elif (
            unicodedata.category(character) in _INVISIBLE
            or _IGNORABLE.match(character)
            or (character == "°" and is_drawn(out[-1][-1] if out else before))
        ):
            continue
        elif _COMPATIBLE.match(character):
            out.append(unicodedata.normalize("NFKC", character))
        else:
            out.append(character)
    return "".join(out)


def is_drawn(character: str) -> bool:
    """A line or a shape, which stands in pictures made of characters."""
    return _DRAWN.match(character) is not None


def is_of_other_script(character: str) -> bool:
    """A letter, a combining mark or a digit that is neither Latin nor Chinese, or a joiner between such."""
    if not character or character.isascii():
        return False
    if character in _JOINERS:
        return True
    category = unicodedata.category(character)
    if category in ("Lu", "Ll", "Lt", "Lo", "Lm"):
        return True
    return category in ("Mn", "Mc", "Nd") and not "\u0300" <= character <= "\u036f"
