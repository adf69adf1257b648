"""Voices of random numbers for a store to keep, and a process that keeps them."""

from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import torch

from oscine_engine.voices.prompt import VoicePrompt
from oscine_engine.voices.store import VoiceStore

TOKENS_A_SECOND = 25


def voice(number: int, seconds: float) -> VoicePrompt:
    """Arrays of random numbers: a store does not listen."""
    drawn = torch.Generator().manual_seed(number)
    count = round(seconds * TOKENS_A_SECOND)
    ids = torch.randint(0, 6561, (count,), generator=drawn, dtype=torch.int32)
    mel, embedding = torch.randn(2 * count, 80, generator=drawn), torch.randn(192, generator=drawn)
    words = f"These are the words of reference number {number}."
    return VoicePrompt(name(number), "en", "one of many", "<|endofprompt|>", words, ids, ids.clone(), mel, embedding)


def name(number: int) -> str:
    return f"voice-{number:06d}"


def keep_adding(folder: Path, first: int, seconds: float, stop: Event, count: Any) -> None:
    """Run in a process of its own until told to stop."""
    store = VoiceStore(folder)
    while not stop.is_set():
        store.add(voice(first + count.value, seconds))
        count.value += 1
    store.close()
