"""What is known of one setting besides its value: kept beside the field of a dataclass that holds it."""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from oscine_engine.errors import InvalidInput
from oscine_service.config import parse
from oscine_service.storage.address import Address

T = TypeVar("T")
_KEY = "oscine"


class Contradiction(InvalidInput):
    """Settings that cannot go together, whatever the machine is like: to try again helps nobody."""


@dataclass(frozen=True, slots=True)
class About:
    """help: a sentence without its end. shown: what is said instead of a default that is not clear by itself."""

    help: str
    parse: Callable[[str], Any]
    metavar: str
    choices: tuple[str, ...]
    shown: str | None


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, which has one name everywhere: in its section of the file, as a flag, and in the environment."""

    section: str
    name: str
    default: Any
    about: About

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return f"OSCINE_{self.name.upper()}"

    @property
    def is_switch(self) -> bool:
        return self.about.parse is parse.switch

    @property
    def default_text(self) -> str:
        """The default in words."""
        return self.about.shown if self.about.shown is not None else written(self.default)

    def read(self, value: str) -> Any:
        """Raises ArgumentTypeError, which says what is legal."""
        about = self.about
        if about.choices and value not in about.choices:
            raise argparse.ArgumentTypeError(f"{value!r} is none of {', '.join(about.choices)}")
        return about.parse(value)


def setting(
    default: Any,
    help: str,
    read: Callable[[str], T],
    *,
    metavar: str = "",
    choices: tuple[str, ...] = (),
    shown: str | None = None,
) -> T:
    """A field of a section: a dataclass."""
    about = About(help, read, metavar, choices, shown)
    made: T = field(default=default, metadata={_KEY: about})
    return made


def settings_of(section: str, kind: type[Any]) -> Iterator[Setting]:
    """The settings that the dataclass `kind` holds, in order."""
    for each in fields(kind):
        yield Setting(section, each.name, each.default, each.metadata[_KEY])


def written(value: Any) -> str:
    """A value as it is written."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case tuple():
            return ",".join(value)
        case Path() | Address() | str() | int():
            return str(value)
        case _:
            raise TypeError(f"a setting is {value!r}")


def toml(value: Any) -> str:
    """A value as TOML has it; what is not set, which TOML has no word for, as an empty text."""
    match value:
        case bool() | float() | int():
            return written(value)
        case tuple():
            return json.dumps(list(value), ensure_ascii=False)
        case None:
            return '""'
        case _:
            return json.dumps(str(value), ensure_ascii=False)
