"""Settings as flags of a command."""

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from oscine_service.config.model import SECTIONS, SETTINGS
from oscine_service.config.setting import Setting
from oscine_service.config.sources import FILE_VARIABLE, Resolved, resolve

ALL = tuple(SECTIONS)
TITLES = {
    "server": "the server",
    "timeouts": "patience with clients",
    "engine": "the engine",
    "telephony": "telephone calls",
    "security": "the door",
    "observe": "what is told",
}


class Arguments:
    """Groups of flags of `parser`, one for each of `sections`, and --config.

    Flags that were not given are not in the namespace, so that what stands in the environment or in the file counts.
    leave_out: settings that mean nothing to this command.
    """

    def __init__(self, parser: argparse.ArgumentParser, sections: Iterable[str], leave_out: Iterable[str] = ()) -> None:
        self._settings: list[Setting] = []
        parser.add_argument(
            "--config",
            type=Path,
            default=argparse.SUPPRESS,
            metavar="FILE",
            help=f"settings in TOML (default: ${FILE_VARIABLE}); a flag counts before the environment, that before "
            "the file",
        )
        for section in sections:
            group = parser.add_argument_group(TITLES[section])
            for setting in SETTINGS.values():
                if setting.section == section and setting.name not in leave_out:
                    self._settings.append(setting)
                    _add(group, setting)

    def given(self, options: argparse.Namespace, section: str) -> list[str]:
        """The flags of a section that the command line names, and --config, which may hold any."""
        config = ["--config"] if "config" in options else []
        named = [each for each in self._settings if each.section == section and _dest(each.name) in options]
        return [*config, *(each.flag for each in named)]


def _add(group: Any, setting: Setting) -> None:
    about = setting.about
    how: dict[str, Any] = {"default": argparse.SUPPRESS, "dest": _dest(setting.name)}
    if setting.is_switch:
        group.add_argument(
            setting.flag,
            action=argparse.BooleanOptionalAction,
            help=f"{about.help} (default {setting.default_text})",
            **how,
        )
        return
    if about.choices:
        how["choices"] = about.choices
    else:
        how["metavar"] = about.metavar
    group.add_argument(
        setting.flag, type=about.parse, help=_escaped(f"{about.help} (default {setting.default_text})"), **how
    )


def _escaped(help: str) -> str:
    return help.replace("%", "%%")


def resolved(options: argparse.Namespace) -> Resolved:
    """What was set for a command. Raises InvalidInput, which names the source, for what is not legal."""
    given = vars(options)
    flags = {name: given[_dest(name)] for name in SETTINGS if _dest(name) in given}
    return resolve(given.get("config"), os.environ, flags)


def flag(options: argparse.Namespace, name: str) -> Any:
    """What the command line says of a setting; None if nothing."""
    return getattr(options, _dest(name), None)


def _dest(name: str) -> str:
    """Apart from what commands call their own options."""
    return f"setting {name}"
