"""Files that a command line names."""

from pathlib import Path

from oscine_engine.errors import InvalidInput


def contents(path: Path, what: str, advice: str = "") -> bytes:
    """what: it is read as, such as "the recording". Raises InvalidInput that says so, and `advice`, if it cannot be."""
    try:
        return path.read_bytes()
    except OSError as error:
        hint = f"; {advice}" if advice else ""
        raise InvalidInput(f"cannot read {what} {str(path)!r}: {error.strerror}{hint}") from error
