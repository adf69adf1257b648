"""Errors of every layer -> gRPC status, in one table; the first matching row counts."""

import grpc

from oscine_codecs.errors import CodecError, CodecMissing
from oscine_engine.errors import (
    Cancelled,
    CheckpointError,
    InvalidInput,
    OscineError,
    Overloaded,
    Unavailable,
    UnknownVoice,
)
from oscine_service.errors import Idle, Stalled

_TABLE: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    (UnknownVoice, grpc.StatusCode.NOT_FOUND),
    (InvalidInput, grpc.StatusCode.INVALID_ARGUMENT),
    (CodecMissing, grpc.StatusCode.FAILED_PRECONDITION),
    (CodecError, grpc.StatusCode.INVALID_ARGUMENT),
    (Overloaded, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Unavailable, grpc.StatusCode.UNAVAILABLE),
    (Idle, grpc.StatusCode.DEADLINE_EXCEEDED),
    (Stalled, grpc.StatusCode.ABORTED),
    (Cancelled, grpc.StatusCode.CANCELLED),
    (CheckpointError, grpc.StatusCode.FAILED_PRECONDITION),
    (OscineError, grpc.StatusCode.INTERNAL),
)

KNOWN = (OscineError, CodecError)
"""What the table covers; anything else is a bug and becomes UNKNOWN in grpc's own way."""


def status(error: Exception) -> grpc.StatusCode:
    return next(code for kind, code in _TABLE if isinstance(error, kind))


def retry_after(error: Exception) -> tuple[tuple[str, str], ...]:
    """Trailing metadata: when to try again, in milliseconds, for an error that passes by itself."""
    if isinstance(error, Overloaded):
        return (("retry-after-ms", str(round(error.retry_after_s * 1000))),)
    return ()
