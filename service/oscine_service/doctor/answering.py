"""Who answers at a port that is taken already."""

import http.client
import json

from oscine_engine.errors import OscineError
from oscine_service.cli.ready import EVERYWHERE, context
from oscine_service.config.model import Settings

PATIENCE_S = 3.0


def over_http(settings: Settings) -> bool:
    """Whether a service that answers as Oscine has the HTTP port of these settings."""
    server, security = settings.server, settings.security
    host, port = EVERYWHERE.get(server.host, server.host).strip("[]"), server.http_port
    connection: http.client.HTTPConnection | None = None
    try:
        if security.tls_cert is None:
            connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
        else:
            connection = http.client.HTTPSConnection(host, port, timeout=PATIENCE_S, context=context(security))
        connection.request("GET", "/livez")
        return bool(json.loads(connection.getresponse().read(1024)) == {"status": "alive"})
    except (OSError, http.client.HTTPException, OscineError, ValueError):
        return False
    finally:
        if connection is not None:
            connection.close()


def over_grpc(settings: Settings) -> bool:
    """Likewise the gRPC port. With TLS, whose certificate has another name than that which is asked here, it is told by
    the HTTP port beside it."""
    import grpc
    from grpc_health.v1 import health_pb2
    from grpc_health.v1.health_pb2_grpc import HealthStub

    server = settings.server
    if settings.security.tls_cert is not None:
        return server.http_port is not None and over_http(settings)
    host = EVERYWHERE.get(server.host, server.host).strip("[]")
    address = f"[{host}]:{server.port}" if ":" in host else f"{host}:{server.port}"
    with grpc.insecure_channel(address, (("grpc.enable_http_proxy", 0),)) as channel:
        try:
            # A name of health that is Oscine's own.
            check = HealthStub(channel).Check  # type: ignore[attr-defined]
            check(health_pb2.HealthCheckRequest(service="readiness"), timeout=PATIENCE_S)
        except grpc.RpcError:
            return False
    return True
