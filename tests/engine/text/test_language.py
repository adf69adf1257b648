"""What a text's language, as its sender says it, changes: only what the script leaves open."""

import pytest

from oscine_engine.text.context import Language
from oscine_engine.text.scan import Scanner
from oscine_engine.text.verbalise import Verbaliser

CASES: list[tuple[Language, str, str]] = [
    ("", "15%", "fifteen percent"),
    ("en", "15%", "fifteen percent"),
    ("zh", "15%", "百分之十五"),
    ("zh", "iPhone 15", "iPhone 十五"),
    ("", "¥12.5", "十二点五元"),
    ("en", "¥12.5", "twelve point five yuan"),
    ("en", "3 个", "三 个"),
    ("", "Dr. Weber hat 3 Hunde", "doctor Weber hat three Hunde"),
    ("other", "Dr. Weber hat 3 Hunde", "Dr. Weber hat 3 Hunde"),
    ("other", "5 kg z.B. am 4.5.", "5 kg z.B. am 4.5."),
    ("ja", "3匹の犬と iPhone 15", "3匹の犬と iPhone 15"),
]
"""Language, text, what is said of it."""


def said(language: Language, pieces: list[str]) -> str:
    scanner, reader = Scanner(), Verbaliser(language=language)
    for _ in range(2):  # the second sentence is read as the first one
        items = [item for piece in pieces for item in reader.push(scanner.push(piece))]
        items += [*reader.push(scanner.finish()), *reader.finish()]
    return "".join(item.text for item in items)


@pytest.mark.parametrize(("language", "text", "wanted"), CASES)
def test_numbers_and_shortened_words_are_said_in_the_language_of_the_text(
    language: Language, text: str, wanted: str
) -> None:
    assert said(language, [text]) == wanted
    assert said(language, list(text)) == wanted
