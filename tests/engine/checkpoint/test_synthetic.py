"""The random model of load tests has the sizes it is said to have."""

import json
from dataclasses import replace
from pathlib import Path

from oscine_engine.checkpoint.synthetic import REFERENCE_TINY
from oscine_engine.config import LMConfig, ModelConfig

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
