"""Write the embedded voice's small tokenizer.json: `python -m training.text.build_tokenizer OUT/tokenizer.json`."""

import argparse
import string
from pathlib import Path

from oscine_engine.text.marks import VOICE_TAGS, added_tokens
from oscine_engine.text.tokenizer import character_backend

CHARACTERS = (" ", ",", ".", "?", "!", ";", ":", *string.ascii_lowercase)


def entries() -> list[str]:
    """The whole vocabulary in id order: 280 added tokens, 5 voice tags, space, punctuation, letters."""
    return [*added_tokens(), *VOICE_TAGS, *CHARACTERS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    output: Path = parser.parse_args().output
    output.parent.mkdir(parents=True, exist_ok=True)
    character_backend(entries(), [*added_tokens(), *VOICE_TAGS]).save(str(output))
    print(f"{len(entries())} entries written to {output}")


if __name__ == "__main__":
    main()
