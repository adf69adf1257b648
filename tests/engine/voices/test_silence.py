"""ONNX Runtime tells nobody that it is used. Where it would, it complains that it can keep no name for this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import oscine_engine

MODEL = Path(oscine_engine.__file__).parent / "checkpoint" / "fledgling" / "campplus.onnx"
HOMES = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")


def complaint(imported: str) -> str:
    """What a process says that imports these and opens a model."""
    kept = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    opening = f"onnxruntime.InferenceSession({str(MODEL)!r}, providers=['CPUExecutionProvider'])"
    opened = subprocess.run(
        [sys.executable, "-c", f"import {imported}\n{opening}"],
        env={**kept, **dict.fromkeys(HOMES, "/proc/nowhere")},
        capture_output=True,
        text=True,
        check=True,
    )
    return opened.stderr


def test_nothing_is_told_to_its_makers() -> None:
    if "telemetry" not in complaint("onnxruntime"):
        pytest.skip("this version tells nothing in any case")
    assert "telemetry" not in complaint("oscine_engine.voices.encoders, onnxruntime")
