"""Errors as gRPC tells them: a status, and when to try again in the trailing metadata.

A hint is told three times, for all who look for it: `retry-after-ms`, plainly; RetryInfo in `grpc-status-details-bin`,
as the richer error model has it; and `grpc-retry-pushback-ms`, by which gRPC's own retries go, if a client wants any.
"""

from typing import TypeAlias

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from oscine_service.errors import KNOWN, retry_after_s, row

__all__ = ["KNOWN", "retry_after", "status"]

Trailing: TypeAlias = tuple[tuple[str, str | bytes], ...]

MOST_DETAILS = 2048
"""Bytes of a status that is told once more in the metadata, of which a client takes 8 KiB in all."""


def status(error: Exception) -> grpc.StatusCode:
    return row(error).grpc


def retry_after(error: Exception, details: str) -> Trailing:
    """Trailing metadata: when to try again, for an error that passes by itself or by another seed. details: the message
    that the call ends with."""
    hint = retry_after_s(error)
    if hint is None:
        return ()
    milliseconds = round(hint * 1000)
    plain = (("retry-after-ms", str(milliseconds)), ("grpc-retry-pushback-ms", str(milliseconds)))
    info = Any()
    info.Pack(RetryInfo(retry_delay=Duration(seconds=milliseconds // 1000, nanos=milliseconds % 1000 * 1_000_000)))
    code: int = status(error).value[0]
    rich = Status(code=code, message=details, details=[info]).SerializeToString()
    return (*plain, ("grpc-status-details-bin", rich)) if len(rich) <= MOST_DETAILS else plain
