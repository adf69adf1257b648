"""Calls that are up, over HTTP."""

import json
from urllib.parse import quote

import httpx
import pytest
from jsonschema import Draft202012Validator

from oscine_service.conversation import Calls
from oscine_service.http import openapi
from oscine_service.http.app import application
from oscine_service.limits import Limits
from oscine_service.security.principal import Principal, acting_for
from oscine_service.telephony import http
from tests.service.telephony.lines import line
from tests.service.websocket.conftest import Door

pytestmark = pytest.mark.asyncio(loop_scope="package")


def browser(door: Door, calls: Calls, owner: str = "") -> httpx.AsyncClient:
    app = application(door.engine, Limits(), calls, routes=http.routes(calls))

    async def entered(scope: object, receive: object, send: object) -> None:
        with acting_for(Principal(name=owner, owner=owner)):
            await app(scope, receive, send)  # type: ignore[arg-type]

    return httpx.AsyncClient(transport=httpx.ASGITransport(entered), base_url="http://door")  # type: ignore[arg-type]


async def test_calls_are_listed_shown_and_ended(door: Door) -> None:
    name = "WebSocket/connection 1? %41"
    async with line(door.calls.sinks, name) as call, browser(door, door.calls) as there:
        (found,) = (await there.get("/v1/calls")).json()["data"]
        created = found.pop("created_at")
        assert abs(created - call.sink.since) <= 1
        assert found == {
            "id": name,
            "object": "call",
            "names": [name],
            "kind": "test",
            "format": {"encoding": "mulaw", "sample_rate": 8000},
            "heard_samples": 0,
            "conversations": 0,
        }
        path = f"/v1/calls/{quote(name, safe='')}"
        one = (await there.get(path)).json()
        assert one == {**found, "created_at": created}
        described = openapi.document()["components"]
        Draft202012Validator({"$ref": "#/components/schemas/Call", "components": described}).validate(one)
        assert (await there.delete(path)).json() == {"id": name, "object": "call.deleted", "deleted": True}
        assert call.hung_up
        missing = await there.get("/v1/calls/nobody")
        assert missing.status_code == 404 and missing.json()["error"]["code"] == "unknown_call"
    async with browser(door, door.calls) as there:
        assert json.loads((await there.get("/v1/calls")).content) == {"object": "list", "data": []}


async def test_calls_of_others_are_not_seen(door: Door) -> None:
    async with line(door.calls.sinks, "hers", "her") as hers, line(door.calls.sinks, "everybody's"):
        async with browser(door, door.calls, "him") as there:
            assert [each["id"] for each in (await there.get("/v1/calls")).json()["data"]] == ["everybody's"]
            assert (await there.delete("/v1/calls/hers")).status_code == 404 and not hers.hung_up
        async with browser(door, door.calls, "her") as there:
            assert len((await there.get("/v1/calls")).json()["data"]) == 2
