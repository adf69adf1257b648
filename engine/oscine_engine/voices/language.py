"""Languages that voices are told apart by."""

from typing import Literal, TypeAlias

Language: TypeAlias = Literal["en", "zh"]
