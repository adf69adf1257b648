"""Refuse GPL and AGPL among the runtime dependencies: walks all that `oscine` needs, and what those need in turn.

    python tools/licences.py [--list] [distribution]

With `--list` it prints a table of them, in Markdown, and judges nothing. Else it prints each offending package with the
chain that pulls it in and what it declares; exit status 1 if there is any. LGPL is allowed: those libraries are used
unchanged, as separate files. A package that declares nothing is refused too, until a person has read its licence and
entered it in REVIEWED.
"""

import re
import sys
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# Packages whose metadata says nothing usable -> what their licence file says.
REVIEWED: dict[str, str] = {
    "cuda-toolkit": "LicenseRef-NVIDIA-Proprietary",  # names the packages of a CUDA release, which declare this
}

_LESSER = re.compile(r"lesser general public|library or lesser|lgpl", re.IGNORECASE)
_GPL = re.compile(r"\b(a?gpl)|affero|gnu general public", re.IGNORECASE)
# A licence field longer than this is a whole licence text, which may mention others in passing: judge its title.
_TITLE = 80


@dataclass(frozen=True, slots=True)
class Finding:
    """One package that must not be there, and why."""

    chain: tuple[str, ...]
    licence: str

    def __str__(self) -> str:
        return f"{' -> '.join(self.chain)}: {self.licence}"


def is_copyleft(licence: str) -> bool:
    """Whether an SPDX expression or licence name binds us to the GPL or AGPL.

    'A OR B' leaves the choice, so every alternative must be bad; the GCC runtime exception lifts the GPL.
    """
    return all(
        any(_GPL.search(part) and not _LESSER.search(part) for part in re.split(r"\bAND\b|[;()]", alternative))
        for alternative in re.split(r"\bOR\b", re.sub(r"GPL-\S+ WITH GCC-exception\S*", "", licence))
    )


def declared(info: metadata.PackageMetadata) -> str:
    """What a package says its licence is: the SPDX expression, else classifiers, else the first words of the field."""
    if "License-Expression" in info:
        return info["License-Expression"]
    classifiers = [line for line in info.get_all("Classifier") or [] if line.startswith("License ::")]
    names = [line.rsplit(" :: ", 1)[1] for line in classifiers if line != "License :: OSI Approved"]
    if names:
        return "; ".join(names)
    field = info["License"].strip() if "License" in info else ""
    return "" if field.upper() == "UNKNOWN" else field[:_TITLE]


def closure(root: str) -> dict[str, tuple[str, ...]]:
    """Every installed package that `root` needs here at run time -> the chain of names that leads to it."""
    chains: dict[str, tuple[str, ...]] = {}
    seen: set[tuple[str, str]] = set()
    todo: list[tuple[str, str, tuple[str, ...]]] = [(root, "", (root,))]
    while todo:
        name, extra, chain = todo.pop(0)
        key = canonicalize_name(name)
        if (key, extra) in seen:
            continue
        seen.add((key, extra))
        chains.setdefault(key, chain)
        for line in metadata.requires(name) or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                todo += [(requirement.name, each, (*chain, requirement.name)) for each in ("", *requirement.extras)]
    return chains


def licence_of(name: str) -> str:
    return REVIEWED.get(name) or declared(metadata.metadata(name))


def table(root: str) -> str:
    """All that `root` needs here, with the versions installed and what they declare."""
    rows = [f"| {name} | {metadata.version(name)} | {licence_of(name)} |" for name in sorted(closure(root))]
    return "\n".join(["| package | version | licence |", "|---|---|---|", *rows])


def main(*arguments: str) -> int:
    root = next((each for each in arguments if each != "--list"), "oscine")
    if "--list" in arguments:
        print(table(root))
        return 0
    findings = []
    chains = closure(root)
    for name, chain in sorted(chains.items()):
        licence = licence_of(name)
        if not licence:
            findings.append(Finding(chain, "declares no licence; read it and enter it in REVIEWED"))
        elif is_copyleft(licence):
            findings.append(Finding(chain, licence))
    for finding in findings:
        print(finding)
    print(f"licences: {len(chains)} runtime packages, {len(findings)} refused")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
