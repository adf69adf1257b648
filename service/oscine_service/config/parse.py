"""Values as they are written, on a command line, in the environment or in a file.

Each raises ArgumentTypeError, which says what is legal.
"""

import argparse
import math
import re
from pathlib import Path

from oscine_service.storage import address

WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\sA-Z/?#@]+")
LONGEST_WHOLE = 18
"""Digits of a whole number."""


def text(value: str) -> str:
    if not value:
        raise argparse.ArgumentTypeError("it is empty")
    if "\0" in value:
        raise argparse.ArgumentTypeError(f"{value!r} holds a zero byte")
    return value


def switch(value: str) -> bool:
    if value.lower() not in WORDS:
        raise argparse.ArgumentTypeError(f"{value!r} is neither true nor false")
    return WORDS[value.lower()]


def path(value: str) -> Path:
    try:
        return Path(text(value)).expanduser()
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"{value!r} begins with the home folder of nobody here") from error


def store(value: str) -> Path | address.Address:
    """A folder, or something that several machines share."""
    if "://" not in value:
        return path(value)
    try:
        return address.read(text(value))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def names(value: str) -> tuple[str, ...]:
    """Separated by commas."""
    return tuple(name.strip() for name in value.split(",") if name.strip())


def origins(value: str) -> tuple[str, ...]:
    """Of web pages, as browsers write them, separated by commas; * is any."""
    found = names(value)
    for origin in found:
        if origin not in ("*", "null") and not _ORIGIN.fullmatch(origin):
            raise argparse.ArgumentTypeError(
                f"{origin!r} is no origin: use https://HOST or https://HOST:PORT, in small letters and without a path, "
                "or *"
            )
    return found


def pairs(value: str) -> tuple[str, ...]:
    """NAME=VALUE, separated by commas."""
    found = names(value)
    for pair in found:
        name, equals, rest = pair.partition("=")
        if not (name.strip() and equals and rest.strip()):
            raise argparse.ArgumentTypeError(f"{pair!r} is not of the form NAME=VALUE")
    return found


def port(value: str) -> int:
    if not _whole(value) or int(value) > 65535:
        raise argparse.ArgumentTypeError(f"{_short(value)} is not a port: use a number from 0 to 65535")
    return int(value)


def port_or_none(value: str) -> int | None:
    return None if value == "none" else port(value)


def text_or_none(value: str) -> str | None:
    return None if value == "none" else text(value)


def port_range(value: str) -> str:
    """FIRST-LAST, or 0; `ports_of` reads it."""
    try:
        first, last = ports_of(value)
    except ValueError:
        first, last = 1, 0
    if (first, last) != (0, 0) and not (first > 0 and first + first % 2 < last < 65536):
        raise argparse.ArgumentTypeError(f"{value!r} is no range of ports: use FIRST-LAST, such as 16384-32767, or 0")
    return value


def ports_of(value: str) -> tuple[int, int]:
    """First and last of what `port_range` takes; 0 and 0 for 0. Raises ValueError for what it does not."""
    if value == "0":
        return 0, 0
    first, _, last = value.partition("-")
    if not (first.isdecimal() and last.isdecimal() and first.isascii() and last.isascii()):
        raise ValueError(value)
    return int(first), int(last)


def device(value: str) -> str:
    kind, _, number = value.partition(":")
    if value not in ("cpu", "cuda") and not (kind == "cuda" and _whole(number)):
        raise argparse.ArgumentTypeError(f"{_short(value)} is not a device: use cpu, cuda or cuda:N")
    return value


def devices(value: str) -> tuple[str, ...]:
    """Devices of one kind, separated by commas; each GPU once."""
    found = tuple(device(each) for each in value.split(","))
    gpus = [each.partition(":")[2] or "0" for each in found if each != "cpu"]
    if gpus and len(gpus) < len(found):
        raise argparse.ArgumentTypeError(
            f"{value!r} names a CPU and a GPU: calls would differ by where they are placed"
        )
    if len({int(gpu) for gpu in gpus}) < len(gpus):
        raise argparse.ArgumentTypeError(f"{value!r} names a GPU twice: one engine fills it")
    return found


def count(value: str) -> int:
    if not _whole(value) or int(value) == 0:
        raise argparse.ArgumentTypeError(f"{_short(value)} is not a number from 1 up")
    return int(value)


def seconds(value: str) -> float:
    number = _number(value)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number of seconds above 0 (inf for no limit)")
    return number


def wait(value: str) -> float:
    return 0.0 if _number(value) == 0 else seconds(value)


def share(value: str) -> float:
    number = _number(value)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{value!r} is not a share above 0 (inf for no limit)")
    return number


def _whole(value: str) -> bool:
    return value.isdecimal() and len(value) <= LONGEST_WHOLE


def _short(value: str) -> str:
    return repr(value if len(value) <= 60 else f"{value[:60]}...")


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return math.nan
