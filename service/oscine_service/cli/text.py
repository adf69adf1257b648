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
MOST_SHOWN, LONGEST_SHOWN = 5, 20
"""Of what is left out: how many are told, and characters of each."""
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
    lines), and words are printed as soon as nothing that could follow would change them. What of it the embedded voice
    leaves out is told on standard error at the end.
    """
    words = None if options.lexicon is None else await asyncio.to_thread(_lexicon, options.lexicon)
    left_out = _LeftOut()
    if options.file == "-":
        await _as_it_arrives(words, left_out)
    else:
        from oscine_engine.text.spoken import spoken

        for line in await asyncio.to_thread(lines, options.file, "the text", ADVICE):
            said = spoken(line, words)
            print(said)
            left_out.note(said)
    left_out.tell()


class _LeftOut:
    """What the embedded voice does not say of the words that are printed, which are those of every model."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}

    def note(self, said: str) -> None:
        """A line that is printed, or what is left of one."""
        from oscine_engine.text.front_end import left_out

        if len(self._found) <= MOST_SHOWN:
            self._found.update(dict.fromkeys(left_out("phones", said)))

    def tell(self) -> None:
        if self._found:
            shown = ", ".join(repr(each[:LONGEST_SHOWN]) for each in list(self._found)[:MOST_SHOWN])
            more = " and more" if len(self._found) > MOST_SHOWN else ""
            print(
                f"oscine: the embedded voice leaves out {shown}{more}; the released model takes them", file=sys.stderr
            )


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


async def _as_it_arrives(words: "Pronunciations | None", left_out: _LeftOut) -> None:
    from oscine_engine.text.joining import Joiner
    from oscine_engine.text.spoken import SpokenStream
    from oscine_service.cli.texts import pieces_of

    joiner, stream = Joiner(), SpokenStream(words)
    begun, printed = False, ""
    async for piece in pieces_of("-"):
        *whole, rest = joiner.push(piece).split("\n")
        for line in whole:
            said = stream.push(line + "\n") + stream.new_line()
            print(said, flush=True)
            left_out.note(printed + said)
            begun, printed = False, ""
        said = stream.push(rest)
        sys.stdout.write(said)
        sys.stdout.flush()
        begun, printed = begun or bool(rest), printed + said
    said = stream.finish()
    if begun or said:
        print(said)
    left_out.note(printed + said)
