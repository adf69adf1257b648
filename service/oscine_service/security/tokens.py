"""Short-lived tokens that a web page may have: what a key is exchanged for by whoever keeps the key.

A token names its key and when it expires, and is signed; nothing is stored of it. It may only be used to speak, and for
no more than its key: a key that is removed takes its tokens with it.
"""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from oscine_engine.errors import InvalidInput

PREFIX = "ost_"
SHORTEST_SECRET = 32
SHORTEST_S, LONGEST_S, DEFAULT_S = 1, 3600, 300


@dataclass(frozen=True, slots=True)
class Token:
    """key: the name of the key. expires: seconds of the epoch."""

    key: str
    expires: int


class Mint:
    """Makes tokens and reads them. clock: seconds of the epoch."""

    def __init__(self, secret: bytes, clock: Callable[[], float] = time.time) -> None:
        self._secret = secret
        self._clock = clock

    @classmethod
    def of(cls, path: Path | None) -> "Mint":
        """With the secret in a file; with a new one where there is none. Raises InvalidInput."""
        if path is None:
            return cls(secrets.token_bytes(SHORTEST_SECRET))
        try:
            secret = path.read_bytes().strip()
        except OSError as error:
            raise InvalidInput(f"the token secret {path} cannot be read: {error.strerror}") from error
        if len(secret) < SHORTEST_SECRET:
            raise InvalidInput(
                f"the token secret {path} has {len(secret)} bytes; it needs {SHORTEST_SECRET} or more that nobody can "
                f"guess: openssl rand -hex 32 > {path}"
            )
        return cls(secret)

    def make(self, key: str, seconds: int = DEFAULT_S) -> tuple[str, Token]:
        """A token for the key of that name. Raises InvalidInput for a time out of range."""
        if not SHORTEST_S <= seconds <= LONGEST_S:
            raise InvalidInput(f"expires_in: {seconds} s is out of range; use {SHORTEST_S} to {LONGEST_S}")
        token = Token(key, int(self._clock()) + seconds)
        payload = _text(json.dumps([token.key, token.expires], ensure_ascii=False).encode())
        return f"{PREFIX}{payload}.{self._sign(payload)}", token

    def read(self, text: str) -> Token | None:
        """None for what is no token of this secret, or has expired."""
        payload, _, signature = text.removeprefix(PREFIX).partition(".")
        if not text.startswith(PREFIX) or not hmac.compare_digest(_bytes(signature), _bytes(self._sign(payload))):
            return None
        key, expires = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return Token(key, expires) if self._clock() < expires else None

    def _sign(self, payload: str) -> str:
        return _text(hmac.digest(self._secret, _bytes(payload), hashlib.sha256))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    """Of any text: what clients send may hold halves of characters."""
    return text.encode(errors="surrogatepass")
