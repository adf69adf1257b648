"""Who answers at a port that is taken already."""

import http.client
import json

from oscine_service import asking
from oscine_service.config.model import Settings

PATIENCE_S = 3.0


def over_http(settings: Settings) -> bool:
    """Whether a service that answers as Oscine has the HTTP port of these settings."""
    port = settings.server.http_port
    if port is None:
        return False
    try:
        address, tls = asking.here(settings.server, port), asking.own_tls(settings.security)
        answer = asking.get(address, "/livez", tls=tls, patience_s=PATIENCE_S, most=1024)
        return bool(json.loads(answer.body) == {"status": "alive"})
    except (OSError, http.client.HTTPException, ValueError):
        return False


def over_grpc(settings: Settings) -> bool:
    """Likewise the gRPC port. With TLS, whose certificate has another name than that which is asked here, it is told by
    the HTTP port beside it."""
    import grpc
    from grpc_health.v1 import health_pb2
    from grpc_health.v1.health_pb2_grpc import HealthStub

    server = settings.server
    if settings.security.tls_cert is not None:
        return over_http(settings)
    with grpc.insecure_channel(asking.here(server, server.port), (("grpc.enable_http_proxy", 0),)) as channel:
        try:
            # A name of health that is Oscine's own.
            check = HealthStub(channel).Check  # type: ignore[attr-defined]
            check(health_pb2.HealthCheckRequest(service="readiness"), timeout=PATIENCE_S)
        except grpc.RpcError:
            return False
    return True
