"""Install a torch that fits this machine: no CUDA build of several gigabytes where there is no GPU.

Run with the interpreter that is to have it. Order of choice, each said in one line:
an installed torch that is new enough; the index in TORCH_INDEX_URL; the default build where there is an NVIDIA GPU;
a CPU build that pip is offered; the default build, whatever it is. Standard library only.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Protocol

MINIMUM = (2, 11)
REQUIREMENT = "torch>=2.11"
# What only CUDA builds depend on.
_CUDA_PACKAGES = re.compile(r"^(nvidia|cuda)[-_]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Choice:
    """What to say and what to pass to `pip install`; no arguments means nothing is to be installed."""

    message: str
    arguments: tuple[str, ...] = ()


class Probe(Protocol):
    """What the choice depends on; each question is asked only when needed, since some take seconds."""

    def installed(self) -> str | None:
        """Version of an importable torch."""

    def index_url(self) -> str | None:
        """The package index the user named."""

    def gpu(self) -> bool:
        """Whether an NVIDIA GPU answers."""

    def offered(self) -> list[str]:
        """All versions pip is offered, local labels included, newest first."""

    def packages(self, requirement: str) -> list[str]:
        """Names of all packages that pip would install for `requirement`."""


def release(version: str) -> tuple[int, ...]:
    """'2.13.0+cpu' -> (2, 13, 0); anything after the numbers is ignored."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match.group().split("."))) if match else ()


def needs_cuda(packages: list[str]) -> bool:
    """Whether a set of packages holds NVIDIA's libraries."""
    return any(_CUDA_PACKAGES.match(name) for name in packages)


def choose(probe: Probe) -> Choice:
    """The first of the ways in this module's docstring that is open."""
    installed = probe.installed()
    if installed is not None and release(installed) >= MINIMUM:
        return Choice(f"torch: keeping {installed}, which is installed")
    if url := probe.index_url():
        return Choice(f"torch: installing from TORCH_INDEX_URL={url}", ("--index-url", url, "--no-deps", REQUIREMENT))
    if probe.gpu():
        return Choice("torch: found an NVIDIA GPU, installing the default (CUDA) build, several GB", (REQUIREMENT,))
    for version in probe.offered():
        if version.endswith("+cpu") and release(version) >= MINIMUM:
            return Choice(
                f"torch: no NVIDIA GPU, installing the CPU build {version} that pip is offered", (f"torch=={version}",)
            )
    if not needs_cuda(probe.packages(REQUIREMENT)):
        return Choice("torch: no NVIDIA GPU, installing the default build, which has no CUDA here", (REQUIREMENT,))
    return Choice(
        "torch: no NVIDIA GPU, but pip is offered only the CUDA build: installing that, about 3 GB to download. To "
        "avoid it, stop now (Ctrl-C) and run make again with TORCH_INDEX_URL=... set to an index of CPU builds",
        (REQUIREMENT,),
    )


class Machine:
    """The real answers, from this interpreter and its pip."""

    def installed(self) -> str | None:
        result = self._python("-c", "import torch; print(torch.__version__)")
        return result.stdout.strip() if result.returncode == 0 else None

    def index_url(self) -> str | None:
        return os.environ.get("TORCH_INDEX_URL") or None

    def gpu(self) -> bool:
        tool = shutil.which("nvidia-smi")
        if tool is None:
            return False
        result = subprocess.run([tool, "-L"], capture_output=True, text=True, check=False)
        return result.returncode == 0 and "GPU" in result.stdout

    def offered(self) -> list[str]:
        result = self._python("-m", "pip", "index", "versions", "torch")
        match = re.search(r"^Available versions: (.*)$", result.stdout, re.MULTILINE)
        return match.group(1).split(", ") if match else []

    def packages(self, requirement: str) -> list[str]:
        command = ("install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-", requirement)
        result = self._python("-m", "pip", *command)
        if result.returncode:
            sys.exit(f"pip cannot find {requirement}:\n{result.stderr}")
        report: dict[str, Any] = json.loads(result.stdout)
        return [item["metadata"]["name"] for item in report["install"]]

    @staticmethod
    def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def main() -> int:
    choice = choose(Machine())
    print(choice.message, flush=True)
    if not choice.arguments:
        return 0
    return subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", *choice.arguments], check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
