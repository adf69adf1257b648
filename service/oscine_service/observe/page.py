"""`GET /metrics`, for Prometheus."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from oscine_service.observe.metrics import CONTENT_TYPE, Metrics
from oscine_service.security import principal
from oscine_service.security.principal import Grant


def routes(metrics: Metrics) -> Sequence[BaseRoute]:
    async def page(request: Request) -> Response:
        principal.current().require(Grant.METRICS)
        return Response(metrics.page(), media_type=CONTENT_TYPE)

    return [Route("/metrics", page)]
