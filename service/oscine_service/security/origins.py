"""Which web pages may call. Pure.

A browser says which page a request comes from. Without this check any page that somebody looks at could speak through a
service on their machine or in their network, keys or not.
"""

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from oscine_service.security.errors import Forbidden


def check(origin: str | None, host: str, allowed: Sequence[str]) -> None:
    """host: what the request was sent to. Raises Forbidden for a page that neither is `allowed` nor comes from this
    service itself, which then must be called by an address or localhost: a name can be made to point anywhere.

    Requests without an origin come from programs, and are none of this.
    """
    if origin is None or "*" in allowed or origin in allowed:
        return
    if _own(origin, host):
        return
    raise Forbidden(f"pages of {origin} may not call this service: start it with --origins {origin}")


def _own(origin: str, host: str) -> bool:
    try:
        page = urlsplit(origin)
    except ValueError:  # no browser writes such
        return False
    return page.netloc.lower() == host.lower() and _is_address(page.hostname or "")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost"
    return True
