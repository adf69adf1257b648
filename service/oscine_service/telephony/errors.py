"""What speaking into a telephone call may end with. Of the engine's tree, so that one table covers all errors."""

from oscine_engine.errors import InvalidInput, OscineError


class UnknownCall(InvalidInput):
    """No call of that name is up."""

    code = "unknown_call"


class CallTaken(InvalidInput):
    """The name belongs to another call, or too many conversations speak into the call."""

    code = "call_taken"


class HungUp(OscineError):
    """The call has ended while a conversation spoke into it."""

    code = "hung_up"
