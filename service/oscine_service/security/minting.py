"""`POST /v1/tokens`: a token for a web page, for whoever has a key."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from oscine_engine.errors import InvalidInput
from oscine_service import strict_json
from oscine_service.http import body
from oscine_service.security import principal
from oscine_service.security.http_door import MOST_BODY
from oscine_service.security.principal import ANYBODY, Grant
from oscine_service.security.tokens import DEFAULT_S, Mint


def routes(mint: Mint) -> Sequence[BaseRoute]:
    async def make(request: Request) -> JSONResponse:
        """Body: nothing, or {"expires_in": SECONDS}."""
        who = principal.current()
        who.require(Grant.TOKENS)
        if who is ANYBODY:
            raise InvalidInput("this service takes no keys, so that nobody needs a token: start it with --keys")
        text, token = mint.make(who.name, _seconds(await body.read(request, MOST_BODY)))
        told = {"token": text, "expires_at": token.expires, "token_type": "Bearer"}
        return JSONResponse(told, 201, {"Cache-Control": "no-store"})

    return [Route("/v1/tokens", make, methods=["POST"])]


def _seconds(sent: bytes) -> int:
    try:
        asked = strict_json.loads(sent) if sent.strip() else {}
    except ValueError as error:
        raise InvalidInput(f"the body is not JSON: {error}") from error
    match asked:
        case {"expires_in": int(seconds)} if len(asked) == 1 and type(seconds) is int:
            return seconds
        case {} if not asked:
            return DEFAULT_S
        case _:
            raise InvalidInput('the body may be empty, or {"expires_in": SECONDS} with a whole number')
