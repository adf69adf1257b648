"""`POST /v1/calls`: an offered session in, a telephone call up and the answer out."""

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from oscine_engine.errors import InvalidInput
from oscine_service.http import body
from oscine_service.security.principal import Grant, current
from oscine_service.telephony.rtp import sdp
from oscine_service.telephony.rtp.exchange import Exchange
from oscine_service.telephony.sink import MAX_NAME
from oscine_service.websocket.fields import field, loads, only

PATH = "/v1/calls"
SDP, JSON = "application/sdp", "application/json"
FIELDS = frozenset(("offer", "id"))
MAX_BODY_BYTES = 2 * sdp.MAX_BYTES


class NoRtp(InvalidInput):
    """Calls over RTP are not taken."""

    code = "no_rtp"
    http = 501


def routes(calls: Exchange | None) -> list[Route]:
    """calls: None where RTP is off."""

    async def answered(request: Request) -> Response:
        """The offer, and the call's name if it is to have one, as JSON {"offer", "id"} or as SDP with ?id=NAME; the
        answer in the same way."""
        current().require(Grant.SPEAK)
        if calls is None:
            raise NoRtp("calls over RTP are off here: start the service with --rtp-host ADDRESS")
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        sent = await body.read(request, MAX_BODY_BYTES)
        if kind == SDP:
            offer, name = _text(sent), request.query_params.get("id")
        elif kind == JSON:
            asked = loads(_text(sent))
            only(asked, FIELDS, "a call")
            offer, name = field(asked, "offer", str), field(asked, "id", str, None)
        else:
            raise InvalidInput(f"send the offer as {SDP}, or in JSON as {JSON}, and name it in Content-Type")
        if name is not None and not (0 < len(name) <= MAX_NAME):
            raise InvalidInput(f"id: a name of {len(name)} characters; it has 1 to {MAX_NAME}")
        made = await calls.answer(offer, name, current().owner)
        headers = {"Location": f"{PATH}/{quote(made.name, safe='')}"}
        if kind == SDP:
            return Response(made.sdp, 201, headers, media_type=SDP)
        return JSONResponse({"id": made.name, "object": "call", "answer": made.sdp}, 201, headers)

    return [Route(PATH, answered, methods=["POST"])]


def _text(sent: bytes) -> str:
    try:
        return sent.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the body is not UTF-8: {error}") from error
