"""The image that the container file makes here."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Image:
    """bytes: of all that lies in it, unpacked."""

    name: str
    bytes: int


@pytest.fixture(scope="session")
def image() -> Image:
    """Steps that did not change since the last time are not done again."""
    command = [sys.executable, str(ROOT / "tools" / "build_image.py"), "--target", "cpu"]
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    told = json.loads(made.stdout)
    return Image(told["image"], told["bytes"])
