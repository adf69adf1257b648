"""Errors of every layer -> what each protocol calls them, in one table; the first matching row counts.

| column | |
| --- | --- |
| grpc | status of a call |
| http | status of a response that has not begun |
| close | WebSocket close code, where an error ends the socket rather than one conversation on it |
"""

from typing import NamedTuple

import grpc

from oscine_codecs.errors import CodecError, CodecFailed, CodecMissing
from oscine_engine.errors import (
    Cancelled,
    CheckpointError,
    Idle,
    InvalidInput,
    NoStore,
    OscineError,
    Overloaded,
    RunAway,
    Stalled,
    StoreError,
    Unavailable,
    UnknownVoice,
    VoiceExists,
)
from oscine_service.security.errors import Forbidden, Unauthenticated
from oscine_service.telephony.errors import CallTaken, HungUp, UnknownCall

POLICY, INTERNAL, LATER, GOING = 1008, 1011, 1013, 1001


class Row(NamedTuple):
    kind: type[Exception]
    grpc: grpc.StatusCode
    http: int
    close: int


_Status = grpc.StatusCode
_TABLE = (
    Row(UnknownVoice, _Status.NOT_FOUND, 404, POLICY),
    Row(VoiceExists, _Status.ALREADY_EXISTS, 409, POLICY),
    Row(UnknownCall, _Status.NOT_FOUND, 404, POLICY),
    Row(CallTaken, _Status.ALREADY_EXISTS, 409, POLICY),
    Row(HungUp, _Status.ABORTED, 410, GOING),
    Row(InvalidInput, _Status.INVALID_ARGUMENT, 400, POLICY),
    Row(Unauthenticated, _Status.UNAUTHENTICATED, 401, POLICY),
    Row(Forbidden, _Status.PERMISSION_DENIED, 403, POLICY),
    Row(CodecMissing, _Status.FAILED_PRECONDITION, 501, POLICY),
    Row(CodecFailed, _Status.INTERNAL, 500, INTERNAL),
    Row(CodecError, _Status.INVALID_ARGUMENT, 400, POLICY),
    Row(Overloaded, _Status.RESOURCE_EXHAUSTED, 429, LATER),
    Row(Unavailable, _Status.UNAVAILABLE, 503, LATER),
    Row(Idle, _Status.DEADLINE_EXCEEDED, 408, GOING),
    Row(Stalled, _Status.ABORTED, 408, POLICY),
    Row(Cancelled, _Status.CANCELLED, 499, GOING),
    Row(CheckpointError, _Status.FAILED_PRECONDITION, 501, INTERNAL),
    Row(NoStore, _Status.FAILED_PRECONDITION, 501, INTERNAL),
    Row(StoreError, _Status.INTERNAL, 500, INTERNAL),
    Row(RunAway, _Status.INTERNAL, 500, INTERNAL),
    Row(OscineError, _Status.INTERNAL, 500, INTERNAL),
)

KNOWN = (OscineError, CodecError)
"""What the table covers; anything else is a bug, and every protocol says so in its own way."""


def row(error: Exception) -> Row:
    return next(row for row in _TABLE if isinstance(error, row.kind))


def code(error: Exception) -> str:
    """A stable name for machines, the same in every protocol."""
    if isinstance(error, OscineError):
        return error.code
    if isinstance(error, CodecFailed):
        return "internal"
    return "codec_missing" if isinstance(error, CodecMissing) else "invalid_input"


def retry_after_s(error: Exception) -> float | None:
    """When to try again, for an error that passes by itself (in seconds) or by another seed (0)."""
    hint: float | None = 0.0 if isinstance(error, RunAway) else getattr(error, "retry_after_s", None)
    return hint


def leaf(group: BaseExceptionGroup[Exception]) -> Exception:
    """The one of a task group's errors to tell: the request's own where there is one, what else fails follows."""
    errors = _leaves(group)
    return next((error for error in errors if isinstance(error, InvalidInput)), errors[0])


def _leaves(group: BaseExceptionGroup[Exception]) -> list[Exception]:
    leaves: list[Exception] = []
    for error in group.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves
