"""`/v1/audio/voices`: the voices there are, new ones from recordings, and their end.

OpenAI's own clients make and delete voices here; the list is as web frontends expect it of a speech server.
"""

from collections.abc import AsyncGenerator
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from oscine_engine.errors import InvalidInput
from oscine_service.conversation import Calls
from oscine_service.http import body
from oscine_service.security.principal import current
from oscine_service.voices.library import MAX_AUDIO_BYTES, Library, NewVoice, Origin, Voice

MAX_FORM_BYTES = MAX_AUDIO_BYTES + (1 << 16)
MAX_FIELDS = 16
RECORDINGS = ("audio_sample", "file")
TRANSCRIPTS = ("transcript", "ref_text")
FIELDS = ("name", *TRANSCRIPTS, "language", "description", "replace", "consent", "type")
_YES, _NO = ("true", "1"), ("false", "0", "")


class BadForm(InvalidInput):
    """param: the field that is wrong."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


def routes(library: Library, calls: Calls) -> list[Route]:
    async def listed(request: Request) -> Response:
        if not request.query_params:
            return JSONResponse({"voices": [_shown(voice) for voice in await library.all(current())]})
        size, token = _paging(request)
        page = await library.page(current(), size, token)
        return JSONResponse({"voices": [_shown(voice) for voice in page.voices], "next_page_token": page.token})

    async def shown(request: Request) -> Response:
        return JSONResponse(_shown(await library.get(current(), request.path_params["name"])))

    async def created(request: Request) -> Response:
        if request.headers.get("content-type", "").split(";")[0].strip().lower() != "multipart/form-data":
            raise BadForm("send a form (multipart/form-data) with the fields name and audio_sample, a file")
        with library.receiving(current()):
            voice = await calls.unless_stopped(_created(request, library))
        return JSONResponse(_shown(voice), 201, {"Location": f"/v1/audio/voices/{voice.name}"})

    async def deleted(request: Request) -> Response:
        name = request.path_params["name"]
        await calls.unless_stopped(library.delete(current(), name))
        return JSONResponse({"id": name, "object": "audio.voice.deleted", "deleted": True})

    return [
        Route("/v1/audio/voices", listed, methods=["GET"]),
        Route("/v1/audio/voices", created, methods=["POST"]),
        Route("/v1/audio/voices/{name}", shown, methods=["GET"]),
        Route("/v1/audio/voices/{name}", deleted, methods=["DELETE"]),
    ]


async def _created(request: Request, library: Library) -> Voice:
    sent = await body.read(request, MAX_FORM_BYTES)
    form = await _form(request, sent)
    try:
        new, recording = _new(form), _recording(form)
        await library.check(current(), new)
        return await library.create(current(), new, await recording.read())
    finally:
        await form.close()


async def _form(request: Request, sent: bytes) -> FormData:
    async def once() -> AsyncGenerator[bytes, None]:
        yield sent

    try:
        return await MultiPartParser(request.headers, once(), max_files=1, max_fields=MAX_FIELDS).parse()
    except MultiPartException as error:
        raise BadForm(f"the form cannot be read: {error.message}") from error


def _new(form: FormData) -> NewVoice:
    """Raises InvalidInput that names the field."""
    given: dict[str, str] = {}
    for name, value in form.multi_items():
        if name in RECORDINGS:
            continue
        if name not in FIELDS:
            raise BadForm(f"{name[:40]!r} is no field; there are {', '.join((*RECORDINGS[:1], *FIELDS))}", name[:40])
        if not isinstance(value, str):
            raise BadForm(f"{name}: a text is expected, not a file", name)
        if name in given:
            raise BadForm(f"{name}: given more than once", name)
        given[name] = value
    if "name" not in given:
        raise BadForm("name: missing; the voice must be called something", "name")
    # A consent is OpenAI's number for a recording of it: whoever calls answers for having one.
    if given.get("type", "audio_sample") != "audio_sample":
        raise BadForm("type: voices are only made of recordings here; use audio_sample", "type")
    if (replace := given.get("replace", "").lower()) not in (*_YES, *_NO):
        raise BadForm("replace: use true or false", "replace")
    transcripts = [given[name] for name in TRANSCRIPTS if given.get(name)]
    if len(transcripts) > 1:
        raise BadForm("ref_text: the transcript is given already, as transcript", "ref_text")
    return NewVoice(
        name=given["name"],
        transcript="".join(transcripts),
        language=given.get("language", ""),
        description=given.get("description", ""),
        replace=replace in _YES,
    )


def _recording(form: FormData) -> UploadFile:
    found = [value for name in RECORDINGS for value in form.getlist(name)]
    if len(found) != 1 or not isinstance(found[0], UploadFile):
        raise BadForm("audio_sample: one file is expected, a recording such as WAV, FLAC, MP3 or Ogg", "audio_sample")
    return found[0]


def _paging(request: Request) -> tuple[int, str]:
    query = request.query_params
    if unknown := next((name for name in query if name not in ("page_size", "page_token")), None):
        raise BadForm(f"{unknown[:40]!r} is no parameter; there are page_size and page_token", unknown[:40])
    size = query.get("page_size", "0")
    if not (size.isascii() and size.isdigit() and len(size) < 10):
        raise BadForm(f"page_size: {size[:40]!r} is not a number", "page_size")
    return int(size), query.get("page_token", "")


def _shown(voice: Voice) -> dict[str, Any]:
    reference = {} if voice.origin is Origin.MODEL else {"seconds": round(voice.seconds, 3)}
    return {
        "id": voice.name,
        "object": "audio.voice",
        "name": voice.name,
        "type": "audio_sample",
        "created_at": round(voice.created),
        "language": voice.language,
        "description": voice.description,
        "origin": voice.origin.value,
        **reference,
        "transcribed": voice.transcribed,
    }
