"""Text to ids, for the released byte-level BPE and for the small mark tokenizer of the embedded voice alike."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from oscine_engine.errors import CheckpointError
from oscine_engine.text.marks import END_OF_PROMPT, added_tokens, is_control

QWEN2_SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SHORT, _KNOWN = 24, 1 << 14
"""Characters of a piece that is worth remembering, and how many are: most words of a text were said before, and asking
the backend takes longer than all else that is done for a word."""
_QWEN2_BASE_SIZE = 151643
_QWEN2_END_OF_PROMPT = 151646


class Tokenizer:
    """Encodes text with CosyVoice3's added tokens recognised wherever they stand.

    Ids are those of the checkpoint: 151646.. for the added tokens of the released model, 0.. for the embedded voice.
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self._backend = backend
        self._known = lru_cache(_KNOWN)(self._ids)
        self.vocab_size: int = backend.get_vocab_size(with_added_tokens=True)
        self.end_of_prompt: int = self.id(END_OF_PROMPT)
        self.control_ids: frozenset[int] = frozenset(
            number for token, number in backend.get_vocab(with_added_tokens=True).items() if is_control(token)
        )

    @classmethod
    def load(cls, directory: Path | str) -> "Tokenizer":
        """Read a `CosyVoice-BlankEN` folder: `tokenizer.json` if present, else Qwen2's `vocab.json` and `merges.txt`.

        Added tokens that the files lack are appended in the released order. Raises CheckpointError when files are
        missing or number the added tokens differently from the released model.
        """
        directory = Path(directory)
        whole = directory / "tokenizer.json"
        vocab, merges = directory / "vocab.json", directory / "merges.txt"
        if whole.is_file():
            backend = _read(whole)
        elif vocab.is_file() and merges.is_file():
            backend = _qwen2(vocab, merges)
        else:
            raise CheckpointError(f"no tokenizer in {directory}: expected tokenizer.json, or vocab.json and merges.txt")
        base_size = backend.get_vocab_size(with_added_tokens=False)
        backend.add_special_tokens([_added(t) for t in added_tokens() if backend.token_to_id(t) is None])
        if base_size == _QWEN2_BASE_SIZE and backend.token_to_id(END_OF_PROMPT) != _QWEN2_END_OF_PROMPT:
            raise CheckpointError(
                f"{directory}: {END_OF_PROMPT} has id {backend.token_to_id(END_OF_PROMPT)}, the model was trained with "
                f"{_QWEN2_END_OF_PROMPT}; use the tokenizer files that were released with the checkpoint"
            )
        return cls(backend)

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, added tokens included; characters outside a small vocabulary are dropped."""
        return list(self._known(text) if len(text) <= _SHORT else self._ids(text))

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self._backend.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of `ids`, added tokens written out."""
        text: str = self._backend.decode(list(ids), skip_special_tokens=False)
        return text

    def find(self, token: str) -> int | None:
        """Id of one vocabulary entry, or None."""
        number: int | None = self._backend.token_to_id(token)
        return number

    def id(self, token: str) -> int:
        """Id of one vocabulary entry; raises CheckpointError when this tokenizer has none."""
        number = self.find(token)
        if number is None:
            raise CheckpointError(f"the tokenizer has no entry {token!r}; the model directory does not fit")
        return number


def character_backend(entries: Iterable[str], specials: Iterable[str]) -> tokenizers.Tokenizer:
    """A tokenizer without merges: each entry is one id in the given order, of which `specials` may be longer
    than one character. Characters that are no entry vanish."""
    backend = tokenizers.Tokenizer(models.BPE(vocab={e: n for n, e in enumerate(entries)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens([_added(token) for token in specials])
    return backend


def _read(path: Path) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises bare Exception for unreadable files
        raise CheckpointError(f"{path} is not a tokenizer file: {error}") from error


def _qwen2(vocab: Path, merges: Path) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.BPE.from_file(str(vocab), str(merges)))
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([_added(token) for token in QWEN2_SPECIALS])
    return backend


def _added(token: str) -> AddedToken:
    return AddedToken(token, special=True, normalized=False)
