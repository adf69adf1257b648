"""`oscine keys`: who may call. A service that runs notices within a second."""

import argparse
import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from oscine_engine.errors import InvalidInput
from oscine_service.config.model import SETTINGS, Security
from oscine_service.security import keys
from oscine_service.security.keys import DEFAULT_GRANTS, Key
from oscine_service.security.principal import Grant

HELP = "list, add and remove the keys that clients of a service must bring"
MOST_DAYS = 36500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    where = argparse.ArgumentParser(add_help=False)
    for each in (parser, where):
        each.add_argument(
            "--keys",
            type=Path,
            default=argparse.SUPPRESS,
            metavar="FILE",
            help=f"file of the keys, as serve is told (default ${SETTINGS['keys'].variable})",
        )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    verbs.add_parser("list", parents=[where], help="what each key is granted (the default)")
    adding = verbs.add_parser("add", parents=[where], help="make a key and print it: it is shown this once")
    adding.add_argument("name", metavar="NAME")
    adding.add_argument("--owner", metavar="OWNER", help="of the voices that it sees and makes (default NAME)")
    adding.add_argument("--streams", type=int, metavar="COUNT", help="calls at a time (default no limit)")
    adding.add_argument("--characters-per-minute", type=int, metavar="COUNT", help="of text (default no limit)")
    adding.add_argument("--most-voices", type=int, metavar="COUNT", help="that it may keep (default no limit)")
    adding.add_argument("--voices", metavar="PATTERN[,PATTERN...]", help="to speak in (default any)")
    adding.add_argument(
        "--grants",
        default=",".join(DEFAULT_GRANTS),
        metavar="GRANT[,GRANT...]",
        help=f"some of {', '.join(Grant)} (default %(default)s)",
    )
    adding.add_argument("--days", type=int, metavar="COUNT", help="until it expires (default never)")
    removing = verbs.add_parser("remove", parents=[where], help="it is refused from now on, and so are its tokens")
    removing.add_argument("name", metavar="NAME")


async def run(options: argparse.Namespace, security: Security) -> None:
    """Run the verb. Raises InvalidInput and OSError. security: names the file where the command line does not."""
    file: Path | None = getattr(options, "keys", security.keys)
    if file is None:
        raise InvalidInput(f"name the file of keys: --keys FILE, or {SETTINGS['keys'].variable} in the environment")
    verbs: dict[str | None, Callable[[argparse.Namespace, Path], None]] = {
        None: _list,
        "list": _list,
        "add": _add,
        "remove": _remove,
    }
    await asyncio.to_thread(verbs[options.verb], options, file)


def _list(options: argparse.Namespace, file: Path) -> None:
    found = keys.read(file).values()
    width = max((len(key.name) for key in found), default=0)
    for key in found:
        print(f"{key.name:{width}}  {_granted(key)}")


def _add(options: argparse.Namespace, file: Path) -> None:
    if options.days is not None and not 1 <= options.days <= MOST_DAYS:
        raise InvalidInput(f"--days: {options.days} is not a number from 1 to {MOST_DAYS}; leave it out for never")
    ends = None if options.days is None else datetime.now(UTC) + timedelta(days=options.days)
    key = keys.new_key()
    made = Key(
        name=options.name,
        sha256=keys.digest(key),
        owner=options.name if options.owner is None else options.owner,
        streams=options.streams,
        characters_per_minute=options.characters_per_minute,
        voices=() if options.voices is None else _listed("--voices", options.voices),
        most_voices=options.most_voices,
        grants=_listed("--grants", options.grants),
        created=keys.now_text(),
        expires=None if ends is None else ends.isoformat(timespec="seconds"),
    )
    with keys.changing(file) as found:
        if made.name in found:
            raise InvalidInput(f"there is a key {made.name!r} already: remove it first, or take another name")
        found[made.name] = made
    print(key)
    print(f"{made.name}: {_granted(made)}; keep the line above, it is shown this once", file=sys.stderr)


def _remove(options: argparse.Namespace, file: Path) -> None:
    with keys.changing(file) as found:
        if found.pop(options.name, None) is None:
            raise InvalidInput(f"there is no key {options.name!r}; there are {', '.join(found) or 'none'}")
    print(f"removed {options.name}")


def _listed(option: str, text: str) -> tuple[str, ...]:
    """Raises InvalidInput where nothing stands, or nothing between two commas: perhaps a variable that was not set."""
    found = tuple(each.strip() for each in text.split(","))
    if not all(found):
        raise InvalidInput(f"{option}: {text!r} names nothing, or has an empty part; write names, or leave it out")
    return found


def _granted(key: Key) -> str:
    parts = [f"may {', '.join(key.grants) or 'nothing'}", f"owner {key.owner!r}"]
    if key.voices:
        parts.append(f"voices {', '.join(key.voices)}")
    limits = (("streams", key.streams), ("characters a minute", key.characters_per_minute), ("voices", key.most_voices))
    parts += [f"{count} {what}" for what, count in limits if count is not None]
    if key.expires is not None:
        parts.append(f"until {key.expires}")
    return "; ".join(parts)
