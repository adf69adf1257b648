"""What a call may end with.

    SpeechError
      InvalidInput     the request cannot be served as it stands; the message says what to change
      NotFound         there is no voice of that name
      Refused          not for this key, or not by this service as it is set up
      Overloaded       come back after `retry_after_s`
      Unavailable      the service, or its engine, is not there; with `retry_after_s` it comes back by itself
      Cut              the call was ended from outside: cancelled, too slow, or silent for too long

A plain SpeechError is a fault of the service.
"""


class SpeechError(Exception):
    """code: a stable name, the same over gRPC and WebSocket. retry_after_s: when the same request may be sent again,
    None if that is no use."""

    def __init__(self, message: str, code: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message, self.code, self.retry_after_s = message, code, retry_after_s


class InvalidInput(SpeechError):
    pass


class NotFound(SpeechError):
    pass


class Refused(SpeechError):
    pass


class Overloaded(SpeechError):
    pass


class Unavailable(SpeechError):
    pass


class Cut(SpeechError):
    pass
