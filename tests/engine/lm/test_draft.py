"""The draft network against a plain restatement, and its paged form against the network."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from oscine_engine.checkpoint import draft as files
from oscine_engine.config import LMConfig, SamplingConfig
from oscine_engine.errors import CheckpointError
from oscine_engine.lm import noise
from oscine_engine.lm.draft import DraftConfig, DraftNetwork
from oscine_engine.lm.drafter import PackedDraft
from oscine_engine.lm.network import SpeechLM
from oscine_engine.lm.packed import page_shape
from oscine_engine.lm.sampling import NO_ID, sample
from oscine_engine.runtime.pages import PagePool
from tests.engine.lm.plain_draft import PlainDraft

TARGET = LMConfig(
    hidden_size=24,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=32,
    vocab_size=30,
    speech_token_size=40,
    decoder_rows=60,
)
OWN = DraftConfig(
    hidden_size=20,
    num_hidden_layers=2,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=8,
    intermediate_size=28,
    vocab_size=90,
    draft_vocab_size=50,
    target_hidden_size=24,
    target_layer_ids=(0, 2, 3),
    mask_token_id=89,
    markov_rank=6,
    block_size=5,
    speech_offset=30,
    rope_theta=1e4,
)
SHARED = replace(OWN, hidden_size=24, own_embedding=False, own_head=False, draft_vocab_size=90)
SPEECH_ONLY = replace(SHARED, vocab_size=60, draft_vocab_size=60, mask_token_id=47, speech_offset=0, block_size=3)
CONFIGS = {
    "own": OWN,
    "own, from the anchor, biased": replace(OWN, bonus_anchor=False, attention_bias=True, logit_scale=0.5),
    "shared": SHARED,
    "shared, text embedding as the mask": replace(SHARED, mask_token_id=4),
    "speech ids only": SPEECH_ONLY,
}
SAMPLING = SamplingConfig(top_p=0.9, top_k=12, win_size=4, tau_r=0.3)
EVERYTHING = replace(SAMPLING, top_p=2.0, top_k=TARGET.speech_token_size + 2)
Made = tuple[DraftNetwork, SpeechLM]


def make(config: DraftConfig) -> Made:
    torch.manual_seed(3)
    network, lm = DraftNetwork(config), SpeechLM(TARGET)
    for parameter in (*network.parameters(), *lm.parameters()):
        torch.nn.init.normal_(parameter, std=0.4)
    if config.draft_vocab_size != config.vocab_size:
        targets = torch.randperm(config.vocab_size)[: config.draft_vocab_size].sort().values
        network.d2t.copy_(targets - torch.arange(config.draft_vocab_size))
    return network.eval().requires_grad_(False), lm.eval().requires_grad_(False)


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS.keys())
def made(request: pytest.FixtureRequest) -> Made:
    return make(request.param)


def plain(network: DraftNetwork, lm: SpeechLM) -> PlainDraft:
    config = network.config
    table = network.embedding(torch.arange(config.vocab_size), lm)
    return PlainDraft(config, network.state_dict(), table, network.head(lm))


def test_the_network_is_what_its_weights_names_say(made: Made) -> None:
    network, lm = made
    features = torch.randn(2, 9, 3 * 24)
    ids, positions = torch.tensor([[31, 33], [35, 40]]), torch.tensor([[9, 4], [0, 7]])
    hidden = network(features, ids, positions, lm)
    assert hidden.shape == (2, 2, network.config.count, network.config.hidden_size)
    reference = plain(network, lm)
    for row in range(2):
        for block in range(2):
            states = reference.states(features[row, : positions[row, block]], int(ids[row, block]))
            torch.testing.assert_close(hidden[row, block].double(), states, atol=2e-5, rtol=2e-5)
            logits = network.logits(hidden[row, block, 0], ids[row, block], lm)
            wanted = reference.logits(states[0], int(ids[row, block]))
            torch.testing.assert_close(logits.double(), wanted, atol=1e-4, rtol=1e-4)


def drafted(
    network: DraftNetwork, lm: SpeechLM, features: Tensor, said: Sequence[int], seed: int, truncate: bool
) -> list[int]:
    """What is to be proposed after `said`, from the network's logits and the sampler's own definition."""
    config, history = network.config, list(said)
    at = torch.tensor([[len(features)]])
    hidden = network(features[None], torch.tensor([[said[-1] + config.speech_offset]]), at, lm)[0, 0]
    targets = network.targets() - config.speech_offset
    for state in hidden:
        logits = network.logits(state, torch.tensor(history[-1] + config.speech_offset), lm)
        by_id = torch.full((1, TARGET.speech_token_size + 2), -torch.inf)
        speech = (targets >= 0) & (targets < TARGET.speech_token_size)
        by_id[0, targets[speech]] = logits[speech]
        keys = torch.tensor([[noise.key(seed, len(history), use) for use in (0, 1)]])
        recent = ([NO_ID] * SAMPLING.win_size + history)[-SAMPLING.win_size :]
        rule = SAMPLING if truncate else EVERYTHING
        history.append(int(sample(by_id, torch.tensor([recent]), keys, rule, 0.8)))
    return history[len(said) :]


class Streams:
    """Contexts of some streams in a pool, remembered in pieces by a drafter."""

    def __init__(self, made: Made, page_tokens: int, lengths: Sequence[int], truncate: bool = True) -> None:
        network, lm = made
        self.pool = PagePool(40, page_shape(TARGET, page_tokens))
        self.drafter = PackedDraft(
            network, lm, self.pool, SAMPLING, temperature=0.8, max_streams=8, max_positions=64, truncate=truncate
        )
        self.drafter.pages.normal_(std=50)  # what was never written must not be read
        torch.manual_seed(len(lengths) + page_tokens)
        self.features = [torch.randn(length, 3 * 24) for length in lengths]
        self.said = [torch.randint(0, 40, (3 + 2 * i,)).tolist() for i in range(len(lengths))]
        self.pages = [self.pool.alloc(-(-length // page_tokens)) for length in lengths]
        for piece in range(0, max(lengths), 4):
            rows, positions, slots = [], [], []
            for features, pages in zip(self.features, self.pages, strict=True):
                for at in range(piece, min(piece + 4, len(features))):
                    rows += [features[at], torch.full_like(features[at], 9.0)]
                    positions += [at, 0]
                    slots += [pages[at // page_tokens] * page_tokens + at % page_tokens, -1]
            self.drafter.remember(torch.stack(rows), torch.tensor(positions), torch.tensor(slots))

    def propose(self, streams: Sequence[int]) -> list[list[int]]:
        width = max(len(pages) for pages in self.pages) + 1
        window = SAMPLING.win_size
        lengths = torch.tensor([len(self.features[i]) for i in streams])
        return self.drafter.propose(
            torch.tensor([self.said[i][-1] for i in streams]),
            lengths,
            torch.tensor([7 * i - 3 for i in streams]),
            torch.tensor([len(self.said[i]) for i in streams]),
            torch.tensor([([NO_ID] * window + self.said[i])[-window:] for i in streams]),
            torch.tensor([(self.pages[i] + [3] * width)[:width] for i in streams], dtype=torch.int32),
            lengths.int(),
        ).tolist()


@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize("page_tokens", [3, 8, 32])
def test_paged_proposals_are_those_of_the_network(made: Made, page_tokens: int, truncate: bool) -> None:
    lengths = (11, 8, 1, 24)
    streams = Streams(made, page_tokens, lengths, truncate)
    wanted = [
        drafted(*made, features, said, 7 * i - 3, truncate)
        for i, (features, said) in enumerate(zip(streams.features, streams.said, strict=True))
    ]
    assert streams.propose(range(4)) == wanted
    for i in range(4):
        assert streams.propose([i]) == [wanted[i]]
    assert streams.propose([2, 0, 1]) == [wanted[2], wanted[0], wanted[1]]


def test_proposing_changes_no_context(made: Made) -> None:
    streams = Streams(made, 8, (16, 5))
    before = streams.drafter.pages.clone()
    streams.propose([1, 0])
    changed = (streams.drafter.pages != before).flatten(1).any(1)
    kept = streams.pages[0]
    assert not changed[kept].any()
    [page] = streams.pages[1]
    assert torch.equal(streams.drafter.pages[page, :, :, :, :5], before[page, :, :, :, :5])
    assert not changed[: streams.pool.num_pages].sum() > 1


def test_more_streams_than_asked_for_are_refused() -> None:
    streams = Streams(make(SPEECH_ONLY), 8, (6,))
    with pytest.raises(ValueError, match="9 streams are more than the 8"):
        streams.propose([0] * 9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target_hidden_size": 20}, "states of 20 channels, the target's have 24"),
        ({"target_layer_ids": (1, 4)}, r"layers \[1, 4\] of a target that has 4"),
        ({"speech_offset": 60}, "ends before the target's 40 speech ids"),
        ({"own_embedding": False}, "shares the target's embedding but has 20 channels"),
        ({"own_embedding": False, "hidden_size": 24, "speech_offset": 40}, "has 30 text ids and not 40"),
        (
            {"own_embedding": False, "hidden_size": 24, "vocab_size": 99, "mask_token_id": 95},
            "its mask id 95 is no row",
        ),
        ({"own_head": False, "draft_vocab_size": 90}, "shares the target's head, which is of another size"),
    ],
)
def test_a_draft_of_another_target_is_refused(change: dict[str, int], message: str) -> None:
    network, lm = DraftNetwork(replace(OWN, **change)), SpeechLM(TARGET)
    with pytest.raises(CheckpointError, match=message):
        PackedDraft(network, lm, PagePool(2, page_shape(TARGET, 8)), SAMPLING)


def test_a_draft_that_cannot_say_speech_is_refused() -> None:
    network = DraftNetwork(replace(OWN, draft_vocab_size=10))
    with pytest.raises(CheckpointError, match="none of the ids it can propose is a speech id"):
        PackedDraft(network, SpeechLM(TARGET), PagePool(2, page_shape(TARGET, 8)), SAMPLING)


def test_a_random_draft_has_the_published_shape() -> None:
    config = files.published(LMConfig())
    assert (config.num_hidden_layers, config.count, config.draft_vocab_size, config.markov_rank) == (3, 7, 8192, 256)
    assert len(config.target_layer_ids) == 5 and config.target_layer_ids[-1] == 23
    network = files.random(TARGET, seed=1)
    assert network.fc.weight.shape == (24, 4 * 24) and not network.fc.weight.requires_grad
    lm = SpeechLM(TARGET).eval()
    drafter = PackedDraft(network, lm, PagePool(4, page_shape(TARGET, 8)), SAMPLING)
    anchors = torch.tensor([5, 6])
    history = torch.tensor([[NO_ID, NO_ID, NO_ID, 5], [NO_ID, NO_ID, NO_ID, 6]])
    zeros, one = torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=torch.int64)
    tables = torch.zeros(2, 1, dtype=torch.int32)
    drafts = drafter.propose(anchors, zeros, zeros, one, history, tables, zeros.int())
    assert drafts.shape == (2, 7) and bool((drafts < 40).all()) and len(set(drafts.flatten().tolist())) > 3
    assert torch.equal(files.random(TARGET, seed=1).fc.weight, network.fc.weight)
