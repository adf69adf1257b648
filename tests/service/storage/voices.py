"""Voices without a sound: a store does not listen."""

import hashlib
import time
from collections.abc import Callable

from oscine_engine.voices.catalogue import StoredVoice


def voice(name: str, owner: str = "", data: bytes | None = None, words: str = "hello") -> tuple[StoredVoice, bytes]:
    """What a store keeps of one whose arrays are `data`."""
    data = f"arrays of {owner} {name}".encode() if data is None else data
    digest = hashlib.sha256(data).hexdigest()
    return StoredVoice(owner, name, "en", "", "", words, 1.0, time.time(), digest, len(data)), data


def soon(true: Callable[[], bool], patience_s: float = 60.0) -> None:
    """Wait until it is true. Raises TimeoutError."""
    began = time.monotonic()
    while not true():
        if time.monotonic() > began + patience_s:
            raise TimeoutError("it did not become true")
        time.sleep(0.01)
