"""What Ray Serve's gRPC proxy is told of our services: which methods there are, and that their messages pass as bytes.

A message is read once, in the replica that it goes to, where one that cannot be read is the client's fault.
Riva's service is not among them: Ray tells methods by their last name alone, and its `Synthesize` is another one.
"""

from typing import Any

import grpc

from oscine_proto.oscine.v1 import speech_pb2, voice_pb2

SPEECH = speech_pb2.DESCRIPTOR.services_by_name["SpeechService"]
VOICES = voice_pb2.DESCRIPTOR.services_by_name["VoiceService"]


def paths() -> dict[str, str]:
    """Of each method, by its last name, "/package.Service/Method"."""
    return {each.name: f"/{service.full_name}/{each.name}" for service in (SPEECH, VOICES) for each in service.methods}


def add_services(servicer: object, server: Any) -> None:
    """Named in `grpc_options.grpc_servicer_functions`, and called by the proxy, which puts handlers of its own in place
    of these."""
    makers = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }
    for service in (SPEECH, VOICES):
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            each.name: makers[each.client_streaming, each.server_streaming](_nobody) for each in service.methods
        }
        # One by one: the proxy looks at the first of a call only.
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, methods),))


def _nobody(request: object, context: object) -> None:
    raise NotImplementedError("the proxy's own handlers stand here")
