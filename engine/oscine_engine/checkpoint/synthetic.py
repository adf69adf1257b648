"""Models of random weights, for tests and benchmarks: meaningless speech at the true cost.

`write` makes a model directory, with real files to be really loaded; `checkpoint` a model in memory, drawn where it is
to run, since writing and reading gigabytes of noise would prove nothing.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from oscine_engine.checkpoint import configuration, layout, weights
from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.checkpoint.noise import default_noise
from oscine_engine.checkpoint.voices import write_voices
from oscine_engine.config import (
    DiTConfig,
    F0Config,
    FlowConfig,
    LMConfig,
    ModelConfig,
    PreLookahead,
    TextRules,
    VocoderConfig,
)
from oscine_engine.flow.network import Flow
from oscine_engine.lm.network import SpeechLM
from oscine_engine.text.marks import VOICE_TAGS, added_tokens
from oscine_engine.text.tokenizer import character_backend
from oscine_engine.text.words import IDS_PER_WORD, word_tokenizer
from oscine_engine.vocoder.network import HiFT
from oscine_engine.voices.prompt import VoicePrompt

CHARACTERS = (" ", *",.?!;:'", *"abcdefghijklmnopqrstuvwxyz", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ")

TINY = ModelConfig(
    lm=LMConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=128,
        vocab_size=384,
        speech_token_size=2187,
        decoder_rows=2387,
    ),
    flow=FlowConfig(
        vocab_size=2187, pre_lookahead=PreLookahead(channels=64), dit=DiTConfig(dim=64, depth=2, heads=4, dim_head=16)
    ),
    vocoder=VocoderConfig(base_channels=32, f0_predictor=F0Config(cond_channels=32)),
    text=TextRules(min_token_text_ratio=3.0, max_token_text_ratio=3.0, front_end="phones"),
)
"""Small enough for a test: a second of speech costs well under a second on one core.

Random weights do not know when to end, so every text has the one length that three ids for each of its own give it.
"""

REFERENCE_TINY = replace(
    TINY,
    lm=replace(TINY.lm, speech_token_size=6561, decoder_rows=6761),
    flow=replace(TINY.flow, vocab_size=6561, dit=replace(TINY.flow.dit, depth=3)),
)
"""The sizes of the small networks that parity is measured with, apart from their exact vocabularies: for load tests.

A second of speech costs about 0.08 s of one core alone and 0.04 s in a batch of 16.
"""

FLEDGLING = replace(
    TINY,
    lm=replace(
        TINY.lm, hidden_size=256, num_hidden_layers=8, num_attention_heads=4, intermediate_size=1024, vocab_size=384
    ),
    flow=replace(
        TINY.flow, pre_lookahead=PreLookahead(channels=256), dit=DiTConfig(dim=256, depth=6, heads=4, dim_head=64)
    ),
    vocoder=VocoderConfig(base_channels=128, f0_predictor=F0Config(cond_channels=128)),
)
"""The embedded voice's sizes, apart from its exact vocabulary and text rules."""

FULL = ModelConfig(
    text=TextRules(min_token_text_ratio=IDS_PER_WORD, max_token_text_ratio=IDS_PER_WORD, front_end="plain"),
    silent_ids=(),
)
"""The released sizes, with lengths that the text alone decides."""

SMALL = replace(REFERENCE_TINY, lm=replace(REFERENCE_TINY.lm, vocab_size=1024), text=FULL.text, silent_ids=())
"""The sizes of REFERENCE_TINY with the text rules of FULL: what a benchmark of FULL is tried out with."""

_VOICE_TOKENS = 65
_QUIET = -1.0
_PITCH_HZ = 150.0


def write(directory: str | Path, config: ModelConfig = TINY, seed: int = 0) -> Path:
    """Write a complete model directory of random weights (same seed, same bytes) with one voice, "synthetic".

    The waveform is bounded noise around -40 to -20 dBFS with a buzz near 150 Hz, never silence or NaN. The encoders
    for registering voices are left out. Returns the directory.
    """
    root = Path(directory)
    root.mkdir(parents=True, exist_ok=True)
    configuration.write_config(config, root)
    specials = [*added_tokens(), *VOICE_TAGS]
    backend = character_backend([*specials, *CHARACTERS], specials)
    if backend.get_vocab_size() > config.lm.vocab_size:
        raise ValueError(f"lm.vocab_size must be at least {backend.get_vocab_size()}")
    backend.save(str(root / layout.TEXT_MODEL / "tokenizer.json"))
    generator = torch.Generator().manual_seed(seed)
    lm, flow, vocoder = SpeechLM(config.lm), Flow(config.flow), HiFT(config.vocoder)
    for module in (lm, flow, vocoder):
        _draw(module, generator)
    _settle(vocoder)
    weights.save_quantised(lm.state_dict(), root / "llm.safetensors", "fp32")
    weights.save_quantised(flow.state_dict(), root / "flow.safetensors", "fp32")
    weights.save_quantised(vocoder.state_dict(), root / "hift.safetensors", "fp32")
    write_voices({"synthetic": _voice(config, generator)}, root / layout.VOICES)
    return root


@torch.no_grad()
def checkpoint(
    config: ModelConfig,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    voices: Sequence[str] = ("synthetic",),
    prompt_tokens: int = _VOICE_TOKENS,
    seed: int = 0,
) -> Checkpoint:
    """A model of `word_tokenizer` in memory, its weights drawn on `device`: seconds at the released sizes.

    dtype: of the language model and the flow, as in `load`. voices: their names, each with a prompt of `prompt_tokens`.
    The same arguments give the same numbers, another device other ones. Its `files` are none.
    """
    tokenizer = word_tokenizer()
    if tokenizer.vocab_size > config.lm.vocab_size:
        raise ValueError(f"lm.vocab_size must be at least {tokenizer.vocab_size}")
    generator, prompts = torch.Generator(device).manual_seed(seed), torch.Generator().manual_seed(seed)
    with torch.device(device):
        lm, flow, vocoder = SpeechLM(config.lm), Flow(config.flow), HiFT(config.vocoder)
    for module, kind in ((lm, dtype), (flow, dtype), (vocoder, torch.float32)):
        _draw(module, generator)
        module.to(device, kind).eval().requires_grad_(False)
    _settle(vocoder)
    nothing = Path(os.devnull)
    return Checkpoint(
        config=config,
        lm=lm,
        flow=flow,
        vocoder=vocoder,
        tokenizer=tokenizer,
        voices={name: _voice(config, prompts, name, prompt_tokens) for name in voices},
        noise=default_noise(config),
        files=layout.ModelFiles(nothing, nothing, nothing, nothing, nothing, nothing, None, None, None),
    )


def _draw(module: nn.Module, generator: torch.Generator) -> None:
    """Matrices normal with variance 1 / fan-in, vectors near their usual constants."""
    for name, parameter in module.named_parameters():
        value = torch.empty(parameter.shape, device=generator.device).normal_(generator=generator)
        if parameter.dim() >= 2 and not name.endswith("original0"):
            value = value / math.sqrt(parameter[0].numel())
        elif name.endswith("original0"):
            value = torch.ones_like(value)
        elif name.endswith("bias"):
            value = 0.02 * value
        else:
            value = 1.0 + 0.02 * value
        parameter.data.copy_(value)


def _settle(vocoder: HiFT) -> None:
    """Bias the spectrum towards quiet and the pitch towards a voice, so that random weights sound bounded."""
    state = vocoder.state_dict()
    bins = state["conv_post.bias"].shape[0] // 2
    state["conv_post.bias"][:bins] = _QUIET
    state["conv_post.parametrizations.weight.original0"].fill_(0.1)
    state["f0_predictor.classifier.weight"].mul_(20.0)
    state["f0_predictor.classifier.bias"].fill_(_PITCH_HZ)


def _voice(
    config: ModelConfig, generator: torch.Generator, name: str = "synthetic", count: int = _VOICE_TOKENS
) -> VoicePrompt:
    tokens = torch.randint(0, config.flow.vocab_size, (count,), generator=generator, dtype=torch.int32)
    frames = count * config.flow.token_mel_ratio
    mel: Tensor = torch.randn(frames, config.flow.output_size, generator=generator) - 5.0
    return VoicePrompt(
        name=name,
        language="en",
        description="random numbers in the shape of a voice",
        prompt_text=f"{VOICE_TAGS[0]}<|endofprompt|>",
        transcript="",
        lm_speech_tokens=torch.zeros(0, dtype=torch.int32),
        flow_speech_tokens=tokens,
        mel=mel,
        embedding=torch.randn(config.flow.spk_embed_dim, generator=generator),
    )
