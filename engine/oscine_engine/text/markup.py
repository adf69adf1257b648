"""What is never said, taken out before sentences are cut: code, tool calls, targets of links, escapes.

These may hold full stops, newlines and colons that end nothing, so they go before anybody looks for the end of a
sentence. Only what may still turn out to be one of them is held back: some characters behind `<`, `]`, `&`, a
backslash or a backquote. Headings, bullets, emphasis and tables need no look ahead; the scanner and the verbaliser see
to them.

| written | what is left |
| --- | --- |
| code between ``` and ``` or ~~~ and ~~~ | a newline |
| `<think>`, `<tool_call>` and the like, to the closing tag | a newline |
| `<!-- comment -->` | nothing |
| `<break/>`, `<sub alias>`, `<phoneme>`, `<say-as>`, `<br>`, `<prosody rate>` | see `ssml.py` |
| `[text](target)`, `![text](target)` | `[text]`, `![text]` |
| `word[3]`, `[^3]`, `【4†source】` | `word`, nothing, nothing: marks of sources |
| `- [ ] task`, `- [x] task` | `- task` |
| `&amp;`, `&#39;` | `&`, `'` |
| `$x$`, `$$` | `x`, nothing |
| `\\(`, `\\*`, `\\times`, `\\frac{1}{2}` | nothing, `*`, `×`, `1/2` |
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from oscine_engine.text import controls, rate, silence, ssml
from oscine_engine.text.origins import Origin

_SPECIAL = re.compile(rf"[<\[\]&\\`~^【$]|{controls.MARKS.pattern}")
_BLOCK_NAMES = (
    "think|thinking|thought|reasoning|scratchpad|reflection|tool|tools|tool_call|tool_calls|tool_use|tool_code|tool_response|"
    "tool_result|tool_results|function|functions|function_call|function_calls|function_results|invoke|script|style"
)
_BLOCK = re.compile(rf"<({_BLOCK_NAMES})(?:[\s=][^<>]*)?>", re.IGNORECASE)
_BLOCK_LIMIT = 300
"""Characters of an opening tag."""
_PATH = r"\]\(\s*<?(?:[^\s()<>]|\([^\s()<>]*\))*"
_TARGET = re.compile(rf"""{_PATH}>?(?:\s+(?:"[^"\n]*"|'[^'\n]*'))?\s*\)""")
_PART_OF_TARGET = re.compile(rf"""{_PATH}(?:\([^\s()<>]*)?>?(?:\s+(?:"[^"\n]*"?|'[^'\n]*'?)?\s*)?""")
_TARGET_LIMIT = 2000
_SOURCE = re.compile(r"\[\^[\w-]{1,20}\]:?")
_NUMBERED_SOURCE = re.compile(r"\[\d{1,3}(?:[,，\s–-]+\d{1,3})*\]")
_PART_OF_SOURCE = re.compile(r"\[(?:\^[\w-]{0,20}|(?:\d{1,3}(?:[,，\s–-]+\d{1,3})*[,，\s–-]*)?)")
_LENTICULAR = re.compile(r"【[^【】\n]{0,40}†[^【】\n]{0,80}】")
_TASK = re.compile(r"\[[ xX]\]")
_BULLET = re.compile(r"(?:^|\n)[ \t>]*(?:[-*+]|\d{1,3}[.)])[ \t]+$")
_ENTITIES = {
    "amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "nbsp": " ", "mdash": "—", "ndash": "–", "hellip": "…",
    "deg": "°", "times": "×", "euro": "€", "pound": "£", "yen": "¥", "copy": "", "reg": "", "trade": "", "rsquo": "’",
    "lsquo": "‘", "ldquo": "“", "rdquo": "”", "bull": " ", "middot": " ",
}  # fmt: skip
_ENTITY = re.compile(r"&(?:([a-z]{2,6})|#(\d{1,6})|#[xX]([0-9a-fA-F]{1,5}));")
_PART_OF_ENTITY = re.compile(r"&(?:[a-z]{0,6}|#\d{0,6}|#[xX][0-9a-fA-F]{0,5})")
_COMMANDS = {
    "times": "×", "cdot": "×", "div": "÷", "pm": "±", "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥", "neq": "≠",
    "ne": "≠", "approx": "≈", "sim": "~", "sqrt": "√", "pi": "π", "alpha": "α", "beta": "β", "gamma": "γ",
    "delta": "δ", "Delta": "Δ", "theta": "θ", "lambda": "λ", "mu": "μ", "sigma": "σ", "Sigma": "Σ", "omega": "ω",
    "Omega": "Ω", "infty": "∞", "to": "→", "rightarrow": "→", "text": "", "textbf": "", "mathrm": "", "mathbf": "",
    "left": "", "right": "", "quad": " ", "circ": "°", "degree": "°", "ldots": "…", "dots": "…", "n": "\n",
}  # fmt: skip
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_BRACED = r"\{((?:[^{}]|\{[^{}]*\}){1,60})\}"
_FRACTION = re.compile(rf"\\d?frac{_BRACED}{_BRACED}")
_PART_OF_BRACED = r"\{(?:[^{}]|\{[^{}]*\}){0,60}(?:\{[^{}]*)?"
_PART_OF_FRACTION = re.compile(rf"\\d?frac(?:{_PART_OF_BRACED}|{_BRACED}(?:{_PART_OF_BRACED})?)?")
_FRACTION_LIMIT = 160
_SIMPLE = re.compile(r"\w+")
_TILDES = re.compile(r"~~~[A-Za-z0-9+_-]{0,20}[ \t]*\n")
_PART_OF_TILDES = re.compile(r"~{1,3}|~~~[A-Za-z0-9+_-]{0,20}[ \t]*")
_COMMENT_END = "-->"
_DEEPEST = 16
"""Parts with a rate of their own inside each other."""
_RECENT = 40


@dataclass(frozen=True, slots=True)
class _Found:
    """What stands at a special character: its length (0: more is needed), what is left of it, the end of the block that
    it opens, "" for none, and what was written where `left` is read, None where nothing was."""

    length: int
    left: str
    end: str = ""
    written: str | None = None


_MORE = _Found(0, "")


class Markup:
    """Takes a stream of characters; hands out what may be said.

    origins: of what the last call gave, for what is said in place of something else.
    """

    def __init__(self) -> None:
        self._held = ""
        self._end = ""
        """What closes the block that is being left out; "" outside."""
        self._formula = False
        """Between the dollar signs of a formula."""
        self._recent = "\n"
        self._rates = [100]
        """Of the parts around, in percent, from the outside in. They outlast a flush."""
        self._given = 0
        """Characters that this call has put out."""
        self.origins: tuple[Origin, ...] = ()

    @property
    def held(self) -> str:
        """Characters that may yet be part of something that is left out."""
        return "" if self._end else self._held

    def push(self, text: str) -> str:
        """What `text` settles."""
        return self._take(self._held + text, final=False)

    def flush(self) -> str:
        """What is held back, as it stands. A block that is open ends here."""
        rest = self._take(self._held, final=True)
        self._held, self._end, self._recent, self._formula = "", "", "\n", False
        return rest

    def _take(self, text: str, final: bool) -> str:
        out: list[str] = []
        origins: list[Origin] = []
        self._given = 0
        at = 0
        while at < len(text):
            if self._end:
                at = self._leave_out(text, at, out)
                if self._end:
                    break
                continue
            special = _SPECIAL.search(text, at)
            if special is None:
                self._put(text[at:], out)
                at = len(text)
                break
            self._put(text[at : special.start()], out)
            at = special.start()
            found = self._found(text, at, final)
            if not found.length and not final:
                break
            if found.written is not None and found.left:
                origins.append(Origin(self._given, self._given + len(found.left), found.written))
            self._put(found.left if found.length else text[at], out)
            self._end = found.end
            at += max(1, found.length)
        self._held = text[at:]
        self.origins = tuple(origins)
        return "".join(out)

    def _found(self, text: str, at: int, final: bool) -> _Found:
        match text[at]:
            case "$":
                return self._dollar(text, at, final)
            case "<" if (found := self._prosody(text, at, final)) is not None:
                return found
            case character if character in _READERS:
                return _READERS[character](text, at, self._recent, final)
        return _Found(1, "")

    def _prosody(self, text: str, at: int, final: bool) -> _Found | None:
        """A tag that changes the rate, as the mark of a change if it is one; None for anything else."""
        tag = ssml.read_prosody(text[at : at + ssml.LONGEST], final)
        if tag is None or not tag.length:
            # What may become one may become something else as well, which waits as long.
            return None if tag is None else _MORE
        before = self._rates[-1]
        if tag.closes:
            if len(self._rates) > 1:
                self._rates.pop()
        elif not tag.empty and len(self._rates) < _DEEPEST:
            self._rates.append(rate.read_rate(tag.rate, before))
        now = self._rates[-1]
        return _Found(tag.length, rate.mark(now, begins=not tag.closes) if now != before else "")

    def _put(self, text: str, out: list[str]) -> None:
        if text:
            out.append(text)
            self._given += len(text)
            self._recent = (self._recent + text)[-_RECENT:]

    def _dollar(self, text: str, at: int, final: bool) -> _Found:
        """A dollar sign in front of a single letter or a command opens a formula, which the next one closes; others
        are money or a share's name ($AAPL)."""
        following, second = text[at + 1 : at + 2], text[at + 2 : at + 3]
        if not final and (not following or (following.isalpha() and not second)):
            return _MORE
        if following == "$":
            return _Found(2, "")
        if self._formula and not (following.isdecimal() and self._recent[-1:] == " "):
            self._formula = False
            return _Found(1, "")
        single = following.isalpha() and not second.isalpha()
        self._formula = not self._recent[-1:].isalnum() and (single or following == "\\")
        return _Found(1, "" if self._formula else "$")

    def _leave_out(self, text: str, at: int, out: list[str]) -> int:
        """Where the open block goes on after `text`, or ends."""
        end = text.lower().find(self._end, at)
        if end < 0:
            return max(at, len(text) - len(self._end) + 1)
        end += len(self._end)
        if self._end != _COMMENT_END:
            self._put("\n", out)
        self._end = ""
        return end


def _whole(rest: str, part: re.Pattern[str], limit: int, final: bool) -> bool:
    """True when all of `rest` could be the beginning of something longer."""
    return not final and len(rest) < limit and part.fullmatch(rest) is not None


def _angle(text: str, at: int, _recent: str, final: bool) -> _Found:
    if (block := _BLOCK.match(text, at)) is not None and block.end() - at <= _BLOCK_LIMIT:
        return _Found(block.end() - at, "", f"</{block[1].lower()}>")
    if text.startswith("<!--", at):
        return _Found(4, "", _COMMENT_END)
    if (tag := ssml.read_tag(text[at : at + ssml.LONGEST], final)) is not None:
        left = controls.without_marks(tag.left) + (silence.mark(tag.silence_s) if tag.silence_s else "")
        return _Found(tag.length, left, written=tag.written)
    rest = text[at : at + _BLOCK_LIMIT + 1].lower()
    if not final and (_opens_block(rest) or "<!--".startswith(rest)):
        return _MORE
    return _Found(1, "<")


def _opens_block(rest: str) -> bool:
    """True when `rest`, all there is, could go on to an opening tag of a block."""
    if ">" in rest or "<" in rest[1:] or len(rest) > _BLOCK_LIMIT:
        return False
    name = re.match(r"<([a-z_]*)", rest)
    if name is None:
        return False
    if len(name.group()) == len(rest):
        return any(block.startswith(name[1]) for block in _BLOCK_NAMES.split("|"))
    return rest[len(name.group())] in " \t\n=" and name[1] in _BLOCK_NAMES.split("|")


def _closing(text: str, at: int, _recent: str, final: bool) -> _Found:
    """A closing bracket, perhaps with a link's target behind it."""
    rest = text[at : at + _TARGET_LIMIT]
    if match := _TARGET.match(rest):
        return _Found(match.end(), "]")
    if not final and (rest == "]" or _whole(rest, _PART_OF_TARGET, _TARGET_LIMIT, final)):
        return _MORE
    return _Found(1, "]")


def _opening(text: str, at: int, recent: str, final: bool) -> _Found:
    """An opening bracket: a task's box, a source's mark, or anything else."""
    rest = text[at : at + 64]
    attached = bool(recent.strip()) and (recent[-1].isalnum() or recent[-1] in ".,;:!?\"')]。，；：！？”’）】%]")
    if _BULLET.search(recent):
        if _TASK.match(rest):
            return _Found(4 if rest[3:4] == " " else 3, "")
        if not final and re.fullmatch(r"\[[ xX]?", rest):
            return _MORE
    if source := _SOURCE.match(rest):
        return _Found(source.end(), "") if final or source.end() < len(rest) or rest.endswith(":") else _MORE
    if attached and (source := _NUMBERED_SOURCE.match(rest)):
        return _Found(source.end(), "")
    if _whole(rest, _PART_OF_SOURCE, 64, final) and (attached or len(rest) < 2 or rest[1] == "^"):
        return _MORE
    return _Found(1, "[")


def _lenticular(text: str, at: int, _recent: str, final: bool) -> _Found:
    """【4†source】; any other text in such brackets is said, so that only digits are waited for."""
    if match := _LENTICULAR.match(text, at):
        return _Found(match.end() - at, "")
    rest = text[at : at + 130]
    if not final and re.fullmatch(r"【(?:[\d:]{0,9}|[\d:]{1,9}†[^【】\n]{0,80})", rest):
        return _MORE
    return _Found(1, "【")


def _ampersand(text: str, at: int, _recent: str, final: bool) -> _Found:
    if match := _ENTITY.match(text, at):
        name, decimal, hexadecimal = match.groups()
        if name in _ENTITIES:
            return _Found(match.end() - at, _ENTITIES[name])
        code = int(decimal or "0") or int(hexadecimal or "0", 16)
        if 32 <= code < 0xD800 or 0xE000 <= code < 0x110000:
            return _Found(match.end() - at, chr(code))
        return _Found(1, "&")
    rest = text[at : at + 9]
    if _whole(rest, _PART_OF_ENTITY, 9, final) and (
        rest[1:2] == "#" or any(name.startswith(rest[1:]) for name in _ENTITIES)
    ):
        return _MORE
    return _Found(1, "&")


def _backslash(text: str, at: int, _recent: str, final: bool) -> _Found:
    if match := _FRACTION.match(text, at):
        above, below = (_of_formula(part) for part in match.groups())
        simple = _SIMPLE.fullmatch(above) and _SIMPLE.fullmatch(below)
        return _Found(match.end() - at, f"{above}/{below}" if simple else f"{above} ÷ {below}")
    rest = text[at : at + _FRACTION_LIMIT]
    if rest == "\\" or _whole(rest, _PART_OF_FRACTION, _FRACTION_LIMIT, final):
        return _MORE if not final else _Found(1, " ")
    following = rest[1]
    if following in "()[]":
        return _Found(2, "")
    if following.isascii() and not following.isalnum() and not following.isspace() and following != "\\":
        return _Found(2, following)
    command = _COMMAND.match(rest)
    if command is None:
        return _Found(1, "\\")
    if (
        command.end() == len(rest)
        and not final
        and any(name.startswith(command[1]) for name in (*_COMMANDS, "frac", "dfrac"))
    ):
        return _MORE
    if command[1] in _COMMANDS:
        braced = command[1] == "sqrt" and rest[command.end() : command.end() + 1] == "{"
        return _Found(command.end() + braced, _COMMANDS[command[1]])
    return _Found(1, "\\")


def _fence(text: str, at: int, recent: str, final: bool) -> _Found:
    """Three backquotes anywhere, or three tildes alone on a line, open a block that the same three close."""
    sign = text[at]
    if sign == "~":
        if recent.rstrip(" \t")[-1:] != "\n":
            return _Found(1, "~")
        if _TILDES.match(text, at):
            return _Found(3, "", "~~~")
        return _MORE if not final and _PART_OF_TILDES.fullmatch(text[at : at + 40]) else _Found(1, "~")
    if text.startswith("```", at):
        return _Found(3, "", "```")
    return _MORE if not final and text[at:] in ("`", "``") else _Found(1, sign)


def _of_formula(text: str) -> str:
    """A part of a formula, its own commands undone."""
    markup = Markup()
    return (markup.push(text) + markup.flush()).strip()


def _raised(text: str, at: int, _recent: str, final: bool) -> _Found:
    """x^{2} is x^2."""
    if at + 1 == len(text) and not final:
        return _MORE
    return _Found(2, "^") if text[at + 1 : at + 2] == "{" else _Found(1, "^")


_READERS: dict[str, Callable[[str, int, str, bool], _Found]] = {
    "<": _angle,
    "[": _opening,
    "]": _closing,
    "【": _lenticular,
    "&": _ampersand,
    "\\": _backslash,
    "`": _fence,
    "~": _fence,
    "^": _raised,
}
