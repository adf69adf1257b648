"""The door of gRPC: an interceptor before every method but those of health, which probes ask without a key."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc
from grpc_health.v1 import health

from oscine_engine.errors import OscineError
from oscine_service.errors import code
from oscine_service.grpc.incoming import drain
from oscine_service.grpc.refusing import abort
from oscine_service.observe.metrics import Metrics
from oscine_service.security.credentials import in_headers
from oscine_service.security.guard import Guard
from oscine_service.security.http_door import TRACE
from oscine_service.security.principal import act_for
from oscine_service.visits import Desk, Visit, visit_now

PROTOCOL, RIVA, RIVAS = "grpc", "riva", "/nvidia.riva."
OPEN = (f"/{health.SERVICE_NAME}/",)

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]"


class GrpcDoor(grpc.aio.ServerInterceptor):  # type: ignore[misc,type-arg,unused-ignore]
    """Lets calls in on behalf of their principal, with a visit around each.

    grpc runs this and the method that is called in one context, which is the call's own.
    """

    def __init__(self, *, guard: Guard, desk: Desk, metrics: Metrics | None = None) -> None:
        self._guard, self._desk, self._metrics = guard, desk, metrics

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> "Handler | None":
        details = handler_call_details
        handler = await continuation(details)
        if handler is None or details.method.startswith(OPEN):
            return handler
        metadata = {key: value for key, value in details.invocation_metadata or () if isinstance(value, str)}
        try:
            act_for(self._guard.principal(None if self._guard.open else in_headers(metadata)))
        except OscineError as refusal:
            if self._metrics is not None:
                self._metrics.turned_away(PROTOCOL, code(refusal))
            return _refusing(handler, refusal)
        protocol = RIVA if details.method.startswith(RIVAS) else PROTOCOL
        trace = {name: metadata[name] for name in TRACE if name in metadata}
        visit_now(Visit(protocol, trace=trace, desk=self._desk))
        return handler


def _refusing(handler: Handler, refusal: Exception) -> Handler:
    """A method of the same kind, which lets the client finish what it sends and says no."""

    async def refuse(request: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
        if handler.request_streaming:
            await drain(request)
        await abort(context, refusal)

    makers = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }
    make = makers[handler.request_streaming, handler.response_streaming]
    return make(refuse, None, handler.response_serializer)
