"""Which calls carriers have signed. Pure.

| carrier | header | what |
| --- | --- | --- |
| Twilio | `X-Twilio-Signature` | HMAC-SHA1 of the URL, by the auth token, in base64 |
| Plivo | `X-Plivo-Signature-V3`, `-Nonce` | HMAC-SHA256 of URL, full stop and nonce, by the auth token, in base64 |
| Vonage | `Authorization: Bearer` | a JWT signed with HMAC-SHA256 by the signature secret, with its age |

Each raises Unauthenticated where that is not so.
"""

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import parse_qsl, urlsplit

from oscine_service import strict_json
from oscine_service.security.errors import Unauthenticated

Headers = Mapping[str, str]
Check = Callable[[Headers, str], None]
"""Of headers, by lower-case name, and the URL as the carrier knows it."""

OLDEST_S = 300.0
"""Of a token, and how much in the future it may have been made, for clocks that differ."""


def twilio(secret: bytes) -> Check:
    def check(headers: Headers, url: str) -> None:
        given = headers.get("x-twilio-signature", "")
        # Twilio has signed with the port and without it.
        signed = (_hmac(secret, each, hashlib.sha1) for each in _spellings(url))
        if not any(hmac.compare_digest(given.encode(), each) for each in signed):
            raise _refused("Twilio", "X-Twilio-Signature", url)

    return check


def plivo(secret: bytes) -> Check:
    def check(headers: Headers, url: str) -> None:
        nonce = headers.get("x-plivo-signature-v3-nonce", "")
        given = [each.strip() for each in headers.get("x-plivo-signature-v3", "").split(",")]
        signed = [_hmac(secret, f"{_sorted(each)}.{nonce}", hashlib.sha256) for each in _spellings(url)]
        if not nonce or not any(hmac.compare_digest(one.encode(), each) for one in given for each in signed):
            raise _refused("Plivo", "X-Plivo-Signature-V3", url)

    return check


def vonage(secret: bytes, now: Callable[[], float] = time.time) -> Check:
    def check(headers: Headers, url: str) -> None:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        body, _, given = token.strip().rpartition(".")
        try:
            head, claims = (strict_json.loads(_decoded(part)) for part in body.split("."))
            signature = _decoded(given)
            issued = float(claims["iat"])
            valid = scheme.lower() == "bearer" and head["alg"] == "HS256"
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise Unauthenticated(_NOT_VONAGE) from error
        right = hmac.new(secret, body.encode(), hashlib.sha256).digest()
        if not (hmac.compare_digest(signature, right) and valid):
            raise Unauthenticated(_NOT_VONAGE)
        if not abs(age := now() - issued) <= OLDEST_S:
            raise Unauthenticated(
                f"Authorization: Vonage has signed this {abs(age):.0f} s {'ago' if age > 0 else 'from now'}, and "
                f"{OLDEST_S:g} s are taken; check this machine's clock, or call again"
            )

    return check


_NOT_VONAGE = (
    "Authorization: this is not signed by Vonage; check the signature secret of the account, and that the endpoint has "
    '"authorization": {"type": "vonage"}'
)


def _refused(carrier: str, header: str, url: str) -> Unauthenticated:
    return Unauthenticated(
        f"{header}: this is not signed by {carrier} for {url.partition('?')[0]}; check the token of the account and "
        "--public-url"
    )


def _hmac(secret: bytes, text: str, kind: Callable[..., "hashlib._Hash"]) -> bytes:
    return base64.b64encode(hmac.new(secret, text.encode(), kind).digest())


def _spellings(url: str) -> Iterator[str]:
    """With the port of its scheme and without; with a slash at its end and without. None of a URL whose host cannot be:
    it is what the client says."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    bare = re.sub(r":\d+$", "", parts.netloc)
    for host in dict.fromkeys((parts.netloc, bare, f"{bare}:{443 if parts.scheme == 'wss' else 80}")):
        for path in (parts.path, f"{parts.path}/"):
            yield parts._replace(netloc=host, path=path).geturl()


def _sorted(url: str) -> str:
    """With its parameters in the order of their names, decoded."""
    parts = urlsplit(url)
    query = "&".join(f"{name}={value}" for name, value in sorted(parse_qsl(parts.query, keep_blank_values=True)))
    base = parts._replace(query="").geturl()
    return f"{base}?{query}" if query else base


def _decoded(part: str) -> bytes:
    try:
        return base64.b64decode(part.encode("ascii") + b"=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(str(error)) from error
