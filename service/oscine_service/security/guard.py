"""Who a credential belongs to."""

from dataclasses import dataclass, replace

from oscine_service.security import tokens
from oscine_service.security.credentials import HOW
from oscine_service.security.errors import Unauthenticated
from oscine_service.security.keys import KeyBook
from oscine_service.security.principal import ANYBODY, Grant, Principal
from oscine_service.security.tokens import Mint

TOKEN_GRANTS = frozenset({Grant.SPEAK})


@dataclass(frozen=True, slots=True)
class Guard:
    """keys: None lets anybody in, whatever is presented."""

    keys: KeyBook | None
    mint: Mint

    @property
    def open(self) -> bool:
        """Anybody is let in."""
        return self.keys is None

    def principal(self, credential: str | None) -> Principal:
        """Raises Unauthenticated, without a word on what would have been right."""
        if self.keys is None:
            return ANYBODY
        if not credential:
            raise Unauthenticated(f"this service wants a key: {HOW}")
        if credential.startswith(tokens.PREFIX):
            token = self.mint.read(credential)
            found = self.keys.named(token.key) if token is not None else None
            if found is None:
                raise Unauthenticated("the token has expired, or was not made here: ask for a new one")
            return replace(found, grants=found.grants & TOKEN_GRANTS, token=True)
        found = self.keys.find(credential)
        if found is None:
            raise Unauthenticated(f"the key is not known here, or has expired: {HOW}")
        return found
