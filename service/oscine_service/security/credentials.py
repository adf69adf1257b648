"""Where clients of all kinds put their key or token. Pure.

| where | who |
| --- | --- |
| `Authorization: Bearer KEY` | ours, OpenAI's, Cartesia's, Riva's and DashScope's clients |
| `Authorization: Token KEY` | Deepgram's |
| `Authorization: Basic`, of any name and KEY | Asterisk |
| `X-API-Key: KEY` | ours, Cartesia's |
| `xi-api-key: KEY` | ElevenLabs' |
| `Sec-WebSocket-Protocol: oscine.v1, oscine.token.TOKEN` | web pages, which can set no header |
| `Sec-WebSocket-Protocol: token, KEY` | Deepgram's, in web pages |
| `?token=TOKEN`, `?single_use_token=TOKEN` | likewise, the latter ElevenLabs' |

An address may hold tokens only: addresses are written into logs, where a key would stay.
"""

import base64
from collections.abc import Mapping, Sequence

from oscine_service.security import tokens
from oscine_service.security.errors import Unauthenticated

HOW = (
    "send a key as `Authorization: Bearer KEY`, `Authorization: Token KEY`, `X-API-Key: KEY` or `xi-api-key: KEY`; a "
    "web page opens a WebSocket with the subprotocols `oscine.v1` and `oscine.token.TOKEN`, or with ?token=TOKEN"
)
SCHEMES = ("bearer", "token")
HEADERS = ("x-api-key", "xi-api-key")
IN_QUERY = ("token", "single_use_token")
IN_SUBPROTOCOL = "oscine.token."


def in_headers(headers: Mapping[str, str]) -> str | None:
    """By lower-case name. Raises Unauthenticated for a header that holds no key."""
    if authorization := headers.get("authorization", "").strip():
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() == "basic":
            key = _password(key)
        elif scheme.lower() not in SCHEMES:
            key = ""
        if not key.strip():
            raise Unauthenticated(f"the authorization header is not understood: {HOW}")
        return key.strip()
    return next((headers[name].strip() for name in HEADERS if headers.get(name, "").strip()), None)


def _password(pair: str) -> str:
    """Of name:password in base64; none in what is not that."""
    try:
        return base64.b64decode(pair.strip(), validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def in_query(query: Mapping[str, str]) -> str | None:
    """Raises Unauthenticated for a key, which must not stand there."""
    token = next((query[name] for name in IN_QUERY if name in query), None)
    if token is not None and not token.startswith(tokens.PREFIX):
        raise Unauthenticated("?token= takes a token, which expires, and no key: addresses are written into logs")
    return token


def in_subprotocols(offered: Sequence[str]) -> tuple[str | None, list[str]]:
    """The key or token among the subprotocols that a WebSocket client offers, and those that are left."""
    if len(offered) == 2 and offered[0].lower() in SCHEMES:
        return offered[1], [offered[0]]
    found = [each for each in offered if each.startswith(IN_SUBPROTOCOL)]
    left = [each for each in offered if not each.startswith(IN_SUBPROTOCOL)]
    return (found[0].removeprefix(IN_SUBPROTOCOL) if found else None), left
