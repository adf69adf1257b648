from pathlib import Path

import pytest

from oscine_engine.text.front_end import FrontEnd
from oscine_engine.text.marks import VOICE_TAGS, added_tokens
from oscine_engine.text.tokenizer import Tokenizer, character_backend
from tests.engine.text.files import byte_level_files
from training.text.build_tokenizer import entries


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """The embedded voice's tokenizer, built as training builds it."""
    folder = tmp_path_factory.mktemp("blank")
    character_backend(entries(), [*added_tokens(), *VOICE_TAGS]).save(str(folder / "tokenizer.json"))
    return Tokenizer.load(folder)


@pytest.fixture(scope="session")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A byte-level tokenizer with Qwen2's pre-tokenizer and a handful of merges."""
    folder: Path = tmp_path_factory.mktemp("bytes")
    byte_level_files(folder)
    return Tokenizer.load(folder)


@pytest.fixture(scope="session")
def phones(small: Tokenizer) -> FrontEnd:
    return FrontEnd("phones", small)


@pytest.fixture(scope="session")
def plain(byte_level: Tokenizer) -> FrontEnd:
    return FrontEnd("plain", byte_level)
