"""What deploy/locks promise: one version and hashes of everything, which pyproject.toml would accept."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools import lock

PROJECT = tomllib.loads((lock.ROOT / "pyproject.toml").read_text())["project"]


def pins(path: Path) -> dict[str, list[tuple[Requirement, int]]]:
    """Package -> its entries in a lock file and how many hashes each has: several where Pythons differ."""
    found: dict[str, list[tuple[Requirement, int]]] = {}
    for entry in re.split(r"(?m)^(?=\w)", re.sub(r"(?m)^ *#.*\n", "", path.read_text()))[1:]:
        requirement = Requirement(entry.partition("\\\n")[0])
        found.setdefault(canonicalize_name(requirement.name), []).append((requirement, entry.count("--hash=sha256:")))
    return found


def asked(extra: str | None) -> list[Requirement]:
    """What pyproject.toml asks for without, or with, an extra, those of extras within it included."""
    lines = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    found = [Requirement(line) for line in lines]
    inner = [each for line in found if line.name == "oscine" for name in line.extras for each in asked(name)]
    return [each for each in found if each.name != "oscine"] + inner


def test_there_is_one_for_each_extra() -> None:
    assert {path.stem for path in lock.LOCKS.glob("*.txt")} == {"run", *lock.extras()}, "make lock"


@pytest.mark.parametrize("extra", ["run", *lock.extras()])
def test_a_lock_has_one_hashed_version_of_all_that_is_asked_for(extra: str) -> None:
    entries = pins(lock.LOCKS / f"{extra}.txt")
    for name, versions in entries.items():
        for requirement, hashes in versions:
            assert [each.operator for each in requirement.specifier] == ["=="], name
            assert hashes, name
    wanted = asked(None) + (asked(extra) if extra != "run" else [])
    for requirement in wanted:
        name = canonicalize_name(requirement.name)
        if name == "torch" and extra not in lock.WITH_TORCH:
            continue
        for pinned, _ in entries[name]:
            (version,) = (each.version for each in pinned.specifier)
            assert requirement.specifier.contains(version, prereleases=True), f"{pinned} in {extra}.txt: make lock"


def test_builds_of_torch_are_left_out_with_what_only_they_need() -> None:
    text = (
        "# made\nnumpy==2.0 \\\n    --hash=sha256:a\n    # via oscine\n"
        "nvidia-cublas==13 \\\n    --hash=sha256:b\n    # via torch\n"
        "torch==2.13 \\\n    --hash=sha256:c\n    # via oscine\n"
        "torch-extra==1 \\\n    --hash=sha256:d\n    # via oscine\n"
        "triton==3 \\\n    --hash=sha256:e\n    # via torch\n"
    )
    left = lock.without_torch(text)
    assert re.findall(r"(?m)^[\w-]+", left) == ["numpy", "torch-extra"]
    wanted = text.replace(
        "    --hash=sha256:e\n    # via torch\n", "    --hash=sha256:e\n    # via\n    #   oscine\n    #   torch\n"
    )
    assert "triton==3" in lock.without_torch(wanted)
