"""Write deploy/locks: every package that each extra installs, at one version, with the hashes of its files.

    python tools/lock.py UV

UV is the program `uv`, which resolves; run by the interpreter that the tests ran with, since its packages' versions are
the ones that are written down, wherever they fit. One file for each extra of pyproject.toml, and `run` for none, good
for Python 3.11 to 3.14 on Linux:

    pip install --require-hashes -r deploy/locks/run.txt

torch is in none but those of the extras in WITH_TORCH: builds for CPUs are not on the usual index, and which one fits
is for tools/install_torch.py to find out. The version that the others were tested with is in their first lines.
"""

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCKS = ROOT / "deploy" / "locks"

# Extras that bring the CUDA build of torch -> versions to keep to, in place of those installed here. Both have those
# that were measured on a GPU; vLLM asks for a torch of its own.
WITH_TORCH = {"gpu": ("torch==2.11.0",), "vllm": ("vllm==0.26.0",)}

# torch, and what only CUDA builds of it need: Triton where nobody else wants it.
_TORCH = re.compile(r"torch==|(nvidia|cuda)-|triton==[^#]*# via torch\n\Z")
_PINNED = re.compile(r"(?m)^(?=[\w.-]+==)")


def extras() -> list[str]:
    """The extras of pyproject.toml, sorted."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return sorted(project["optional-dependencies"])


def installed() -> dict[str, str]:
    """Name and version of every package here but this project, without labels of builds such as `+cpu`.

    Triton is left to torch: its CUDA build wants one version and no other.
    """
    found = {each.metadata["Name"]: each.version.partition("+")[0] for each in metadata.distributions()}
    return {name: version for name, version in found.items() if name != "triton" and not name.startswith("oscine")}


def without_torch(lock: str) -> str:
    """A lock file's text less the entries of torch and of what only CUDA builds of it need."""
    head, *entries = _PINNED.split(lock)
    return head + "".join(entry for entry in entries if not _TORCH.match(entry))


def resolve(uv: str, extra: str | None, constraints: list[str]) -> str:
    """The text of a lock file.

    Raises subprocess.CalledProcessError where nothing fits.
    """
    command = [uv, "pip", "compile", "--quiet", "pyproject.toml", "--universal", "--python-version", "3.11"]
    command += ["--generate-hashes", "--no-header", "--no-emit-index-url", "--constraint", "-"]
    command += ["--extra", extra] if extra else []
    given = "".join(f"{each}\n" for each in constraints)
    done = subprocess.run(command, cwd=ROOT, input=given, text=True, stdout=subprocess.PIPE, check=True)
    return re.sub(r" \(pyproject\.toml\)| \(from -\)|oscine \(\S+pyproject\.toml\)", "", done.stdout)


def main(uv: str) -> None:
    here = installed()
    tested = [f"{name}=={version}" for name, version in sorted(here.items())]
    LOCKS.mkdir(exist_ok=True)
    for extra in [None, *extras()]:
        name = extra or "run"
        keep = list(WITH_TORCH[name]) if name in WITH_TORCH else tested
        text = resolve(uv, extra, keep)
        lines = [f"# Made by `make lock`. What {f'the extra {extra!r}' if extra else 'oscine'} installs."]
        if name not in WITH_TORCH:
            text = without_torch(text)
            lines.append(f"# Without torch: tested with {here['torch']}, which tools/install_torch.py installs first.")
        (LOCKS / f"{name}.txt").write_text("\n".join([*lines, text]))
        print(f"{name}: {len(_PINNED.findall(text))} packages")


if __name__ == "__main__":
    main(sys.argv[1])
