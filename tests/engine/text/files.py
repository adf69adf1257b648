"""Tokenizer files made on the spot."""

import json
from pathlib import Path

import tokenizers


def byte_level_files(folder: Path) -> None:
    """A Qwen2-shaped vocab.json and merges.txt with 256 bytes and two merges."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: n for n, letter in enumerate([*letters, "Ġh", "Ġhi"])}
    (folder / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\nĠ h\nĠh i\n", encoding="utf-8")
