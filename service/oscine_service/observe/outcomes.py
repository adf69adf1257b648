"""How a call ended, in a word."""

import asyncio

from starlette.websockets import WebSocketDisconnect

from oscine_engine.events import Stats
from oscine_service import errors

OK, CANCELLED, VANISHED, BUG = "ok", "cancelled", "vanished", "bug"
"""Spoken to its end; cancelled by a client that said so; by one that just left; ended by a fault that has no name."""


def outcome(stats: Stats | None, error: BaseException | None) -> str:
    """One of those above, or the stable code of the error that ended it."""
    match error:
        case None:
            return OK if stats is not None else CANCELLED
        case asyncio.CancelledError() | GeneratorExit() | ConnectionError() | WebSocketDisconnect():
            return VANISHED
        case BaseExceptionGroup():
            return outcome(stats, error.exceptions[0])
        case Exception() if isinstance(error, errors.KNOWN):
            return errors.code(error)
        case _:
            return BUG
