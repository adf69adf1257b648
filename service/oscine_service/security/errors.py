"""Errors of the door. They belong to the engine's tree, so that one table covers all that a call may end with."""

from oscine_engine.errors import OscineError, Overloaded


class Unauthenticated(OscineError):
    """No key, or none that is valid; the message says how to send one."""

    code = "unauthenticated"


class Forbidden(OscineError):
    """The key is valid, and what was asked for is not granted to it."""

    code = "forbidden"


class QuotaExceeded(Overloaded):
    """The key has used up what it is granted; there is more after `retry_after_s` seconds."""

    code = "quota_exceeded"
