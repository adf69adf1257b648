"""The reward over HTTP: POST /v1/reward.

    {"text": ..., "audio": <base64 of a file>}      one; "language" ("en", "zh") where the text does not tell it
    {"items": [{...}, ...]}                         several, answered in order under "items"
    the file itself, as audio/..., with ?text=...   one

An answer has `reward`, `error_rate`, `edits`, `units`, `language` and `heard`. One item of several that cannot be
judged has an `error` in their place, and costs the others nothing. GET /livez and /readyz answer as those of `oscine
serve` do.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from oscine_codecs import files as audio_files
from oscine_codecs.errors import CodecError
from oscine_engine.errors import InvalidInput, Overloaded
from oscine_service import strict_json
from oscine_service.conversation import Calls
from oscine_service.errors import KNOWN, code
from oscine_service.http import body
from oscine_service.http.errors import HANDLERS
from oscine_service.listening.recogniser import Language
from oscine_service.recordings import from_base64
from oscine_service.reward.judge import Judge

MOST_BYTES = 64 << 20
"""Of a request."""
LONGEST_S = 60.0
"""Of one piece of speech."""
MOST_TEXT = 4000
MOST_ITEMS = 64
MOST_WAITING = 256
"""Items that wait for the recogniser before others are refused."""
RETRY_S = 1.0
LANGUAGES: tuple[Language, ...] = ("en", "zh")


class Desk:
    """Hands items to the judge's threads, and refuses what would wait too long."""

    def __init__(self, judge: Judge, threads: ThreadPoolExecutor) -> None:
        self._judge, self._threads = judge, threads
        self._waiting = 0

    async def judged(self, items: list[Mapping[str, Any]]) -> list[dict[str, Any] | Exception]:
        if self._waiting + len(items) > MOST_WAITING:
            raise Overloaded(
                f"{self._waiting} pieces of speech wait to be listened to, and at most {MOST_WAITING} may; send fewer "
                "at a time, or start more workers with --workers",
                RETRY_S,
            )
        self._waiting += len(items)
        try:
            loop = asyncio.get_running_loop()
            return await asyncio.gather(*(loop.run_in_executor(self._threads, self._one, item) for item in items))
        finally:
            self._waiting -= len(items)

    def _one(self, item: Mapping[str, Any]) -> dict[str, Any] | Exception:
        try:
            text, language = _text(item), _language(item)
            samples, rate = audio_files.decode(_audio(item), max_bytes=MOST_BYTES, max_seconds=LONGEST_S)
            return asdict(self._judge(samples, rate, text, language))
        except KNOWN as error:
            return error


def application(judge: Judge, threads: ThreadPoolExecutor, calls: Calls) -> Starlette:
    """Answers with what `judge` says in one of `threads`; `calls` are told of each request that is being answered."""
    desk = Desk(judge, threads)

    async def rewarded(request: Request) -> JSONResponse:
        with calls.joined():
            return await answer(request)

    async def answer(request: Request) -> JSONResponse:
        sent = await body.read(request, MOST_BYTES)
        if request.headers.get("content-type", "").startswith("audio/"):
            return _single(await desk.judged([{**request.query_params, "audio": sent}]))
        asked = await asyncio.to_thread(_object, sent) if len(sent) > strict_json.LONG else _object(sent)
        if "items" not in asked:
            return _single(await desk.judged([asked]))
        items = asked["items"]
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise InvalidInput("items: it must be a list of objects with text and audio")
        if not 1 <= len(items) <= MOST_ITEMS:
            raise InvalidInput(f"items: {len(items)} of them; send 1 to {MOST_ITEMS}")
        return JSONResponse({"items": [_told(found) for found in await desk.judged(items)]})

    async def alive(request: Request) -> JSONResponse:
        return JSONResponse({"status": "alive"})

    async def ready(request: Request) -> JSONResponse:
        return JSONResponse({"status": "ready"})

    routes = [Route("/v1/reward", rewarded, methods=["POST"]), Route("/livez", alive), Route("/readyz", ready)]
    return Starlette(routes=routes, exception_handlers=HANDLERS)


def _single(found: list[dict[str, Any] | Exception]) -> JSONResponse:
    if isinstance(found[0], Exception):
        raise found[0]
    return JSONResponse(found[0])


def _told(found: dict[str, Any] | Exception) -> dict[str, Any]:
    return {"error": {"message": str(found), "code": code(found)}} if isinstance(found, Exception) else found


def _object(body: bytes) -> dict[str, Any]:
    try:
        sent = strict_json.loads(body)
    except ValueError as error:
        raise InvalidInput(f"the body is no JSON ({error}); send an object, or a file as audio/wav") from error
    if not isinstance(sent, dict):
        raise InvalidInput("the body must be a JSON object with text and audio, or with items")
    return sent


def _text(item: Mapping[str, Any]) -> str:
    text = item.get("text")
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("text: it is missing; send what the speech should say")
    if len(text) > MOST_TEXT:
        raise InvalidInput(f"text: {len(text)} characters; at most {MOST_TEXT} are taken")
    return text


def _language(item: Mapping[str, Any]) -> Language | None:
    language = item.get("language")
    if language is not None and language not in LANGUAGES:
        raise InvalidInput(f"language: {language!r} is unknown; use {' or '.join(LANGUAGES)}, or leave it out")
    return language


def _audio(item: Mapping[str, Any]) -> bytes:
    audio = item.get("audio")
    if isinstance(audio, bytes):
        return audio
    if not isinstance(audio, str):
        raise InvalidInput("audio: it is missing; send an audio file (WAV, FLAC, MP3, Ogg) in base64")
    try:
        return from_base64(audio)
    except ValueError as error:
        raise CodecError(f"audio: it is not base64 ({error})") from error
