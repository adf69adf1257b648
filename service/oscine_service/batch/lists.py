"""Lists of what to say, in the forms that people have them in.

    text                                        a text a line
    id|text
    id|voice|text
    id|transcript|recording|text                as the test lists of Seed-TTS: in the voice of a recording, whose words
    id|transcript|recording|text|anything       the transcript is; a fifth column, somebody's own reading, is left out
    {"text": ..., "id": ..., "voice": ...}      JSON, an object a line; or with "recording" and "transcript" in place of
                                                "voice"; and "seed", "mode", "language", "speed", "instruction"

A file has lines of one form. Blank lines are left out. Without ids, lines are called by their number. Paths of
recordings count from the list's folder.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oscine_engine.errors import InvalidInput
from oscine_engine.events import Mode
from oscine_service import strict_json

ID = re.compile(r"[\w][\w.@+-]*")
LONGEST_ID = 200
"""Bytes. It names a file, whose name has 255 at most with what stands behind it."""
FIELDS = ("id", "text", "voice", "recording", "transcript", "seed", "mode", "language", "speed", "instruction")
_KINDS: Mapping[str, tuple[type, ...]] = {"seed": (int,), "speed": (int, float)}
"""Of fields that are no strings."""


@dataclass(frozen=True, slots=True)
class Line:
    """One text and how to say it; None: as the command says. transcript: of the recording, "" if it is not known."""

    id: str
    text: str
    voice: str | None = None
    recording: Path | None = None
    transcript: str = ""
    seed: int | None = None
    mode: Mode | None = None
    language: str | None = None
    speed: float | None = None
    instruction: str | None = None


def read(path: Path) -> list[Line]:
    """The lines of a list. Raises InvalidInput, naming the line, for what is no list."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from error
    return parse(text, path)


def parse(text: str, path: Path) -> list[Line]:
    """The same of a text; `path` is what it is called, and where recordings are looked for."""
    numbered = [(number, row.strip()) for number, row in enumerate(text.split("\n"), 1) if row.strip()]
    if not numbered:
        raise InvalidInput(f"{path} holds nothing to say: write a text a line, or id|text")
    objects = numbered[0][1].startswith("{")
    columns = len(numbered[0][1].split("|"))
    lines: list[Line] = []
    seen: dict[str, int] = {}
    for number, row in numbered:
        where = f"{path}, line {number}"
        line = _object(row, number, path, where) if objects else _columns(row, number, columns, path, where)
        if line.id in seen:
            raise InvalidInput(f"{where}: the id {line.id!r} is that of line {seen[line.id]}, too; each needs its own")
        seen[line.id] = number
        lines.append(line)
    return lines


def _columns(row: str, number: int, count: int, path: Path, where: str) -> Line:
    parts = [part.strip() for part in row.split("|")]
    if len(parts) != count:
        raise InvalidInput(
            f"{where} has {len(parts)} columns, the first line {count}: columns are parted by |, and every line has as "
            "many as the first; a text that holds a | needs a list of JSON objects"
        )
    match parts:
        case [text]:
            return _line(where, id=_numbered(number), text=text)
        case [name, text]:
            return _line(where, id=name, text=text)
        case [name, voice, text]:
            return _line(where, id=name, text=text, voice=voice or None)
        case [name, transcript, recording, text] | [name, transcript, recording, text, _]:
            return _line(where, id=name, text=text, recording=path.parent / recording, transcript=transcript)
    raise InvalidInput(f"{where} has {count} columns; a list has 1 to 5: text, or id|text, or id|voice|text, or more")


def _object(row: str, number: int, path: Path, where: str) -> Line:
    try:
        found = strict_json.loads(row)
    except ValueError as error:
        raise InvalidInput(f"{where} is no JSON object: {error}") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"{where} is no JSON object")
    found = {name: value for name, value in found.items() if value is not None}
    for name, value in found.items():
        if name not in FIELDS:
            raise InvalidInput(f"{where}: {name!r} is no field of a line; there are {', '.join(FIELDS)}")
        kinds = _KINDS.get(name, (str,))
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise InvalidInput(f"{where}: {name} must be {'a number' if name in _KINDS else 'a string'}")
    if "mode" in found and found["mode"] not in list(Mode):
        raise InvalidInput(f"{where}: mode {found['mode']!r} is unknown; use {', '.join(Mode)}")
    values: dict[str, Any] = {"id": _numbered(number), "text": "", **found}
    if "mode" in values:
        values["mode"] = Mode(values["mode"])
    if "recording" in values:
        values["recording"] = path.parent / values["recording"]
    return _line(where, **values)


def _line(where: str, **values: Any) -> Line:
    line = Line(**values)
    if not line.text.strip():
        raise InvalidInput(f"{where} has no text")
    if not ID.fullmatch(line.id) or len(line.id.encode()) > LONGEST_ID:
        raise InvalidInput(
            f"{where}: {line.id!r} cannot name a file; take letters, digits and . _ - @ +, a letter or digit first, "
            f"and at most {LONGEST_ID} bytes"
        )
    if line.voice is not None and line.recording is not None:
        raise InvalidInput(f"{where}: it names a voice and a recording; leave one out")
    if line.transcript and line.recording is None:
        raise InvalidInput(f"{where}: it has a transcript and no recording")
    return line


def _numbered(number: int) -> str:
    return f"{number:06d}"
