"""Errors of every layer -> gRPC status, in one table; the first matching row counts."""

import grpc

from oscine_codecs.errors import CodecError, CodecMissing
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
    Unavailable,
    UnknownVoice,
    VoiceExists,
)

_TABLE: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    (UnknownVoice, grpc.StatusCode.NOT_FOUND),
    (VoiceExists, grpc.StatusCode.ALREADY_EXISTS),
    (InvalidInput, grpc.StatusCode.INVALID_ARGUMENT),
    (CodecMissing, grpc.StatusCode.FAILED_PRECONDITION),
    (CodecError, grpc.StatusCode.INVALID_ARGUMENT),
    (Overloaded, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Unavailable, grpc.StatusCode.UNAVAILABLE),
    (Idle, grpc.StatusCode.DEADLINE_EXCEEDED),
    (Stalled, grpc.StatusCode.ABORTED),
    (Cancelled, grpc.StatusCode.CANCELLED),
    (NoStore, grpc.StatusCode.FAILED_PRECONDITION),
    (CheckpointError, grpc.StatusCode.FAILED_PRECONDITION),
    (RunAway, grpc.StatusCode.INTERNAL),
    (OscineError, grpc.StatusCode.INTERNAL),
)

KNOWN = (OscineError, CodecError)
"""What the table covers; anything else is a bug and becomes UNKNOWN in grpc's own way."""


def status(error: Exception) -> grpc.StatusCode:
    return next(code for kind, code in _TABLE if isinstance(error, kind))


def retry_after(error: Exception) -> tuple[tuple[str, str], ...]:
    """Trailing metadata: when to try again, in milliseconds, for an error that passes by itself or by another seed."""
    hint = 0.0 if isinstance(error, RunAway) else getattr(error, "retry_after_s", None)
    return () if hint is None else (("retry-after-ms", str(round(hint * 1000))),)
