"""Services that are watched."""

from pathlib import Path

import pytest

from oscine_engine.checkpoint import synthetic


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small one of random weights."""
    return synthetic.write(tmp_path_factory.mktemp("model"))
