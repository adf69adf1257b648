"""Parameters of a URL. Every refusal is an InvalidInput that names the parameter."""

from collections.abc import Mapping

from starlette.datastructures import QueryParams

from oscine_engine.errors import InvalidInput
from oscine_service.websocket.fields import shown

Query = Mapping[str, str]


def each_once(query: QueryParams) -> Query:
    """What each parameter says. Raises InvalidInput for one that is there twice: nobody can tell which is meant."""
    found: dict[str, str] = {}
    for name, value in query.multi_items():
        if name in found:
            raise InvalidInput(f"{shown(name)} is there twice; give it once")
        found[name] = value
    return found


def switch(query: Query, name: str, *, default: bool) -> bool:
    match query.get(name, str(default)).lower():
        case "true" | "1":
            return True
        case "false" | "0":
            return False
        case other:
            raise InvalidInput(f"{name}: {shown(other)}; it must be true or false")


def whole(query: Query, name: str, default: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise InvalidInput(f"{name}: {shown(text)}; it must be a whole number")
    return int(text)


def within(query: Query, name: str, default: int, least: int, most: int) -> int:
    """A whole number from `least` to `most`."""
    found = whole(query, name, default)
    if not least <= found <= most:
        raise InvalidInput(f"{name}: {found} is out of range; use {least} to {most}")
    return found


def number(query: Query, name: str, default: float) -> float:
    text = query.get(name, "")
    try:
        return float(text) if text else default
    except ValueError as error:
        raise InvalidInput(f"{name}: {shown(text)}; it must be a number") from error
