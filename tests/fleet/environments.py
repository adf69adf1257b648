"""A fleet's other parts: `python -m tests.fleet.environments [NAME...]` makes the environments that are missing."""

import sys
import sysconfig
import tomllib
from collections.abc import Iterable
from pathlib import Path

from tests.interop.environments import ROOT, make

KEPT = ROOT / ".venv" / "fleet"
_TOLD = tomllib.loads((Path(__file__).parent / "packages.toml").read_text())
TABLE: dict[str, list[str]] = _TOLD["environments"]
BENEATH: dict[str, bool] = _TOLD["beneath"]
MISSING = "is not there: run `make fleet`"


def program(environment: str, name: str = "python") -> Path:
    """A program of an environment, which may not have been made."""
    return KEPT / environment / "bin" / name


def main(names: Iterable[str]) -> None:
    for name in names or TABLE:
        beneath = Path(sysconfig.get_path("purelib")) if BENEATH.get(name) else None
        make(KEPT / name, TABLE[name], "\n".join([sys.version, str(beneath), *TABLE[name]]), beneath)


if __name__ == "__main__":
    main(sys.argv[1:])
