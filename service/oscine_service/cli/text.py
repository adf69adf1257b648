"""`oscine text`: the words that will be spoken for what is written."""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from oscine_engine.errors import InvalidInput
from oscine_service.cli.files import contents

if TYPE_CHECKING:
    from oscine_engine.text.pronunciations import Pronunciations

ADVICE = "what is read is a FILE, or - for standard input, as in: echo 'Hello there' | oscine text -"
HELP = "print the words that will be spoken: numbers spelled out, pauses as punctuation, marks as typed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("file", help="a UTF-8 file, each line a text of its own; - reads standard input as one text")
    parser.add_argument(
        "--lexicon",
        metavar="FILE",
        help="read words otherwise: a line has a word, a tab, and what to read in its place",
    )


async def text(options: argparse.Namespace) -> None:
    """Print one line for each line that is read.

    Of a file each line stands alone. Standard input is one text, as a session takes it (a code block goes on over its
    lines), and words are printed as soon as nothing that could follow would change them.
    """
    words = None if options.lexicon is None else await asyncio.to_thread(_lexicon, options.lexicon)
    if options.file == "-":
        await _as_it_arrives(words)
        return
    from oscine_engine.text.spoken import spoken

    for line in await asyncio.to_thread(lines, options.file, "the text", ADVICE):
        print(spoken(line, words))


def _lexicon(file: str) -> "Pronunciations":
    from oscine_engine.text.pronunciations import Pronunciations

    return Pronunciations(readings(lines(file, "the lexicon"), file))


def readings(lines: list[str], file: str) -> dict[str, str]:
    """Words and what is read in their place, a line each. Raises InvalidInput for a line that is none of `file`."""
    found = {}
    for number, line in enumerate(lines, 1):
        word, tab, reading = line.rstrip("\r").partition("\t")
        if line.strip() and not tab:
            raise InvalidInput(f"{file}, line {number}: a word, a tab, and what to read in its place")
        if tab:
            found[word] = reading
    return found


def lines(file: str, what: str, advice: str = "") -> list[str]:
    """Of a text file. Raises InvalidInput, as `contents` has it, and for one that is not UTF-8."""
    read = contents(Path(file), what, advice)
    try:
        # As a file opened for text has it: each way to end a line is one.
        found = read.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not valid UTF-8 at byte {error.start}: convert it first") from error
    return found if found[-1] else found[:-1]


async def _as_it_arrives(words: "Pronunciations | None") -> None:
    from oscine_engine.text.joining import Joiner
    from oscine_engine.text.spoken import SpokenStream
    from oscine_service.cli.texts import pieces_of

    joiner, stream = Joiner(), SpokenStream(words)
    begun = False
    async for piece in pieces_of("-"):
        *whole, rest = joiner.push(piece).split("\n")
        for line in whole:
            print(stream.push(line + "\n") + stream.new_line(), flush=True)
            begun = False
        sys.stdout.write(stream.push(rest))
        sys.stdout.flush()
        begun = begun or bool(rest)
    said = stream.finish()
    if begun or said:
        print(said)
