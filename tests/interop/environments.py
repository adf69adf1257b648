"""The environments that other people's clients live in: one for each entry of packages.toml, kept in .venv/interop.

`python -m tests.interop.environments [NAME...]` makes those that are missing or were made of another entry.
"""

import hashlib
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".venv" / "interop"
TABLE: dict[str, list[str]] = tomllib.loads((Path(__file__).parent / "packages.toml").read_text())["environments"]
OURS = "clients/python"


def python(name: str) -> Path:
    """The interpreter of an environment."""
    return KEPT / name / "bin" / "python"


def versions(name: str) -> list[str]:
    """What is installed of an environment's packages, as "NAME VERSION"."""
    names = [package.partition("[")[0].partition("=")[0] for package in TABLE[name]]
    ask = "import sys; from importlib.metadata import version; [print(each, version(each)) for each in sys.argv[1:]]"
    told = subprocess.run([python(name), "-I", "-c", ask, *names], capture_output=True, text=True, check=True).stdout
    return told.splitlines()


def prepare(name: str) -> None:
    """Make an environment, unless it is there and made of the same. Raises CalledProcessError."""
    make(KEPT / name, list(map(_located, TABLE[name])), _fingerprint(name))


def make(folder: Path, packages: Iterable[str], fingerprint: str, beneath: Path | None = None) -> None:
    """Make an environment of `packages`, unless it is there with the same fingerprint. Raises CalledProcessError.

    beneath: packages of another environment, which are there as well where this one has no other version.
    """
    stamp = folder / "made-of"
    if stamp.exists() and stamp.read_text() == fingerprint:
        return
    print(f"{folder.parent.name}: installing {folder.name}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    if beneath is not None:
        ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
        own = Path(subprocess.run([python, "-I", "-c", ask], capture_output=True, text=True, check=True).stdout.strip())
        (own / "beneath.pth").write_text(f"import site; site.addsitedir({str(beneath)!r})\n")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages], check=True)
    stamp.write_text(fingerprint)


def _located(package: str) -> str:
    """Our own client is installed from where it lies, as whoever has no index for it does."""
    return f"{package} @ {(ROOT / OURS).as_uri()}" if package.startswith("oscine-client") else package


def _fingerprint(name: str) -> str:
    told = "\n".join([sys.version, *TABLE[name]])
    if any(_located(package) != package for package in TABLE[name]):
        files = [ROOT / OURS / "pyproject.toml", *sorted((ROOT / OURS).rglob("*.py"))]
        told += hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    return told


def main(names: Iterable[str]) -> None:
    for name in names or TABLE:
        prepare(name)


if __name__ == "__main__":
    main(sys.argv[1:])
