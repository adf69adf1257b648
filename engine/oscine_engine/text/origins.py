"""What was written where something else is read: a user's words, `<sub>`, `<phoneme>`, kanji in kana.

A text goes from stage to stage as it is read. Beside it go its origins: which characters of it stand in place of what.
No stage needs them for what is said; they are for those who show the text while it sounds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Origin:
    """Characters [start, end) of a text stand in place of `written`, which is "" for what goes on from a part that was
    cut off in front of them."""

    start: int
    end: int
    written: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Characters [start, end) of a text are to be read as `read`."""

    start: int
    end: int
    read: str


def moved(origins: Iterable[Origin], by: int) -> tuple[Origin, ...]:
    """Those of the same characters, `by` further back."""
    return tuple(replace(one, start=one.start + by, end=one.end + by) for one in origins)


def within(origins: Iterable[Origin], start: int, end: int) -> tuple[Origin, ...]:
    """Those of the characters [start, end) of a text, counted from `start`. Of one that is cut the first part has
    what was written."""
    return tuple(
        Origin(max(one.start, start) - start, min(one.end, end) - start, one.written if one.start >= start else "")
        for one in origins
        if one.start < end and one.end > start
    )


def written(text: str, origins: Iterable[Origin]) -> str:
    """`text` as it was written."""
    out, at = list[str](), 0
    for one in origins:
        out += [text[at : one.start], one.written]
        at = one.end
    return "".join(out) + text[at:]


def edited(text: str, edits: Sequence[Edit], origins: Sequence[Origin]) -> tuple[str, tuple[Origin, ...]]:
    """`text` as it is read after `edits`, which lie in order and apart, and the origins of that. An edit that touches
    what stands in place of something makes one of both."""
    if not edits:
        return text, tuple(origins)
    out, found, length, at = list[str](), list[Origin](), 0, 0
    for start, end, inside in _groups(edits, origins):
        out.append(text[at:start])
        length += start - at
        read, at = list[str](), start
        for edit in inside:
            read += [text[at : edit.start], edit.read]
            at = edit.end
        said = "".join([*read, text[at:end]])
        out.append(said)
        if said:
            found.append(Origin(length, length + len(said), written(text[start:end], within(origins, start, end))))
        length, at = length + len(said), end
    return "".join(out) + text[at:], tuple(found)


def _groups(edits: Sequence[Edit], origins: Sequence[Origin]) -> list[tuple[int, int, list[Edit]]]:
    """Stretches of a text that edits and origins cover, those that share characters as one, with their edits."""
    groups = list[tuple[int, int, list[Edit]]]()
    both: list[Edit | Origin] = [*edits, *origins]
    for one in sorted(both, key=lambda one: (one.start, one.end)):
        inside = [one] if isinstance(one, Edit) else []
        if groups and one.start < groups[-1][1]:
            start, end, before = groups[-1]
            groups[-1] = (start, max(end, one.end), before + inside)
        else:
            groups.append((one.start, one.end, inside))
    return groups
