"""The random model of load tests has the sizes it is said to have."""

import json
import math
from dataclasses import replace
from pathlib import Path

import torch

from oscine_engine.checkpoint import synthetic
from oscine_engine.checkpoint.synthetic import REFERENCE_TINY
from oscine_engine.config import FlowConfig, LMConfig, ModelConfig
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.events import Done, Mode, SessionRequest
from oscine_engine.text.words import IDS_PER_WORD

CONFIG = Path(__file__).parents[2] / "reference" / "config.json"


def trunk(lm: LMConfig) -> LMConfig:
    """Without the tables, whose ids are the front end's and the speech tokenizer's."""
    usual = LMConfig()
    return replace(
        lm,
        vocab_size=usual.vocab_size,
        speech_token_size=usual.speech_token_size,
        decoder_rows=usual.decoder_rows,
    )


def test_the_load_test_model_has_the_sizes_of_the_parity_networks() -> None:
    reference = ModelConfig.from_reference(json.loads(CONFIG.read_text(encoding="utf-8")))
    assert trunk(REFERENCE_TINY.lm) == trunk(reference.lm)
    assert REFERENCE_TINY.lm.vocab_size >= reference.lm.vocab_size
    assert REFERENCE_TINY.lm.decoder_rows >= reference.lm.decoder_rows
    assert REFERENCE_TINY.flow == reference.flow
    assert REFERENCE_TINY.vocoder == reference.vocoder
    assert REFERENCE_TINY.n_timesteps == reference.n_timesteps


def test_a_model_in_memory_speaks_as_many_ids_as_its_text_says() -> None:
    made = synthetic.checkpoint(synthetic.SMALL, voices=("a", "b"), prompt_tokens=97)
    assert list(made.voices) == ["a", "b"]
    assert {voice.flow_speech_tokens.numel() for voice in made.voices.values()} == {97}
    again = synthetic.checkpoint(synthetic.SMALL, voices=("a", "b"), prompt_tokens=97)
    for name, value in made.lm.state_dict().items():
        assert torch.equal(value, again.lm.state_dict()[name])
    assert synthetic.FULL.lm == LMConfig() and synthetic.FULL.flow == FlowConfig()
    assert made.tokenizer.encode("after again.") == made.tokenizer.encode("after") + made.tokenizer.encode(" again.")


async def test_a_model_in_memory_is_served_like_any_other() -> None:
    made = synthetic.checkpoint(synthetic.SMALL)
    text = "quiet rain over the river."  # six ids, of which it knows all but two
    async with Engine(made, EngineSettings(utilisation=math.inf)) as engine:
        session = await engine.open(SessionRequest(mode=Mode.SENTENCE, seed=0))
        async with session:
            await session.append(text)
            await session.finish()
            done = [event async for event in session][-1]
    assert isinstance(done, Done) and done.stats.speech_tokens == 6 * IDS_PER_WORD
