"""Keys of SRTP in SDP (RFC 4568): `a=crypto` lines <-> suites and keys. No I/O."""

import base64
import binascii
import secrets
from dataclasses import dataclass

from oscine_engine.errors import InvalidInput

SUITES = {
    "AES_CM_128_HMAC_SHA1_80": 30,
    "AES_CM_128_HMAC_SHA1_32": 30,
    "AEAD_AES_128_GCM": 28,
    "AEAD_AES_256_GCM": 44,
}
"""Bytes of key and salt, of each suite that there is (RFC 4568, section 6.2, and RFC 7714, section 14.2)."""


@dataclass(frozen=True, slots=True)
class Crypto:
    """tag: which of the offered lines. key: and salt, of who wrote it, for what they send."""

    tag: str
    suite: str
    key: bytes

    def __repr__(self) -> str:
        return f"Crypto({self.tag!r}, {self.suite!r}, ...)"

    @property
    def line(self) -> str:
        """The value of an `a=crypto` attribute."""
        return f"{self.tag} {self.suite} inline:{base64.b64encode(self.key).decode()}"


def choose(lines: list[str]) -> Crypto:
    """The first line whose suite is known and which asks for nothing else. Raises InvalidInput if none is."""
    for line in lines:
        match line.split():
            case [tag, suite, keys] if suite in SUITES and ";" not in keys:
                if (key := _key(keys, SUITES[suite])) is not None:
                    return Crypto(tag, suite, key)
    if not lines:
        raise InvalidInput("offer: no a=crypto line has the keys of SRTP; send one, or offer RTP/AVP")
    # What was sent holds keys, and is not told.
    raise InvalidInput(
        f"offer: no a=crypto line can be used; send one with one key, no options, and {', '.join(SUITES)}"
    )


def answered(offered: Crypto) -> Crypto:
    """A key of our own, for the suite that was chosen."""
    return Crypto(offered.tag, offered.suite, secrets.token_bytes(SUITES[offered.suite]))


def _key(told: str, size: int) -> bytes | None:
    """inline:KEY, with or without a lifetime behind it; keys with an index (MKI) are for several."""
    method, _, rest = told.partition(":")
    key, *more = rest.split("|")
    if method != "inline" or any(":" in each for each in more):
        return None
    try:
        found = base64.b64decode(key + "=" * (-len(key) % 4), validate=True)
    except binascii.Error:
        return None
    return found if len(found) == size else None
