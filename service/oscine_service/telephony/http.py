"""`/v1/calls`: the telephone calls that are up, and their end. Whoever may speak into a call sees it."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from oscine_service.conversation import Calls
from oscine_service.security.principal import Grant, current
from oscine_service.telephony.sink import Sink

PATH = "/v1/calls"


def routes(calls: Calls) -> list[Route]:
    sinks = calls.sinks

    async def listed(request: Request) -> Response:
        current().require(Grant.SPEAK)
        return JSONResponse({"object": "list", "data": [shown(sink) for sink in sinks.of(current().owner)]})

    async def one(request: Request) -> Response:
        current().require(Grant.SPEAK)
        return JSONResponse(shown(sinks.find(_name(request), current().owner)))

    async def ended(request: Request) -> Response:
        """The call is hung up, and what was not heard of it is lost."""
        current().require(Grant.SPEAK)
        sink = sinks.find(_name(request), current().owner)
        sink.hang_up()
        return JSONResponse({"id": sink.name, "object": "call.deleted", "deleted": True})

    return [
        Route(PATH, listed, methods=["GET"]),
        # Names of carriers may hold anything, a slash too.
        Route(PATH + "/{name:path}", one, methods=["GET"]),
        Route(PATH + "/{name:path}", ended, methods=["DELETE"]),
    ]


def _name(request: Request) -> str:
    name: str = request.path_params["name"]
    return name


def shown(sink: Sink) -> dict[str, Any]:
    format = sink.player.format
    return {
        "id": sink.name,
        "object": "call",
        "names": list(sink.names),
        "kind": sink.kind,
        "created_at": round(sink.since),
        "format": {"encoding": format.encoding.value, "sample_rate": format.sample_rate},
        "heard_samples": sink.player.heard,
        "conversations": len(sink.turns),
        **sink.details(),
    }
