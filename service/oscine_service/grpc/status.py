"""Errors as gRPC tells them: a status, and when to try again in the trailing metadata."""

import grpc

from oscine_service.errors import KNOWN, retry_after_s, row

__all__ = ["KNOWN", "retry_after", "status"]


def status(error: Exception) -> grpc.StatusCode:
    return row(error).grpc


def retry_after(error: Exception) -> tuple[tuple[str, str], ...]:
    """Trailing metadata: when to try again, in milliseconds, for an error that passes by itself or by another seed."""
    hint = retry_after_s(error)
    return () if hint is None else (("retry-after-ms", str(round(hint * 1000))),)
