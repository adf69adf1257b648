from pathlib import Path

import pytest

from tools import licences


@pytest.mark.parametrize(
    "licence",
    [
        "GPL-3.0-only",
        "AGPL-3.0-or-later",
        "GNU General Public License v3 (GPLv3)",
        "GNU Affero General Public License v3",
        "MIT AND GPL-2.0-only",
        "GPLv2+",
    ],
)
def test_gpl_is_refused(licence: str) -> None:
    assert licences.is_copyleft(licence)


@pytest.mark.parametrize(
    "licence",
    [
        "MIT",
        "LGPL-2.1-or-later",
        "GNU Library or Lesser General Public License (LGPL)",
        "MIT OR GPL-2.0-only",
        "BSD-3-Clause AND GPL-3.0-or-later WITH GCC-exception-3.1",
        "MPL-2.0 AND MIT",
    ],
)
def test_permissive_lesser_and_a_free_choice_pass(licence: str) -> None:
    assert not licences.is_copyleft(licence)


def package(site: Path, name: str, *headers: str) -> None:
    """An installed distribution, as importlib.metadata sees one."""
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir()
    lines = ["Metadata-Version: 2.4", f"Name: {name}", "Version: 1.0", *headers]
    (folder / "METADATA").write_text("\n".join(lines) + "\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_the_chain_to_a_gpl_package_is_printed(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package(site, "aroot", "License-Expression: MIT", "Requires-Dist: amiddle[loud]")
    package(site, "amiddle", "License-Expression: MIT", "Requires-Dist: aleaf; extra == 'loud'", "Provides-Extra: loud")
    package(site, "aleaf", "Classifier: License :: OSI Approved :: GNU General Public License v3 (GPLv3)")
    assert licences.main("aroot") == 1
    assert "aroot -> amiddle -> aleaf: GNU General Public License v3" in capsys.readouterr().out


def test_what_other_systems_or_unused_extras_need_is_not_judged(site: Path) -> None:
    other = "Requires-Dist: not-installed-anywhere; sys_platform == 'amiga'"
    package(site, "broot", "License-Expression: MIT", other, "Requires-Dist: nor-this; extra == 'fancy'")
    assert licences.main("broot") == 0


def test_a_package_that_declares_nothing_is_refused(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package(site, "croot", "License: UNKNOWN")
    assert licences.main("croot") == 1
    assert "declares no licence" in capsys.readouterr().out


def test_the_list_has_every_package_and_what_it_declares(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package(site, "droot", "License-Expression: MIT", "Requires-Dist: dleaf")
    package(site, "dleaf", "Classifier: License :: OSI Approved :: BSD License")
    assert licences.main("--list", "droot") == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["| dleaf | 1.0 | BSD License |", "| droot | 1.0 | MIT |"]


def test_our_own_dependencies_pass() -> None:
    assert licences.main() == 0
