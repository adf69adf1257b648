"""The options of an engine of one's own, apart from all others.

A command line may name a service instead, which has an engine already. What this group holds is then without meaning,
so it is known which of its options were given, be it with the values that they have anyway. And an engine's settings
are read from this group alone: an option that was put elsewhere would not reach one.
"""

import argparse
from collections.abc import Mapping
from typing import Any


class EngineOptions:
    """A group of options of `parser`, under a title of its own in its help."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._group = parser.add_argument_group("the engine")
        self._defaults: dict[str, Any] = {}
        self._flags: dict[str, str] = {}

    def add(self, flag: str, default: Any, help: str, **how: Any) -> None:
        """Add an option as `add_argument` does; "{}" in `help` stands for the default."""
        action = self._group.add_argument(flag, default=argparse.SUPPRESS, help=help.format(default), **how)
        self._defaults[action.dest] = default
        self._flags[action.dest] = flag

    def given(self, options: argparse.Namespace) -> list[str]:
        """The flags that the command line names."""
        return [flag for name, flag in self._flags.items() if name in options]

    def values(self, options: argparse.Namespace) -> Mapping[str, Any]:
        """Each option's value by its name: as given, or else its default."""
        return {name: getattr(options, name, default) for name, default in self._defaults.items()}
