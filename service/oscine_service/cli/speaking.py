"""How to speak, for those who ask at a shell: the options of `oscine say` that docs/options.md describes."""

import argparse
from pathlib import Path
from typing import Any

from oscine_engine.options import FASTEST, LANGUAGES, SLOWEST, ColdVoice
from oscine_service.cli.files import contents
from oscine_service.cli.text import lines, readings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments. Ranges are checked by the request itself."""
    parser.add_argument(
        "--speed",
        type=float,
        default=1.0,
        metavar="RATE",
        help=f"speaking rate, {SLOWEST:g} to {FASTEST:g} (default: 1)",
    )
    parser.add_argument("--language", choices=LANGUAGES, help="of the text (default: seen from its script)")
    parser.add_argument(
        "--instruction", metavar="TEXT", help='how to speak, such as "Whisper."; the embedded voice takes none'
    )
    parser.add_argument(
        "--lexicon",
        metavar="FILE",
        help="read words otherwise: a line has a word, a tab, and what to read in its place",
    )
    parser.add_argument(
        "--reference", type=Path, metavar="RECORDING", help="speak after 3 to 10 s of somebody who agreed to it"
    )
    parser.add_argument("--transcript", default="", metavar="TEXT", help="what is said in the recording")
    parser.add_argument("--temperature", type=float, metavar="T", help="0.1 to 2 (default: the model's own)")
    parser.add_argument("--top-p", type=float, metavar="P", help="0.01 to 1 (default: the model's own)")
    parser.add_argument("--top-k", type=int, metavar="K", help="1 to 100 (default: the model's own)")


def fields(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments of `SessionRequest`. Raises InvalidInput, for a file that cannot be read as well."""
    names = ("speed", "language", "instruction", "temperature", "top_p", "top_k")
    given = {name: getattr(options, name) for name in names}
    if options.lexicon is not None:
        given["pronunciations"] = readings(lines(options.lexicon, "the lexicon"), options.lexicon)
    if options.reference is not None:
        given["reference"] = ColdVoice(contents(options.reference, "the recording"), options.transcript)
    return given
