"""What JSON is taken, and what of it would hold up everybody else."""

import json
import string

import pytest

from oscine_service.recordings import from_base64
from oscine_service.strict_json import LONG, MOST_DEPTH, MOST_QUOTES, MOST_SIGNS, loads

DEEP: list[object] = []
for _ in range(MOST_DEPTH - 1):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ("NaN", "NaN is no number"),
        ('{"speed": -Infinity}', "-Infinity is no number"),
        ("9" * 5000, "a number has 5000 digits; write none of more than 1000"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' * 65 + "1" + "}" * 65, "nested too deeply: at most 64"),
        ('{"a": 1, "b": 2, "a": 3}', "'a' is there twice"),
        (b"\xff", "can't decode byte"),
        (json.dumps("ü").encode("utf-16"), "can't decode byte"),
    ],
    ids=range(10),
)
def test_what_is_no_json_is_refused(text: str | bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        loads(text)


@pytest.mark.parametrize(
    "found", [None, 1.5, "half \ud83d", {"a": {"a": [1, "ü"]}}, {"text": ', : [ { \\ "' * 6000}, DEEP]
)
def test_what_is_json_is_read(found: object) -> None:
    for ascii_only in (True, False):
        assert loads(json.dumps(found, ensure_ascii=ascii_only)) == found


@pytest.mark.parametrize("part", ["0,", '"a":0,', "[],", "{},", '"",', "\\n", "   ", "\\u0041"])
def test_a_document_of_very_many_parts_is_not_even_parsed(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser in C would let no other thread run for seconds."""
    document = "[" + part * (1 + max(MOST_QUOTES, MOST_SIGNS))
    monkeypatch.delattr(json, "loads")
    with pytest.raises(ValueError, match="too many parts"):
        loads(document)


def test_one_long_string_is_one_part() -> None:
    audio = "".join(string.ascii_letters) * (LONG // 10)
    assert loads(json.dumps({"reference": {"audio": audio}}))["reference"]["audio"] == audio


@pytest.mark.parametrize("size", [0, 1, 2, 3, 49151, 49152, 49153, 100_000])
def test_base64_is_read_in_slices(size: int) -> None:
    import base64

    data = bytes(range(256)) * (size // 256 + 1)
    text = base64.b64encode(data[:size]).decode()
    assert from_base64(text) == data[:size]
    if size:
        for broken in (text[:-1], "=" + text, text[:1] + "ü" + text[2:], text[:1] + " " + text[1:]):
            with pytest.raises(ValueError):  # noqa: PT011  (binascii's words, and Python's)
                from_base64(broken)


def test_padding_between_slices_is_none() -> None:
    with pytest.raises(ValueError, match="stands in the middle"):
        from_base64("A" * 65534 + "==" + "AAAA")
