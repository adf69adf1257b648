"""Common Chinese words that only help to cut text into words: `python -m training.text.build_words JIEBA_DICT`.

The reading data lists phrases whose reading surprises; without ordinary words beside them, longest match from the left
finds 目的 inside 项目的. JIEBA_DICT is `dict.txt` of the jieba package (word, count, part of speech a line).
"""

import argparse
from pathlib import Path

from pypinyin.constants import PHRASES_DICT

from oscine_engine.text import mandarin

COUNT = 6000
PER_LINE = 24


def choose(lines: list[str], count: int) -> list[str]:
    """The most frequent words of two characters that have no entry of their own, in no order that matters."""
    entries = [line.split(" ") for line in lines]
    words = {
        word: int(uses)
        for word, uses, *_ in entries
        if len(word) == 2 and word not in PHRASES_DICT and all(mandarin.base_reading(character) for character in word)
    }
    return sorted(sorted(words, key=lambda word: (-words[word], word))[:count])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("--output", type=Path, default=Path(mandarin.__file__).parent / "data" / "common_words.txt")
    arguments = parser.parse_args()
    words = choose(arguments.source.read_text(encoding="utf-8").splitlines(), COUNT)
    lines = [" ".join(words[start : start + PER_LINE]) for start in range(0, len(words), PER_LINE)]
    arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(words)} words, {arguments.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
