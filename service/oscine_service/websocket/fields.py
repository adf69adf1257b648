"""JSON messages and their fields: what is not as it must be is an InvalidInput that names it. Pure."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from oscine_engine.errors import InvalidInput
from oscine_service import strict_json

Object: TypeAlias = Mapping[str, Any]


def loads(message: str | bytes) -> Object:
    """The object in a text message. Raises InvalidInput for any other."""
    if isinstance(message, bytes):
        raise InvalidInput("a binary message: clients send JSON in text messages")
    try:
        found = strict_json.loads(message)
    except ValueError as error:
        raise InvalidInput(f"the message is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidInput("the message is not a JSON object")
    return found


LARGEST = 2**63 - 1
"""Of a whole number; what a field takes is less, but for a seed."""
MOST_NAME = 60
_REQUIRED: Any = object()
_KINDS = {str: "a string", int: "a whole number", float: "a number", bool: "true or false", dict: "an object"}


def field(message: Object, name: str, kind: type, default: Any = _REQUIRED, *, inside: str = "") -> Any:
    """The field, of that kind; `default` where it is missing or null. inside: what `message` is called in an error."""
    value = message.get(name)
    if value is None and default is not _REQUIRED:
        return default
    called = f"{inside}.{name[:MOST_NAME]}" if inside else name
    if value is None:
        raise InvalidInput(f"{called}: it is missing; it must be {_KINDS[kind]}")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = strict_json.as_float(value)
    if kind is int and isinstance(value, int) and abs(value) > LARGEST:
        raise InvalidInput(f"{called}: the number is out of range; use at most {LARGEST}")
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidInput(f"{called}: {shown(value)}; it must be {_KINDS[kind]}")
    return value


def only(message: Object, known: frozenset[str], kind: str) -> None:
    if unknown := sorted(message.keys() - known):
        raise InvalidInput(f"{shown(unknown[0])} is no field of {kind}; it has {', '.join(sorted(known))}")


def one_of(kind: Any, value: str, name: str) -> Any:
    try:
        return kind(value)
    except ValueError as error:
        raise InvalidInput(f"{name}: {shown(value)} is unknown; use one of {', '.join(kind)}") from error


def shown(value: object) -> str:
    """For an error message, however long it is."""
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
