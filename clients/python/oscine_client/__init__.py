"""Text streams in, speech streams out: a client of the Oscine service.

    from oscine_client import Client, Config

    with Client("localhost:50051") as client:
        for event in client.speak(tokens, Config(encoding="pcm16")):
            ...

`Client` and `AsyncClient` speak gRPC; `oscine_client.websocket` has the same calls over a WebSocket.
"""

from oscine_client.aio import AsyncCall, AsyncClient, AsyncVoices
from oscine_client.config import Config, Reference
from oscine_client.errors import (
    Cut,
    InvalidInput,
    NotFound,
    Overloaded,
    Refused,
    SpeechError,
    Unavailable,
)
from oscine_client.events import (
    Audio,
    Cancelled,
    Done,
    Event,
    Flushed,
    Heard,
    Marked,
    Started,
    Voice,
    Word,
    Words,
)
from oscine_client.sync import Call, Client, Voices

__all__ = [
    "AsyncCall",
    "AsyncClient",
    "AsyncVoices",
    "Audio",
    "Call",
    "Cancelled",
    "Client",
    "Config",
    "Cut",
    "Done",
    "Event",
    "Flushed",
    "Heard",
    "InvalidInput",
    "Marked",
    "NotFound",
    "Overloaded",
    "Reference",
    "Refused",
    "SpeechError",
    "Started",
    "Unavailable",
    "Voice",
    "Voices",
    "Word",
    "Words",
]
