"""Recorded inputs and outputs of upstream's helpers."""

import json
import lzma
from pathlib import Path

import pytest

from oscine_engine.text import upstream

REFERENCE = Path(__file__).parents[2] / "reference"
GOLDEN = json.loads(lzma.decompress((REFERENCE / "text_frontend_golden.json.xz").read_bytes()))
HELPERS = (
    "replace_blank",
    "replace_corner_mark",
    "remove_bracket",
    "spell_out_number",
    "is_only_punctuation",
    "contains_chinese",
)


@pytest.mark.parametrize("helper", HELPERS)
def test_helpers_agree_with_the_recording(helper: str) -> None:
    assert GOLDEN[helper]
    for given, expected in GOLDEN[helper]:
        assert getattr(upstream, helper)(given) == expected


@pytest.mark.parametrize("case", GOLDEN["split_paragraph"], ids=lambda case: case["text"][:12])
def test_split_agrees_with_the_recording(case: dict[str, object]) -> None:
    found = upstream.split_paragraph(
        str(case["text"]),
        chinese=case["lang"] == "zh",
        length=lambda text: len(text.split()),
        token_max_n=int(str(case["token_max_n"])),
        token_min_n=int(str(case["token_min_n"])),
        merge_len=int(str(case["merge_len"])),
        comma_split=bool(case["comma_split"]),
    )
    assert found == case["result"]


def test_rule_chain_agrees_with_the_recording() -> None:
    for given, expected in GOLDEN["zh_chain_without_wetext"]:
        assert upstream.normalise(given) == expected


def test_a_trailing_blank_is_upstreams_error() -> None:
    with pytest.raises(IndexError):
        upstream.replace_blank("你好 ")


@pytest.mark.parametrize(
    ("digits", "words"),
    [
        ("0", "zero"),
        ("101", "one hundred and one"),
        ("1001", "one thousand and one"),
        ("1100", "one thousand, one hundred"),
        ("1000001", "one million and one"),
        ("1234567", "one million, two hundred and thirty-four thousand, five hundred and sixty-seven"),
    ],
)
def test_number_words(digits: str, words: str) -> None:
    assert upstream.number_words(digits) == words
