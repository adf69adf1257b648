import pytest

from oscine_engine.checkpoint import synthetic
from oscine_engine.checkpoint.load import Checkpoint, load


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return load(synthetic.write(tmp_path_factory.mktemp("model")))
