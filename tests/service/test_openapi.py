"""The description of the HTTP port, by the judge of such descriptions, and what the port really answers by it."""

import json
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from starlette.applications import Starlette

from oscine_engine.errors import Overloaded
from oscine_service.http import openapi
from oscine_service.http.errors import envelope
from oscine_service.http.openai_request import FIELDS, parse
from tests.service.test_openai import BAD, GOOD

PAGE = openapi.document()


def schema(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": PAGE["components"]})


def test_it_is_what_openapi_wants() -> None:
    validate(PAGE)
    assert list(PAGE["components"]["schemas"]["SpeechRequest"]["properties"]) == list(FIELDS)


async def test_it_is_served() -> None:
    transport = httpx.ASGITransport(Starlette(routes=openapi.routes()))
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as http:
        assert (await http.get("/openapi.json")).json() == json.loads(json.dumps(PAGE))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"voice": {"id": "anna"}, "response_format": "opus", "speed": 1.5, "stream_format": "sse"},
        {"stream": False, "sample_rate": 8000, "response_format": "wav", "language": "en", "seed": 2**63 - 1},
        {"voice": None, "ref_audio": "AAAA", "ref_text": "Hello."},
        {name: None for name in FIELDS if name not in GOOD},
    ],
)
def test_what_is_taken_is_described(more: dict[str, Any]) -> None:
    parse(json.dumps({**GOOD, **more}).encode())
    schema("SpeechRequest").validate({**GOOD, **more})


def test_what_is_described_as_wrong_is_refused_and_the_other_way_round() -> None:
    judge = schema("SpeechRequest")
    bodies = [sent for sent, _ in BAD if isinstance(sent, dict)]
    passed = [sent for sent in bodies if judge.is_valid(sent)]
    # What a schema cannot say: which fields go together, what base64 is, and what this model was trained for.
    unsaid = {"ref_audio", "ref_text", "stream_format", "response_format", "instructions"}
    assert all(unsaid & set(sent) for sent in passed) and len(passed) < 10 < len(bodies)


def test_errors_are_described() -> None:
    body = json.loads(bytes(envelope(Overloaded("full", 0.5)).body))
    schema("Error").validate(body)
    schema("SpeechEvent").validate(body)
