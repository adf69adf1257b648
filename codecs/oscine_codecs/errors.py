"""The errors of this room."""


class CodecError(ValueError):
    """Samples or bytes that cannot be converted, or a codec library that is missing; the message says what to do."""


class CodecFailed(CodecError):
    """An encoder broke down in the middle of a stream, through no fault of what it was given."""


class CodecMissing(CodecError):
    """The library of a codec is not installed on this machine."""
