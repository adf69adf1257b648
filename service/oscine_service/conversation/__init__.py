"""One call, from its config to its end, whatever protocol carries it.

A front door translates: what its client sends into verbs, replies into what its client reads. Everything else about a
call is here.

    async with talking(front, config, limits, calls) as talk:
        # in one task, as the client sends
        await talk.put(Text("Good morning."))
        await talk.end()
        # in another, as the client takes
        async for reply in talk:
            await talk.deliver(socket.send(encode(reply)))
"""

from oscine_service.conversation.calling import talking
from oscine_service.conversation.calls import Calls
from oscine_service.conversation.replies import (
    Audio,
    Cancelled,
    Done,
    Flushed,
    Heard,
    Marked,
    Reply,
    Started,
    Word,
    Words,
)
from oscine_service.conversation.talk import Conversation
from oscine_service.conversation.verbs import (
    MAX_MARK,
    MAX_TEXT_BYTES,
    MAX_VOICE,
    Cancel,
    Config,
    Flush,
    Mark,
    Played,
    Text,
    Verb,
    mark_name,
    quiet_s,
    sink_name,
    text_piece,
)

__all__ = [
    "MAX_MARK",
    "MAX_TEXT_BYTES",
    "MAX_VOICE",
    "Audio",
    "Calls",
    "Cancel",
    "Cancelled",
    "Config",
    "Conversation",
    "Done",
    "Flush",
    "Flushed",
    "Heard",
    "Mark",
    "Marked",
    "Played",
    "Reply",
    "Started",
    "Text",
    "Verb",
    "Word",
    "Words",
    "mark_name",
    "quiet_s",
    "sink_name",
    "talking",
    "text_piece",
]
