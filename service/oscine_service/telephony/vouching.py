"""On whose behalf calls come whose carriers bring no key, but a signature."""

import logging
from collections.abc import Mapping
from pathlib import Path

from oscine_engine.errors import InvalidInput
from oscine_service.config.model import Telephony
from oscine_service.config.setting import Contradiction
from oscine_service.security.errors import Unauthenticated
from oscine_service.security.keys import KeyBook
from oscine_service.security.principal import ANYBODY, Grant, Principal
from oscine_service.telephony import signatures
from oscine_service.telephony.carriers.routes import ROOT
from oscine_service.telephony.signatures import Check

log = logging.getLogger(__name__)

LEAST_SECRET = 8
"""Bytes."""


class Voucher:
    """Raises InvalidInput for secrets that cannot be used, and a `carrier_key` that there is not."""

    def __init__(self, settings: Telephony, keys: KeyBook | None) -> None:
        self._keys = keys
        self._key = settings.carrier_key
        self._public = (settings.public_url or "").rstrip("/")
        if self._public and not self._public.startswith(("wss://", "ws://")):
            raise Contradiction(f"--public-url: {settings.public_url!r} does not begin with wss://")
        self._checks: dict[str, Check] = {}
        for path, make, file in (
            ("twilio", signatures.twilio, settings.twilio_token),
            ("plivo", signatures.plivo, settings.plivo_token),
            ("vonage", signatures.vonage, settings.vonage_secret),
        ):
            if file is not None:
                self._checks[ROOT + path] = make(_secret(file))
        self.principal()

    def caller(self, path: str, headers: Mapping[str, str], query: str) -> Principal | None:
        """Whom a carrier's signature stands for; None where nothing is to be signed. Raises Unauthenticated."""
        if (check := self._checks.get(path)) is None:
            return None
        url = f"{self._public or 'wss://' + headers.get('host', '')}{path}"
        try:
            check(headers, f"{url}?{query}" if query else url)
            return self.principal()
        except (Unauthenticated, InvalidInput) as error:
            # A carrier tells nobody what it was answered. The words may quote the request.
            log.info("a call at %s was refused: see its signature, the carrier's secret and --public-url", path)
            raise Unauthenticated(str(error)) from error

    def principal(self) -> Principal:
        """Of calls that bring no key of their own. Raises InvalidInput where its key is not there."""
        if self._key is None:
            return ANYBODY if self._keys is None else Principal(name="carrier", grants=frozenset({Grant.SPEAK}))
        if self._keys is None:
            raise Contradiction(f"--carrier-key: there is no key {self._key!r} without --keys, the file of them")
        if (found := self._keys.named(self._key)) is None:
            raise InvalidInput(f"--carrier-key: there is no key {self._key!r} that is valid")
        return found


def _secret(file: Path) -> bytes:
    try:
        secret = file.read_bytes().strip()
    except OSError as error:
        raise InvalidInput(f"the secret of a carrier, {file}, cannot be read: {error.strerror}") from error
    if len(secret) < LEAST_SECRET:
        raise InvalidInput(f"the secret of a carrier, {file}, has fewer than {LEAST_SECRET} bytes")
    return secret
