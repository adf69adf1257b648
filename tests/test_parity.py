"""Parity with upstream on the small reference folder, and the runner's own behaviour."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from bench.parity.__main__ import MODULES, rows_of, run
from bench.parity.rows import compare, document, equal, metadata, missing, tensors

REFERENCE = Path(__file__).parent / "reference"
CONFIG = document(REFERENCE, "config.json")


@pytest.mark.parametrize("module", MODULES)
def test_every_check_passes(module: str) -> None:
    failed = [row for row in rows_of(module, REFERENCE, CONFIG) if not row.ok]
    assert not failed, "\n".join(f"{row.name}: {row.max_abs_diff} > {row.tolerance} {row.note}" for row in failed)


def test_missing_files_fail_every_module(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    rows = list(run(tmp_path))
    assert rows and not any(row.ok for row in rows)
    for module in MODULES:
        assert any(row.name.startswith(module) for row in rows), module


def test_missing_folder_is_one_failing_row(tmp_path: Path) -> None:
    assert [row.ok for row in run(tmp_path / "absent")] == [False]


def test_changed_number_fails(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    weights, goldens = CONFIG["files"]["flow"]
    save_file(tensors(REFERENCE, weights), tmp_path / weights)
    changed = tensors(REFERENCE, goldens)
    changed["stage.spk"][0, 0] += 1e-3
    save_file(changed, tmp_path / goldens, metadata(REFERENCE, goldens))
    assert [row.name for row in run(tmp_path, ("flow",)) if not row.ok] == ["flow stage.spk"]


def test_command_prints_one_object_and_exits_1(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.parity", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REFERENCE.parent.parent)
    report = json.loads(done.stdout)
    assert done.returncode == 1 and report["ok"] is False and report["failed"] == report["total"] == 1
    assert report["checks"][0]["max_abs_diff"] is None
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("got", "want", "ok"),
    [
        ([1.0, 2.0], [1.0, 2.05], True),
        ([1.0, 2.0], [1.0, 2.2], False),
        ([float("-inf")], [float("-inf")], True),
        ([float("nan")], [0.0], False),
        ([0.0], [float("nan")], False),
        ([1.0], [1.0, 1.0], False),
    ],
)
def test_compare(got: list[float], want: list[float], ok: bool) -> None:
    assert compare("x", torch.tensor(got), torch.tensor(want), 0.1).ok is ok


def test_equal_and_missing() -> None:
    assert equal("ids", [1, 2], [1, 2]).ok
    assert not equal("ids", [1, 2], [2, 1]).ok
    assert not missing("x", "file").ok


def test_packed_outputs_are_within_a_tenth_of_tolerance() -> None:
    """The full folder is not here, so check the grid: rounding again changes nothing, and no output is coarser."""
    mels = tensors(REFERENCE, CONFIG["files"]["flow"][1])["mel.full"]
    assert torch.equal((mels * 2**14).round() / 2**14, mels)
    assert 0.5 * 2**-14 <= 1e-3 / 10
