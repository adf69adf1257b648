"""What an engine process says about itself on its standard output, a line each: ready, or why it cannot start. Pure."""

import json
from dataclasses import dataclass
from typing import TypeAlias

from oscine_engine.errors import OscineError
from oscine_proto.oscine.unit.v1 import unit_pb2 as pb
from oscine_service.unit import wire


@dataclass(frozen=True, slots=True)
class Ready:
    """The socket is there, the model is warm."""


@dataclass(frozen=True, slots=True)
class Failed:
    """It ends with `error`, which another attempt would meet again."""

    error: OscineError


Line: TypeAlias = Ready | Failed


def write(line: Line) -> str:
    match line:
        case Ready():
            return "ready\n"
        case Failed(error=error):
            message = wire.error_message(error)
            return f"failed {json.dumps([message.code, message.message])}\n"


def read(line: str) -> Line | None:
    """None for what no engine process says: a library may print what it likes."""
    word, _, rest = line.strip().partition(" ")
    match word:
        case "ready":
            return Ready()
        case "failed":
            code, message = json.loads(rest)
            return Failed(wire.error(pb.Error(code=code, message=message)))
        case _:
            return None
