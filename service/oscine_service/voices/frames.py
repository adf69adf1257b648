"""What the service and its process for recordings say to each other: a line of JSON, then bytes. Pure.

A frame is four bytes (big-endian) for the length of the JSON, four for that of the bytes, and both.
"""

import json
import struct
from typing import Any

HEAD = struct.Struct(">II")

Fields = dict[str, Any]


def pack(fields: Fields, data: bytes = b"") -> bytes:
    text = json.dumps(fields).encode()
    return HEAD.pack(len(text), len(data)) + text + data


def lengths(head: bytes) -> tuple[int, int]:
    """Of the JSON and the bytes behind a frame's first HEAD.size bytes."""
    text, data = HEAD.unpack(head)
    return text, data


def fields(text: bytes) -> Fields:
    found: Fields = json.loads(text)
    return found
