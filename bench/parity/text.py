"""Text helpers, where we follow upstream: its own front end's functions against recorded inputs and outputs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.parity.rows import Row, document, equal, missing
from oscine_engine.text import upstream

_PAIRS: dict[str, Callable[[str], object]] = {
    "replace_blank": upstream.replace_blank,
    "replace_corner_mark": upstream.replace_corner_mark,
    "remove_bracket": upstream.remove_bracket,
    "spell_out_number": upstream.spell_out_number,
    "is_only_punctuation": upstream.is_only_punctuation,
    "contains_chinese": upstream.contains_chinese,
    "zh_chain_without_wetext": upstream.normalise,
}
_TRAILING = "replace_blank_trailing_space"
_UNITS: dict[str, Callable[[str], int]] = {"characters": len}


def checks(folder: Path, config: dict[str, Any]) -> Iterator[Row]:
    """One row per recorded input of config["files"]["text_frontend"]; a helper without any is a failing row."""
    name = config["files"]["text_frontend"]
    recorded = document(folder, name)
    for helper, function in _PAIRS.items():
        if not recorded.get(helper):
            yield missing(f"text.{helper}", f"cases in {name}")
        for number, (text, want) in enumerate(recorded.get(helper, ())):
            yield equal(f"text.{helper}.{number}", function(text), want)
    if not recorded.get("split_paragraph"):
        yield missing("text.split_paragraph", f"cases in {name}")
    for number, case in enumerate(recorded.get("split_paragraph", ())):
        yield equal(f"text.split_paragraph.{number}", _split(case), case["result"])
    if _TRAILING in recorded:
        yield equal(f"text.{_TRAILING}", _trailing(), recorded[_TRAILING])
    for entry in sorted(recorded.keys() - _PAIRS.keys() - {"split_paragraph", _TRAILING}):
        yield missing(f"text.{entry}", "check for this recorded entry")


def _split(case: dict[str, Any]) -> list[str]:
    return upstream.split_paragraph(
        case["text"],
        case["lang"] == "zh",
        _UNITS.get(case["length_unit"], lambda text: len(text.split())),
        case["token_max_n"],
        case["token_min_n"],
        case["merge_len"],
        case["comma_split"],
    )


def _trailing() -> str:
    """The name of the exception that a trailing space raises in upstream's helper, which is kept as it is."""
    try:
        return upstream.replace_blank("中文 ")
    except IndexError as error:
        return type(error).__name__
