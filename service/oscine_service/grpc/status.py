"""Errors as gRPC tells them: a status, and in the trailing metadata the name that every protocol has for it
(`oscine-code`), and when to try again.

A hint is told three times, for all who look for it: `retry-after-ms`, plainly; RetryInfo in `grpc-status-details-bin`,
as the richer error model has it; and `grpc-retry-pushback-ms`, by which gRPC's own retries go, if a client wants any.
"""

from typing import TypeAlias

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from oscine_service.errors import KNOWN, code, retry_after_s, row

__all__ = ["CODE", "KNOWN", "status", "trailing"]

Trailing: TypeAlias = tuple[tuple[str, str | bytes], ...]

CODE = "oscine-code"
MOST_DETAILS = 2048
"""Bytes of a status that is told once more in the metadata, of which a client takes 8 KiB in all."""


def status(error: Exception) -> grpc.StatusCode:
    return row(error).grpc


def trailing(error: Exception, details: str) -> Trailing:
    """Trailing metadata: what it is called; and when to try again, for an error that passes by itself or by another
    seed. details: the message that the call ends with."""
    name = (CODE, code(error))
    hint = retry_after_s(error)
    if hint is None:
        return (name,)
    milliseconds = round(hint * 1000)
    plain = (name, ("retry-after-ms", str(milliseconds)), ("grpc-retry-pushback-ms", str(milliseconds)))
    info = Any()
    info.Pack(RetryInfo(retry_delay=Duration(seconds=milliseconds // 1000, nanos=milliseconds % 1000 * 1_000_000)))
    number: int = status(error).value[0]
    rich = Status(code=number, message=details, details=[info]).SerializeToString()
    return (*plain, ("grpc-status-details-bin", rich)) if len(rich) <= MOST_DETAILS else plain
