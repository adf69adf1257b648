"""A safe part of SSML, and the tags of HTML that part lines: what each leaves in the text.

| tag | what is left |
| --- | --- |
| `<break time="700ms"/>` | a sentence's end and so long a silence, 10 s at most; below half a second a comma's pause |
| `<break strength="strong"/>` | a sentence's end; of one that is not strong or none a comma's pause |
| `<sub alias="…">…</sub>` | the alias |
| `<phoneme alphabet="arpabet" ph="HH AH0 L OW1">…</phoneme>`, `alphabet="pinyin" ph="hao3"` | pronunciation marks |
| `<say-as interpret-as="characters">…</say-as>`, `digits`, `telephone`, `ordinal` | the content, as it is said so |
| `</p>`, `</s>`, `<br>`, `<li>`, `<div>`, `<h1>`, … | a newline |
| `<prosody rate="slow">…</prosody>`, `rate="120%"`, `rate="-20%"` | the content, said at that rate (`rate.py`) |

All other tags go without a word (`speak`, `emphasis`, `voice`, …), and their content is read. Nothing here
is ever an error: a tag of more than 300 characters is none, and an alphabet or a syllable that is not known, a tag that
nothing closes or content of more than 200 characters leaves the content to be read as it is written.
"""

import re
from dataclasses import dataclass
from html import unescape

from oscine_engine.text.marks import typed_marks
from oscine_engine.text.silence import SHORTEST_S

_ATTRIBUTE = re.compile(r"""([A-Za-z_][\w:.-]*)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_ATTRIBUTES = r"""(?:\s+[A-Za-z_][\w:.-]*\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))*\s*"""
_NAMES = "break|sub|phoneme|say-as"
_LINES = "p|s|br|li|ul|ol|div|tr|h[1-6]"
_OPEN = re.compile(rf"<({_NAMES})({_ATTRIBUTES})(/?)>", re.IGNORECASE)
_PROSODY = re.compile(rf"<(/)?prosody(?:({_ATTRIBUTES})(/?))>", re.IGNORECASE)
_LINE = re.compile(rf"</?(?:{_LINES})(?:{_ATTRIBUTES})/?>", re.IGNORECASE)
_PART = re.compile(r"""</?[A-Za-z][A-Za-z0-9-]*(?:\s[^<>]*)?/?""")
_KNOWN = (*_NAMES.split("|"), "p", "s", "br", "li", "ul", "ol", "div", "tr", *(f"h{n}" for n in range(1, 7)))
_LONGEST_TAG = 300
_LONGEST_CONTENT = 200
"""Of a tag in whose content's place something else is read; longer content is read as if there were no tag."""
_ENDS = {name: re.compile(rf"</{name}\s{{0,4}}>", re.IGNORECASE) for name in ("sub", "phoneme", "say-as")}
_LONGEST_END = len("</phoneme    >")
LONGEST = _LONGEST_TAG + _LONGEST_CONTENT + _LONGEST_END
_TAGS = re.compile(r"<[^<>]*>")
_SECONDS = re.compile(r"\s*(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})\s*(ms|s)\s*", re.IGNORECASE)
_SILENT = frozenset(("none",))
_STRONG = frozenset(("strong", "x-strong"))
_ARPABET = frozenset("arpabet x-arpabet cmu-arpabet x-cmu-arpabet cmu x-amazon-arpabet".split())
_PINYIN = frozenset("pinyin x-pinyin x-amazon-pinyin py x-py sapi".split())


@dataclass(frozen=True, slots=True)
class Tag:
    """What is read of a tag, or of all up to the tag that closes it: its length, what it leaves, and what was written
    where that is read, None where nothing was. silence_s: behind what it leaves. Length 0: more is needed."""

    length: int
    left: str
    written: str | None = None
    silence_s: float = 0.0


_MORE = Tag(0, "")


@dataclass(frozen=True, slots=True)
class Prosody:
    """A tag that begins or ends a part with a rate of its own. rate: as it is written, "" for none. empty: it ends
    where it begins. Length 0: more is needed."""

    length: int
    closes: bool = False
    rate: str = ""
    empty: bool = False


def read_prosody(text: str, final: bool) -> Prosody | None:
    """The tag `prosody` at the start of `text`; None for anything else."""
    if (match := _PROSODY.match(text)) is not None and match.end() <= _LONGEST_TAG:
        given = _given(match[2] or "")
        return Prosody(match.end(), bool(match[1]), given.get("rate", ""), bool(match[3]))
    rest = text[: _LONGEST_TAG + 1].lower()
    if final or len(rest) > _LONGEST_TAG:
        return None
    name = rest.removeprefix("</").removeprefix("<")
    begun = "prosody".startswith(name) or (name.startswith("prosody") and _PART.fullmatch(rest) is not None)
    return Prosody(0) if begun and not name[7:8].isalnum() else None


def read_tag(text: str, final: bool) -> Tag | None:
    """The tag of this part of SSML or HTML at the start of `text`; None for anything else. LONGEST characters tell."""
    match = _LINE.match(text)
    if match is not None and match.end() <= _LONGEST_TAG:
        return Tag(match.end(), "\n")
    match = _OPEN.match(text)
    if match is None or match.end() > _LONGEST_TAG:
        return None if final or not _may_become_one(text[: _LONGEST_TAG + 1]) else _MORE
    name, given = match[1].lower(), _given(match[2])
    if name == "break":
        return _pause(match.end(), given)
    left = "" if name == "say-as" else given.get("alias", "") if name == "sub" else _marks(given)
    if match[3] or not (left or name == "say-as"):
        return Tag(match.end(), left)
    until = match.end() + _LONGEST_CONTENT + _LONGEST_END
    end = _ENDS[name].search(text, match.end(), until)
    if end is None and not final and len(text) < until:
        return _MORE
    if end is None or end.start() > match.end() + _LONGEST_CONTENT:
        return Tag(match.end(), "")
    content = unescape(_TAGS.sub("", text[match.end() : end.start()]))
    if name == "say-as":
        left = _said_as(given.get("interpret-as", ""), content)
    return Tag(end.end(), left, content.strip())


def _may_become_one(text: str) -> bool:
    if len(text) > _LONGEST_TAG or not (text in ("<", "</") or _PART.fullmatch(text)):
        return False
    name = re.match(r"</?([A-Za-z0-9-]*)", text)
    if name is None:
        return False
    written = name[1].lower()
    if name.end() < len(text):
        return written in _KNOWN
    return any(known.startswith(written) for known in _KNOWN)


def _given(attributes: str) -> dict[str, str]:
    return {name.lower(): unescape(first or second) for name, first, second in _ATTRIBUTE.findall(attributes)}


def _pause(length: int, given: dict[str, str]) -> Tag:
    strength = given.get("strength", "").lower()
    time = _SECONDS.fullmatch(given.get("time", ""))
    if time is not None:
        seconds = float(time[1]) * (0.001 if time[2].lower() == "ms" else 1.0)
        if seconds >= SHORTEST_S:
            return Tag(length, "\n", silence_s=seconds)
        return Tag(length, ", " if seconds > 0 else "")
    if strength in _SILENT:
        return Tag(length, "")
    return Tag(length, "\n" if strength in _STRONG else ", ")


def _marks(given: dict[str, str]) -> str:
    """Marks for a pronunciation, "" when it is in an alphabet or of a sound that has none."""
    alphabet, sounds = given.get("alphabet", "").lower(), given.get("ph", "").split()
    if alphabet in _ARPABET:
        marks = [f"[{sound.upper()}]" for sound in sounds]
        return "".join(marks) if all(mark in typed_marks() for mark in marks) else ""
    if alphabet not in _PINYIN:
        return ""
    # Reading data is loaded by those who use it.
    from pypinyin.contrib.tone_convert import to_tone

    from oscine_engine.text.mandarin import marks_of

    try:
        return "".join(mark for sound in sounds for mark in marks_of(to_tone(sound.lower())))
    except KeyError:
        return ""


def _said_as(how: str, content: str) -> str:
    content = content.strip()
    match how.lower():
        case "characters" | "spell-out" | "verbatim":
            return " ".join(character.upper() for character in content if not character.isspace())
        case "digits" | "telephone" | "number:digits":
            return " ".join(re.sub(r"[^\w+]", "", content)) if re.search(r"\d", content) else content
        case "ordinal" if content.isdecimal():
            last = "th" if content[-2:-1] == "1" else {"1": "st", "2": "nd", "3": "rd"}.get(content[-1], "th")
            return content + last
    return content
