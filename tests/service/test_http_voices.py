"""`/v1/audio/voices` over a real socket, with `openai`'s own client and without."""

import math
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import numpy as np
import openai
import pytest
import pytest_asyncio
from jsonschema import Draft202012Validator
from numpy.typing import NDArray

from oscine_codecs import pcm
from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.engine import Engine, EngineSettings
from oscine_service.conversation import Calls
from oscine_service.http import openai as openai_routes
from oscine_service.http import openapi, voices
from oscine_service.http.app import application
from oscine_service.http.server import serving
from oscine_service.limits import Limits
from oscine_service.security.principal import ANYBODY, Principal
from oscine_service.voices import library as libraries
from oscine_service.voices.library import MAX_AUDIO_BYTES, Library, NewVoice, library
from tests.service.recordings import recording

pytestmark = pytest.mark.asyncio(loop_scope="module")
PATH = "/v1/audio/voices"


@dataclass
class Service:
    client: httpx.AsyncClient
    openai: openai.AsyncOpenAI
    engine: Engine
    calls: Calls
    library: Library

    @property
    def shipped(self) -> list[str]:
        return list(self.engine.voices)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    folder, calls, limits = tmp_path_factory.mktemp("voices"), Calls(), Limits()
    async with (
        Engine(checkpoint, EngineSettings(voices=folder, max_streams=2, utilisation=math.inf)) as engine,
        library(engine.voices, folder, None) as kept,
    ):
        routes = [*voices.routes(kept, calls), *openai_routes.routes(engine, limits, calls, {}, kept)]
        app = application(engine, limits, calls, routes=routes)
        async with (
            serving(app, "127.0.0.1", 0, limits=limits, grace_s=0, calls=calls) as address,
            httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, timeout=60) as client,
            openai.AsyncOpenAI(base_url=f"http://{address}/v1", api_key="none", max_retries=0) as theirs,
        ):
            yield Service(client, theirs, engine, calls, kept)


async def said(service: Service, voice: str) -> NDArray[np.float32]:
    speech = await service.openai.audio.speech.create(
        model="oscine", voice=voice, input="Hm.", response_format="pcm", extra_body={"seed": 1}
    )
    return pcm.decode(speech.content)


async def create(service: Service, name: str, audio: bytes | None = None, **fields: str) -> httpx.Response:
    files = {"audio_sample": ("a.wav", recording() if audio is None else audio)}
    return await service.client.post(PATH, data={"name": name, **fields}, files=files)


async def names(service: Service) -> list[str]:
    return [voice["name"] for voice in (await service.client.get(PATH)).json()["voices"]]


async def test_openais_client_makes_a_voice_speaks_in_it_and_deletes_it(service: Service) -> None:
    made = await service.openai.audio.voices.create(
        name="anna", audio_sample=("anna.wav", recording()), consent="cons_1"
    )
    assert (made.id, made.name, made.object, made.type) == ("anna", "anna", "audio.voice", "audio_sample")
    assert made.created_at > 1.7e9
    speech = await service.openai.audio.speech.create(
        model="oscine", voice={"id": made.id}, input="Hm.", response_format="pcm"
    )
    assert len(speech.content) > 5_000
    assert await names(service) == [*service.shipped, "anna"]
    deleted = await service.openai.audio.voices.delete("anna")
    assert (deleted.id, deleted.deleted) == ("anna", True)
    assert await names(service) == service.shipped
    with pytest.raises(openai.NotFoundError):
        await service.openai.audio.voices.delete("anna")


async def test_a_stored_voice_with_a_name_of_openais_comes_first(service: Service) -> None:
    before = await said(service, "alloy")
    for name in ("alloy", "anna"):
        assert (await create(service, name)).status_code == 201
    theirs, hers = await said(service, "alloy"), await said(service, "anna")
    np.testing.assert_allclose(theirs, hers, atol=1e-3)
    assert before.shape != hers.shape or not np.allclose(before, hers, atol=1e-3)
    for name in ("alloy", "anna"):
        await service.openai.audio.voices.delete(name)
    np.testing.assert_allclose(await said(service, "alloy"), before, atol=1e-3)


async def test_a_stored_voice_counts_for_those_who_see_it(service: Service) -> None:
    ada, bob = Principal("ada", owner="ada"), Principal("bob", owner="bob")
    await service.library.create(ada, NewVoice("nova"), recording())
    assert [await service.library.keeps(who, "nova") for who in (ada, bob, ANYBODY)] == [True, False, False]
    await service.library.delete(ada, "nova")
    await service.library.create(ANYBODY, NewVoice("nova"), recording())
    other = Principal("eve", owner="eve", voices=("heart",))
    assert [await service.library.keeps(who, "nova") for who in (ada, ANYBODY, other)] == [True, True, False]
    await service.library.delete(ANYBODY, "nova")
    assert not await service.library.keeps(ANYBODY, "nova")


async def test_all_that_is_known_of_a_voice_is_shown(service: Service) -> None:
    answer = await create(service, "anna", description="hers", transcript="A yes and a no and perhaps.")
    assert (answer.status_code, answer.headers["location"]) == (201, f"{PATH}/anna")
    voice = answer.json()
    Draft202012Validator(
        {"$ref": "#/components/schemas/Voice", "components": openapi.document()["components"]}
    ).validate(voice)
    assert voice == (await service.client.get(f"{PATH}/anna")).json()
    assert (voice["description"], voice["language"], voice["origin"], voice["transcribed"]) == (
        "hers",
        "en",
        "own",
        True,
    )
    shipped = (await service.client.get(f"{PATH}/{service.shipped[0]}")).json()
    assert (shipped["origin"], shipped["created_at"]) == ("model", 0) and "seconds" not in shipped
    assert (await create(service, "anna")).status_code == 409
    assert (await create(service, "anna", replace="true")).status_code == 201
    pages, token = [], ""
    while True:
        page = (await service.client.get(PATH, params={"page_size": 1, "page_token": token})).json()
        pages += [voice["name"] for voice in page["voices"]]
        if not (token := page["next_page_token"]):
            break
    assert pages == [*service.shipped, "anna"]
    assert (await service.client.delete(f"{PATH}/anna")).status_code == 200


BAD = [
    ({"name": "../x"}, "cannot be called", None),
    ({"name": "a", "language": "xx"}, "one of en, zh", None),
    ({"name": "a", "transcript": "Yes."}, "too short", None),
    ({"name": "a", "transcript": "Yes.", "ref_text": "Yes."}, "already", "ref_text"),
    ({"name": "a", "replace": "perhaps"}, "true or false", "replace"),
    ({"name": "a", "type": "prompt"}, "audio_sample", "type"),
    ({"name": "a", "gender": "f"}, "is no field", "gender"),
    ({}, "missing", "name"),
]


@pytest.mark.parametrize(("fields", "reason", "param"), BAD, ids=[row[1] for row in BAD])
async def test_bad_fields_are_named(service: Service, fields: dict[str, str], reason: str, param: str | None) -> None:
    answer = await service.client.post(PATH, data=fields, files={"file": ("a.wav", recording())})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param) and reason in error["message"], error
    assert await names(service) == service.shipped


async def test_bad_recordings_forms_and_queries_are_refused(service: Service) -> None:
    async def refused(answer: httpx.Response, status: int, reason: str) -> None:
        assert (answer.status_code, reason in answer.json()["error"]["message"]) == (status, True), answer.text

    post = service.client.post
    await refused(await create(service, "a", b"not a sound" * 99), 400, "not a readable audio file")
    await refused(await create(service, "a", b""), 400, "no recording")
    await refused(await create(service, "a", bytes(MAX_AUDIO_BYTES + 70_000)), 413, "more than")
    await refused(await create(service, service.shipped[0]), 409, "the model has a voice")
    await refused(await post(PATH, json={"name": "a"}), 400, "multipart/form-data")
    await refused(await post(PATH, content=b"x", headers={"content-type": "multipart/form-data"}), 400, "form")
    broken = {"content-type": "multipart/form-data; boundary=b"}
    await refused(await post(PATH, content=b"--c\r\n", headers=broken), 400, "form")
    await refused(await post(PATH, data={"name": "a"}, files={"other": ("a", b"")}), 400, "is no field")
    await refused(await post(PATH, files={"name": ("a", b"a")}), 400, "a text is expected")
    two = [("audio_sample", ("a", b"a")), ("file", ("b", b"b"))]
    await refused(await post(PATH, data={"name": "a"}, files=two), 400, "form")
    await refused(await post(PATH, data={"name": "a", "audio_sample": "a"}, files=two[1:]), 400, "one file")
    await refused(await service.client.get(PATH, params={"page_size": "-1"}), 400, "not a number")
    await refused(await service.client.get(PATH, params={"page_size": "1001"}), 400, "1 to 1000")
    await refused(await service.client.get(PATH, params={"page_token": "?"}), 400, "is none that")
    await refused(await service.client.get(PATH, params={"limit": "3"}), 400, "is no parameter")
    there_are = f"there is no voice 'nobody'; there are {service.shipped[0]}"
    await refused(await service.client.get(f"{PATH}/nobody"), 404, there_are)
    with pytest.raises(openai.NotFoundError, match=there_are):
        await said(service, "nobody")
    await refused(await service.client.delete(f"{PATH}/{service.shipped[0]}"), 403, "came with the model")
    assert service.calls.running == 0


async def test_uploads_beyond_what_memory_allows_are_told_when_to_come_back(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "UPLOADS", 0)
    answer = await create(service, "a")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")


async def test_a_service_without_a_store_says_so(service: Service) -> None:
    calls, limits = Calls(), Limits()
    async with (
        library(service.engine.voices, None, None) as kept,
        serving(
            application(service.engine, limits, calls, routes=voices.routes(kept, calls)), "127.0.0.1", 0
        ) as address,
        httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, timeout=60) as client,
    ):
        answer = await client.post(PATH, data={"name": "a"}, files={"file": ("a.wav", b"a")})
        assert (answer.status_code, "--voices" in answer.json()["error"]["message"]) == (501, True)
        assert (await client.get(PATH)).status_code == 200
