"""Lines for whoever started a command, and who may have left since."""

import os
import sys
from typing import TextIO


def tell(line: str, file: TextIO | None = None) -> None:
    """Print a line at once, on standard output if no file is given; nothing, where nobody is there to read it."""
    file = sys.stdout if file is None else file
    try:
        print(line, file=file, flush=True)
    except OSError:
        give_up(file)


def give_up(file: TextIO) -> None:
    """Let what is written to a closed pipe or terminal go nowhere: Python would complain while it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())
