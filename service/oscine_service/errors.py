"""Ends of a call that are neither the engine's doing nor a codec's."""

from oscine_engine.errors import OscineError


class Idle(OscineError):
    """The client sent nothing for too long while there was nothing left to say."""

    code = "idle"


class Stalled(OscineError):
    """The client took nothing for too long."""

    code = "stalled"
