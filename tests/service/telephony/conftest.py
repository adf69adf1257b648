"""One HTTP port for the doors of telephony, over a small model of random weights."""

from tests.service.compat.conftest import door, shared

__all__ = ["door", "shared"]
