"""A voice's arrays as the bytes that stores keep, and back. Pure."""

import time

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from oscine_engine.errors import InvalidInput, StoreError
from oscine_engine.voices.catalogue import StoredVoice, check_name
from oscine_engine.voices.prompt import VoicePrompt
from oscine_engine.voices.shelf import digest_of

ARRAYS = ("lm_speech_tokens", "flow_speech_tokens", "mel", "embedding")
_TOKEN_RATE = 25


def pack(voice: VoicePrompt, owner: str = "") -> tuple[StoredVoice, bytes]:
    """What a store keeps of a voice that is made now. Raises InvalidInput for a name that is no name."""
    check_name(voice.name)
    # Copies: CosyVoice gives both its models the very same ids, and no file may hold shared memory.
    packed = save({name: getattr(voice, name).clone(memory_format=torch.contiguous_format) for name in ARRAYS})
    stored = StoredVoice(
        owner=owner,
        name=voice.name,
        language=voice.language,
        description=voice.description,
        prompt_text=voice.prompt_text,
        transcript=voice.transcript,
        seconds=voice.flow_speech_tokens.numel() / _TOKEN_RATE,
        created=time.time(),
        digest=digest_of(packed),
        bytes=len(packed),
    )
    return stored, packed


def unpack(stored: StoredVoice, packed: bytes) -> VoicePrompt:
    """packed: bytes with the digest that `stored` names. Raises StoreError for what holds no voice."""
    try:
        arrays = load(packed)
        return VoicePrompt(
            stored.name,
            stored.language,
            stored.description,
            stored.prompt_text,
            stored.transcript,
            **{name: arrays[name] for name in ARRAYS},
        )
    except (SafetensorError, KeyError, InvalidInput) as error:  # written by something else
        raise StoreError(f"the file of voice {stored.name!r} holds no voice: {error}; register it again") from error
