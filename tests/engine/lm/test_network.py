"""The trainable network: released keys, tied head, padding, dropout."""

import torch

from oscine_engine.config import LMConfig
from oscine_engine.lm.network import SpeechLM

TINY = LMConfig(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=48,
    vocab_size=50,
    speech_token_size=20,
    decoder_rows=30,
)


def tiny() -> SpeechLM:
    torch.manual_seed(0)
    return SpeechLM(TINY).eval()


def test_full_size_parameter_count_is_the_released_one() -> None:
    with torch.device("meta"):
        lm = SpeechLM(LMConfig())
    assert len(lm.state_dict()) == 293
    assert sum(p.numel() for p in lm.parameters()) == 506_148_480


def test_text_head_stays_tied_after_loading() -> None:
    lm = tiny()
    weights = {name: torch.randn_like(value) for name, value in lm.state_dict().items()}
    lm.load_state_dict(weights, assign=True)
    assert lm.llm.model.lm_head.weight is lm.decoder.embed_tokens.weight


@torch.inference_mode()
def test_right_padding_changes_nothing_and_is_zeroed() -> None:
    lm = tiny()
    embeds = torch.randn(2, 9, 32)
    padded = lm(embeds, torch.tensor([9, 5]))
    alone = lm(embeds[1:, :5])
    torch.testing.assert_close(padded[1:, :5], alone)
    assert padded[1, 5:].abs().max() == 0


@torch.inference_mode()
def test_no_position_sees_a_later_one() -> None:
    lm = tiny()
    embeds = torch.randn(1, 8, 32)
    before = lm(embeds)
    embeds[:, 5:] += 1
    after = lm(embeds)
    torch.testing.assert_close(after[:, :5], before[:, :5])
    assert (after[:, 5:] - before[:, 5:]).abs().max() > 1e-3


def test_trains_under_bfloat16_autocast_with_dropout() -> None:
    lm = tiny().train()
    lm.dropout = 0.5
    embeds = torch.randn(1, 6, 32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        first, second = (lm.head(lm(embeds)) for _ in range(2))
    assert not torch.equal(first, second)
    first.float().square().mean().backward()
    used = {name for name, p in lm.named_parameters() if p.grad is not None}
    assert {name for name, _ in lm.named_parameters()} - used == {
        "llm.model.model.embed_tokens.weight",
        "speech_embedding.weight",
    }


def test_eval_mode_ignores_dropout() -> None:
    lm = tiny()
    lm.dropout = 0.9
    embeds = torch.randn(1, 4, 32)
    assert torch.equal(lm(embeds), lm(embeds))
