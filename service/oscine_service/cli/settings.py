"""`oscine settings`: what is set, and where."""

import argparse

from oscine_service.config import arguments
from oscine_service.config.model import SECTIONS, SETTINGS
from oscine_service.config.setting import toml
from oscine_service.config.sources import Resolved

HELP = "show all settings of serve as a settings file, and where each comes from"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.Arguments(parser, arguments.ALL)


async def show(resolved: Resolved) -> None:
    """Prints TOML that `--config` takes; what is not set is there as a comment."""
    for section in SECTIONS:
        print(f"[{section}]")
        held = getattr(resolved.settings, section)
        for setting in SETTINGS.values():
            if setting.section == section:
                source = resolved.sources.get(setting.name)
                value = getattr(held, setting.name)
                line = f"{'# ' if source is None else ''}{setting.name} = {toml(value)}"
                print(line if source is None else f"{line}  # {source}")
        print()
