"""Voices as the engine takes them."""

import pytest
import torch

from oscine_engine.voices.prompt import VoicePrompt, aligned


@pytest.mark.parametrize("count", range(1, 80))
def test_an_aligned_prompt_leaves_the_head_start_and_loses_less_than_a_chunk(count: int) -> None:
    voice = VoicePrompt(
        name="v",
        language="en",
        description="",
        prompt_text="",
        transcript="",
        lm_speech_tokens=torch.arange(5, dtype=torch.int32),
        flow_speech_tokens=torch.arange(count, dtype=torch.int32),
        mel=torch.arange(2 * count).float()[:, None].expand(-1, 80),
        embedding=torch.zeros(192),
    )
    cut = aligned(voice, 25, 10)
    kept = cut.flow_speech_tokens.numel()
    assert (kept + 10) % 25 == 0 or kept == count < 15
    assert count - kept < 25
    assert torch.equal(cut.flow_speech_tokens, voice.flow_speech_tokens[count - kept :])
    assert torch.equal(cut.mel, voice.mel[2 * (count - kept) :])
    assert torch.equal(cut.lm_speech_tokens, voice.lm_speech_tokens)
