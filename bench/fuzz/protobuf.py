"""Messages of any protobuf type, filled with whatever their fields can hold."""

from __future__ import annotations

from random import Random
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from bench.fuzz import draw

_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31 - 1),
}
_FRACTIONS = (0.0, 1.0, 0.5, -1.0, 1.2, 1e-310, 1e308, float("inf"), float("-inf"), float("nan"))


def filled(random: Random, kind: Descriptor, share: float = 0.4, depth: int = 3) -> Message:
    """A message of `kind`, each of its fields set with the chance `share`."""
    message = GetMessageClass(kind)()
    fill(random, message, share, depth)
    return message


def fill(random: Random, message: Message, share: float, depth: int = 3) -> None:
    """Set fields of a message that there is."""
    for field in message.DESCRIPTOR.fields:
        if draw.chance(random, share):
            _set(random, message, field, share, depth)


def _set(random: Random, message: Message, field: FieldDescriptor, share: float, depth: int) -> None:
    nested = field.message_type
    if nested is not None and nested.GetOptions().map_entry:
        entries = getattr(message, field.name)
        key, value = nested.fields_by_name["key"], nested.fields_by_name["value"]
        for _ in range(300 if draw.chance(random, 0.02) else random.randrange(4)):
            if value.message_type is None:
                entries[_scalar(random, key)] = _scalar(random, value)
        return
    if field.is_repeated:
        values = getattr(message, field.name)
        for _ in range(random.choice((0, 1, 2, 5))):
            if nested is None:
                values.append(_scalar(random, field))
            elif depth:
                fill(random, values.add(), share, depth - 1)
        return
    if nested is None:
        setattr(message, field.name, _scalar(random, field))
        return
    getattr(message, field.name).SetInParent()
    if depth:
        fill(random, getattr(message, field.name), share, depth - 1)


def _scalar(random: Random, field: FieldDescriptor) -> Any:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        long = 70_000 if draw.chance(random, 0.02) else 60
        return draw.noise(random, long) if field.type == field.TYPE_BYTES else draw.plain(random, long)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return draw.chance(random, 0.5)
    if kind in _INTEGERS:
        least, most = _INTEGERS[kind]
        small = random.randrange(12)
        return random.choice((least, most, small, random.choice((8000, 24000, 48000)), random.randint(least, most)))
    return random.choice(_FRACTIONS) if draw.chance(random, 0.8) else random.uniform(-3, 3)


def wire(random: Random, message: Message, share: float = 0.15) -> bytes:
    """Its bytes, damaged with the chance `share`."""
    data = message.SerializeToString()
    return draw.damaged(random, data) if draw.chance(random, share) else data
