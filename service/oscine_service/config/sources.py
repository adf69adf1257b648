"""Where values come from: a flag counts before the environment, that before the file, and that before the default."""

import argparse
import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oscine_engine.errors import InvalidInput
from oscine_service.config.model import SECTIONS, SETTINGS, Settings
from oscine_service.config.setting import Setting, written

FILE_VARIABLE, KEY_VARIABLE = "OSCINE_CONFIG", "OSCINE_KEY"
OTHERS = frozenset({FILE_VARIABLE, KEY_VARIABLE})
"""Variables of ours that are no settings: the latter is that of programs that call a service."""
_KUBERNETES = re.compile(r"(udp|tcp|sctp)://")
"""What Kubernetes puts into variables like OSCINE_PORT where a Service is called oscine."""
_KUBERNETES_NAMES = re.compile(r"OSCINE_.*(SERVICE_HOST|SERVICE_PORT|PORT_\d+_(TCP|UDP|SCTP))(_\w+)?$")


@dataclass(frozen=True, slots=True)
class Resolved:
    """sources: where each value that was set came from, by the setting's name. warnings: a line each."""

    settings: Settings
    sources: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def resolve(
    file: Path | None = None, environment: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> Resolved:
    """Settings from all sources. flags: values that were read already, by name; what is no setting is left out.

    file: what --config names; None is what the environment names, if it does. Raises InvalidInput, which names the
    source, for values that are not legal and for names in the file that are none.
    """
    environment = environment or {}
    named = file
    if named is None and environment.get(FILE_VARIABLE):
        named = Path(environment[FILE_VARIABLE]).expanduser()
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    if named is not None:
        for setting, value in _in_file(named):
            values[setting.name], sources[setting.name] = value, str(named)
    for setting, value in _in_environment(environment):
        values[setting.name], sources[setting.name] = value, setting.variable
    for name, value in (flags or {}).items():
        if name in SETTINGS:
            values[name], sources[name] = value, SETTINGS[name].flag
    return Resolved(_filled(values), sources, tuple(_unknown(environment)))


def _filled(values: Mapping[str, Any]) -> Settings:
    settings = Settings()
    sections = {
        section: replace(
            getattr(settings, section), **{n: v for n, v in values.items() if SETTINGS[n].section == section}
        )
        for section in SECTIONS
    }
    return Settings(**sections)


def _in_environment(environment: Mapping[str, str]) -> Iterator[tuple[Setting, Any]]:
    for setting in SETTINGS.values():
        value = environment.get(setting.variable, "")
        if value and not _KUBERNETES.match(value):
            yield setting, _read(setting, value, setting.variable)


def _unknown(environment: Mapping[str, str]) -> Iterator[str]:
    known = {setting.variable for setting in SETTINGS.values()} | OTHERS
    for name in sorted(environment):
        if name.startswith("OSCINE_") and name not in known and not _KUBERNETES_NAMES.match(name):
            yield f"{name} in the environment is no setting{_like(name, known)}"


def _in_file(path: Path) -> Iterator[tuple[Setting, Any]]:
    try:
        tables = tomllib.loads(path.read_text())
    except OSError as error:
        raise InvalidInput(f"the settings file {path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # also of numbers too long to be read, and of brackets too deep
        raise InvalidInput(f"the settings file {path} is not TOML: {error}") from error
    for section, table in tables.items():
        if section not in SECTIONS or not isinstance(table, dict):
            raise InvalidInput(
                f"{path}: {section!r} is no section{_like(section, SECTIONS)}; there are {', '.join(SECTIONS)}"
            )
        names = {setting.name for setting in SETTINGS.values() if setting.section == section}
        for name, value in table.items():
            if name not in names:
                elsewhere = f": it belongs to [{SETTINGS[name].section}]" if name in SETTINGS else _like(name, names)
                raise InvalidInput(f"{path}: {name!r} is no setting of [{section}]{elsewhere}")
            if value != "":
                yield SETTINGS[name], _of_file(SETTINGS[name], value, path)


def _of_file(setting: Setting, value: Any, path: Path) -> Any:
    """A path is taken from the folder of the file that names it."""
    where = f"{path}: {setting.name}"
    match value:
        case list() if all(isinstance(each, str) for each in value):
            found = _read(setting, written(tuple(value)), where)
        case bool() | int() | float() | str():
            found = _read(setting, written(value), where)
        case _:
            raise InvalidInput(f"{where}: {value!r} is neither a text, a number, a truth value nor a list of texts")
    return path.parent / found if isinstance(found, Path) else found


def _read(setting: Setting, value: str, where: str) -> Any:
    try:
        return setting.read(value)
    except argparse.ArgumentTypeError as error:
        raise InvalidInput(f"{where}: {error}") from error


def _like(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""
