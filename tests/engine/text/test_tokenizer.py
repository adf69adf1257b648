import json
from pathlib import Path

import pytest

from oscine_engine.errors import CheckpointError
from oscine_engine.text.marks import VOICE_TAGS, added_tokens
from oscine_engine.text.tokenizer import Tokenizer
from tests.engine.text.files import byte_level_files
from training.text.build_tokenizer import CHARACTERS


def test_added_tokens_come_first_and_in_order(small: Tokenizer) -> None:
    assert len(added_tokens()) == 280
    assert [small.id(token) for token in added_tokens()] == list(range(280))
    assert [small.id(tag) for tag in VOICE_TAGS] == list(range(280, 285))
    assert small.vocab_size == 280 + 5 + len(CHARACTERS)


def test_marks_are_single_ids_and_round_trip(small: Tokenizer) -> None:
    text = "<|voice4|><|endofprompt|>[HH][AH0][L][OW1], [j][ǐ]? ok"
    ids = small.encode(text)
    assert ids[:2] == [small.id("<|voice4|>"), small.end_of_prompt]
    assert len(ids) == 2 + 4 + 2 + 2 + 1 + 3
    assert small.decode(ids) == text


def test_characters_outside_the_small_vocabulary_vanish(small: Tokenizer) -> None:
    assert small.encode("a你🙂b") == small.encode("ab")


def test_control_ids_are_exactly_the_bracketed_bars(small: Tokenizer) -> None:
    names = {small.decode([number]) for number in small.control_ids}
    assert names == {"<|im_start|>", "<|im_end|>", "<|endofprompt|>", "<|endofsystem|>", *VOICE_TAGS}


def test_vocab_and_merges_are_read_as_qwen2(tmp_path: Path) -> None:
    byte_level_files(tmp_path)
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.decode(tokenizer.encode("say hi, 你好 42!")) == "say hi, 你好 42!"
    assert tokenizer.encode(" hi") == [257]
    # 258 base entries, three Qwen2 specials (two of them also lead the added list), then the rest in order
    assert tokenizer.id("<|im_end|>") == 260
    assert tokenizer.id("<|endofprompt|>") == 261
    assert tokenizer.id("[ǜ]") == 261 + 277
    assert tokenizer.encode("hi[breath]") == [*tokenizer.encode("hi"), 262]


def test_a_folder_without_files_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="expected tokenizer"):
        Tokenizer.load(tmp_path)


def test_a_broken_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match="not a tokenizer file"):
        Tokenizer.load(tmp_path)


def test_an_unknown_entry_is_a_clear_error(small: Tokenizer) -> None:
    with pytest.raises(CheckpointError, match="no entry"):
        small.id("<|voice9|>")


def test_added_tokens_are_the_released_list() -> None:
    reference = Path(__file__).parents[2] / "reference" / "cosyvoice3_special_tokens.json"
    assert list(added_tokens()) == json.loads(reference.read_text())["additional_special_tokens_in_order"]
