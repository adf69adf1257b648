"""The CMU Pronouncing Dictionary as a plain mapping, unpacked on first use (about 0.1 s)."""

import lzma
from functools import cache
from importlib.resources import files

Phones = tuple[str, ...]
"""ARPAbet phones with stress digits on vowels, such as ("HH", "AH0", "L", "OW1")."""

FIRST_CODE = 33
"""Phone n of a packed file's inventory is written as chr(FIRST_CODE + n)."""


class Lexicon:
    """Lower-case word -> phones, decoded word by word as they are asked for."""

    def __init__(self, inventory: list[str], coded: dict[str, str]) -> None:
        self._inventory = inventory
        self._coded = coded

    def __len__(self) -> int:
        return len(self._coded)

    def __contains__(self, word: str) -> bool:
        return word in self._coded

    def get(self, word: str) -> Phones | None:
        """Phones of a lower-case word, or None when the dictionary lacks it."""
        coded = self._coded.get(word)
        return None if coded is None else tuple(self._inventory[ord(letter) - FIRST_CODE] for letter in coded)

    def words(self) -> list[str]:
        """All words, sorted."""
        return list(self._coded)


def unpack(packed: bytes) -> Lexicon:
    """Read the compressed form: inventory, words and coded phones, separated by NUL."""
    inventory, words, spoken = lzma.decompress(packed).decode("ascii").split("\0")
    return Lexicon(inventory.split(" "), dict(zip(words.split("\n"), spoken.split("\n"), strict=True)))


@cache
def shipped() -> Lexicon:
    """The dictionary that comes with this package."""
    return unpack(files(__package__).joinpath("data/cmudict.xz").read_bytes())
