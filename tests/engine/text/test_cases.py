"""A table of what is written and what is said, of many kinds, in English and Chinese."""

import re
from pathlib import Path

import pytest

from oscine_engine.text.spoken import spoken

FOLDER = Path(__file__).parent


def cases(name: str) -> list[tuple[str, str]]:
    """Rows of a table: written and said."""
    rows = []
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        if "\t" in line and not line.startswith(("# Written", "# 写法")):
            written, said = line.split("\t")
            rows.append((written.replace("\\n", "\n"), said))
    return rows


def bare(text: str) -> str:
    """Words alone: small letters, no marks, letters in a row as one word, no blank
    beside a Chinese character."""
    text = re.sub(r"[^\w\s'\u0900-\u0dff\u0e00-\u0eff]|_", " ", re.sub(r"</?\w+>|\[\w+\]", "", text.lower()))
    text = re.sub(r"(?<=\b[a-z]) (?=[a-z]\b)", "", " ".join(text.split()))
    return re.sub(r"(?<=[\u4e00-\u9fff])\s+|\s+(?=[\u4e00-\u9fff])", "", text)


LOTS = ("cases", "cases_wild", "cases_wild2", "cases_wild3", "cases_wild4", "cases_wild5")
ENGLISH = [case for lot in LOTS for case in cases(f"{lot}_en.tsv")]
CHINESE = [case for lot in LOTS for case in cases(f"{lot}_zh.tsv")]


@pytest.mark.parametrize(("written", "said"), ENGLISH)
def test_english(written: str, said: str) -> None:
    assert bare(spoken(written)) == bare(said)


@pytest.mark.parametrize(("written", "said"), CHINESE)
def test_chinese(written: str, said: str) -> None:
    assert bare(spoken(written)) == bare(said)


def test_the_table_is_large_and_half_of_it_chinese() -> None:
    assert len(ENGLISH) + len(CHINESE) >= 940
    assert len(CHINESE) >= 460
