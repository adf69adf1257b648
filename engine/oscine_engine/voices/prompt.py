"""A voice as the models see it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from oscine_engine.errors import InvalidInput
from oscine_engine.voices.language import Language


@dataclass(frozen=True, slots=True, eq=False)
class VoicePrompt:
    """What the language model and the flow are conditioned on to speak in one voice.

    prompt_text: the instruct or zero-shot prefix, `<|endofprompt|>` included.
    transcript: what the reference audio says, "" if unknown.
    lm_speech_tokens: int32 [n], may be empty. flow_speech_tokens: int32 [P], P > 0.
    mel: float32 [2P, 80], natural-log magnitudes. embedding: float32 [192].
    Raises InvalidInput if shapes do not fit together.
    """

    name: str
    language: Language
    description: str
    prompt_text: str
    transcript: str
    lm_speech_tokens: Tensor
    flow_speech_tokens: Tensor
    mel: Tensor
    embedding: Tensor

    def __post_init__(self) -> None:
        count = self.flow_speech_tokens.numel()
        wrong = (
            "lm_speech_tokens must be int32 [n]"
            if self.lm_speech_tokens.dim() != 1 or self.lm_speech_tokens.dtype != torch.int32
            else "flow_speech_tokens must be int32 [P] with P > 0"
            if self.flow_speech_tokens.dim() != 1 or self.flow_speech_tokens.dtype != torch.int32 or count == 0
            else f"mel must be [{2 * count}, 80], two frames a flow token"
            if tuple(self.mel.shape) != (2 * count, 80)
            else "embedding must be [192]"
            if tuple(self.embedding.shape) != (192,)
            else "mel and embedding must be finite"
            if not (torch.isfinite(self.mel).all() and torch.isfinite(self.embedding).all())
            else ""
        )
        if wrong:
            raise InvalidInput(f"voice {self.name!r}: {wrong}")


def aligned(voice: VoicePrompt, chunk: int, head_start: int) -> VoicePrompt:
    """`voice` with its flow prompt, tokens and mel, cut at its start so that `head_start` tokens fill its last chunk.

    Chunks of `chunk` tokens count from the prompt's start, so the first new one then ends `head_start` tokens into the
    speech. Less than a chunk is cut. A prompt too short for that stays as it is.
    """
    drop = (voice.flow_speech_tokens.numel() + head_start) % chunk
    if drop >= voice.flow_speech_tokens.numel():
        return voice
    return replace(voice, flow_speech_tokens=voice.flow_speech_tokens[drop:], mel=voice.mel[2 * drop :])
