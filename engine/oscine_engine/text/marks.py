"""CosyVoice3's 280 added tokens: inline pronunciation marks, events, and the control tokens that no client may type."""

from functools import cache
from importlib.resources import files

END_OF_PROMPT = "<|endofprompt|>"

VOICE_TAGS = tuple(f"<|voice{n}|>" for n in range(1, 6))
"""Tags of the embedded voices, in order: af_heart, am_michael, bf_emma, zf_xiaoxiao, zm_yunxi."""


@cache
def added_tokens() -> tuple[str, ...]:
    """The 280 added tokens in the order in which the released tokenizer numbers them."""
    return tuple(files(__package__).joinpath("data/added_tokens.txt").read_text(encoding="utf-8").split())


@cache
def typed_marks() -> frozenset[str]:
    """Added tokens that user text may contain: phones, pinyin parts and events, but no `<|...|>` control token."""
    return frozenset(token for token in added_tokens() if not is_control(token))


def is_control(token: str) -> bool:
    """True for `<|...|>` tokens, which steer the model and must never come from user text."""
    return token.startswith("<|") and token.endswith("|>")
