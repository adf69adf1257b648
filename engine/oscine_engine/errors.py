"""The engine's error tree. Transports map these to their own codes in one table each."""


class OscineError(Exception):
    """Base of all engine errors. `code` is a stable machine-readable name; the message says what to do."""

    code = "internal"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidInput(OscineError):
    """The request cannot be served as it stands; the message names the field and its legal values."""

    code = "invalid_input"


class UnknownVoice(InvalidInput):
    """No voice of that name is loaded."""

    code = "unknown_voice"


class VoiceExists(InvalidInput):
    """The name is taken by another voice."""

    code = "voice_exists"


class CheckpointError(OscineError):
    """A model directory is missing, incomplete or does not fit the architecture."""

    code = "checkpoint"


class StoreError(OscineError):
    """The voice store cannot be read or written, or a file in it was damaged; the message says which."""

    code = "store"


class NoStore(StoreError):
    """There is no voice store to keep voices in."""

    code = "no_store"


class Overloaded(OscineError):
    """Serving this would break streams already admitted; try again after `retry_after_s` seconds."""

    code = "overloaded"

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Cancelled(OscineError):
    """The stream was cancelled by its owner, who had `heard` samples of it: those reported as played, or else taken."""

    code = "cancelled"

    def __init__(self, message: str, heard: int = 0) -> None:
        super().__init__(message)
        self.heard = heard


class Unavailable(OscineError):
    """The engine has failed, and its sessions with it. One that comes back by itself says when to try again."""

    code = "unavailable"

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class InternalError(OscineError):
    """A fault of the engine, not of the request."""

    code = "internal"


class Idle(OscineError):
    """The client sent nothing for too long while there was nothing left to compute."""

    code = "idle"


class Stalled(OscineError):
    """The listener took nothing, or reported nothing as played, for too long."""

    code = "stalled"


class RunAway(OscineError):
    """A sentence went wrong in a way that another attempt did not mend: it looped, fell silent or did not end."""

    code = "run_away"
