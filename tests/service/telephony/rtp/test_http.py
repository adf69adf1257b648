"""Offers over HTTP, and what becomes of them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from starlette.applications import Starlette

from oscine_service.conversation import Calls
from oscine_service.http.errors import HANDLERS
from oscine_service.http.server import serving
from oscine_service.telephony import http as all_calls
from oscine_service.telephony.rtp import http
from oscine_service.telephony.rtp.exchange import Exchange, Place, exchange
from tests.service.telephony.rtp.offers import offer
from tests.service.telephony.rtp.telephones import HOST, telephone, understood


@asynccontextmanager
async def asking(calls: Calls, rtp: Exchange | None) -> AsyncIterator[httpx.AsyncClient]:
    app = Starlette(routes=[*all_calls.routes(calls), *http.routes(rtp)], exception_handlers=cast(Any, HANDLERS))
    async with serving(app, HOST, 0, grace_s=0) as address, httpx.AsyncClient(base_url=f"http://{address}") as client:
        yield client


@asynccontextmanager
async def service() -> AsyncIterator[SimpleNamespace]:
    calls = Calls()
    async with exchange(Place(HOST), calls.sinks) as rtp, asking(calls, rtp) as client:
        yield SimpleNamespace(calls=calls, client=client)


async def test_an_offer_is_answered_in_the_form_that_it_came_in() -> None:
    async with service() as here, telephone() as phone:
        text = offer(phone.reports_to, port=phone.port)
        plain = await here.client.post("/v1/calls?id=a%2Fb", content=text, headers={"content-type": "application/sdp"})
        assert plain.status_code == 201 and plain.headers["content-type"].startswith("application/sdp")
        assert plain.headers["location"] == "/v1/calls/a%2Fb"
        assert understood(plain.text).media[0].formats == ("0", "101")
        told = await here.client.post("/v1/calls", json={"offer": text})
        assert told.status_code == 201 and understood(told.json()["answer"]).media[0].port
        assert told.headers["location"] == f"/v1/calls/{told.json()['id']}"
        await phone.has(3)

        one = (await here.client.get("/v1/calls/a%2Fb")).json()
        assert (one["kind"], one["codec"], one["encrypted"]) == ("rtp", "PCMU", False)
        assert one["sent"]["packets"] > 0 and one["sent"]["spoken"] == 0
        listed = (await here.client.get("/v1/calls")).json()["data"]
        assert [each["id"] for each in listed] == ["a/b", told.json()["id"]]

        for each in (plain, told):
            assert (await here.client.delete(each.headers["location"])).status_code == 200
        async with asyncio.timeout(10):
            while list(here.calls.sinks):
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("kind", "body", "status", "told"),
    [
        ("text/plain", "v=0", 400, "application/sdp"),
        ("application/sdp", "v=0\r\n", 400, "no audio"),
        ("application/sdp", b"\xff", 400, "UTF-8"),
        ("application/json", "{", 400, "JSON"),
        ("application/json", "{}", 400, "offer"),
        ("application/json", '{"offer": 7}', 400, "offer"),
        ("application/json", '{"offer": "v=0", "call": "x"}', 400, "call"),
        ("application/json", '{"offer": "v=0", "id": ""}', 400, "id: "),
        ("application/json", json.dumps({"offer": offer(), "id": "\ud800"}), 400, "surrogate"),
        ("application/json", json.dumps({"offer": offer("a=mid:\ud800")}), 400, "surrogate"),
        ("application/sdp", offer(port=65535), 400, "a=rtcp-mux"),
        ("application/sdp", "v" * 200000, 413, "131072"),
    ],
)
async def test_what_is_no_offer_is_refused_with_what_to_do(kind: str, body: str, status: int, told: str) -> None:
    async with service() as here:
        response = await here.client.post("/v1/calls", content=body, headers={"content-type": kind})
        assert response.status_code == status
        assert told in response.json()["error"]["message"]
        assert not list(here.calls.sinks)


async def test_a_name_that_is_taken_is_told_so() -> None:
    async with service() as here, telephone() as phone:
        asked = {"offer": offer(phone.reports_to, port=phone.port), "id": "mine"}
        assert (await here.client.post("/v1/calls", json=asked)).status_code == 201
        again = await here.client.post("/v1/calls", json=asked)
        assert again.status_code in (400, 409) and again.json()["error"]["code"] == "call_taken"


async def test_a_service_without_rtp_says_how_to_have_it() -> None:
    async with asking(Calls(), None) as client:
        response = await client.post("/v1/calls", json={"offer": offer()})
        assert response.status_code == 501 and "--rtp-host" in response.json()["error"]["message"]
