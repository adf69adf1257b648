"""The draft head's stage: the target speaks, the head learns, and what it is worth is counted step by step."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from oscine_engine.checkpoint import draft as files
from oscine_engine.checkpoint import synthetic
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.config import LMConfig, SamplingConfig
from training import draft, sizes
from training.data import Corpus
from training.draft_data import Source, Spoken, drawn_from, speak, states
from training.lm import SPEECH_FROM, embed
from training.loop import Stage

LM = replace(sizes.LM, hidden_size=32, num_hidden_layers=3, intermediate_size=48, vocab_size=384)
EOS, SOS, TASK, FILL = (LM.speech_token_size + i for i in (1, 0, 2, 3))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Random weights that always say the likeliest id, three for each of the text's."""
    config = replace(synthetic.TINY, lm=LM, sampling=SamplingConfig(top_k=1, tau_r=2.0))
    return load(synthetic.write(tmp_path_factory.mktemp("model"), config))


def test_the_target_speaks_as_it_is_laid_out(model: Checkpoint, work: Path) -> None:
    corpus = Corpus(work / "data", "cpu")
    spoken = speak(model, corpus, [0, 3, 4], seed=2)
    assert spoken.mixed.tolist() == [False, True, False] and len(set(spoken.seeds.tolist())) == 3
    spoken.save(work / "said.npz")
    again = Spoken.load(work / "said.npz")
    assert all(np.array_equal(getattr(spoken, name), getattr(again, name)) for name in Spoken.__slots__)
    for row, clip in enumerate((0, 3, 4)):
        codes = spoken.codes[spoken.starts[row] : spoken.starts[row + 1]].astype(int)
        targets = spoken.targets[spoken.starts[row] : spoken.starts[row + 1]]
        said = targets[(targets >= 0) & (targets < LM.speech_token_size)]
        assert codes[codes < SPEECH_FROM][2:].tolist() == corpus.text_of(clip)
        assert len(said) - 3 * len(corpus.text_of(clip)) in (0, 1)
        logits = model.lm.head(model.lm(embed(model.lm, torch.from_numpy(codes)[None])))[0, :, : LM.speech_token_size]
        likeliest = logits.argmax(-1).numpy()
        says = (targets >= 0) & (targets < LM.speech_token_size)
        assert np.array_equal(likeliest[says], targets[says])


def test_states_are_the_layers_outputs(model: Checkpoint) -> None:
    codes = torch.tensor([[1, 2, SPEECH_FROM + 5, SPEECH_FROM + 9]])
    seen: list[torch.Tensor] = []
    hooks = [layer.register_forward_hook(lambda *args: seen.append(args[2])) for layer in model.lm.decoder.layers]
    hidden = model.lm(embed(model.lm, codes))
    for hook in hooks:
        hook.remove()
    features, logits = states(model.lm, codes, (0, 2))
    torch.testing.assert_close(features, torch.cat((seen[0], seen[2]), dim=-1))
    torch.testing.assert_close(logits, model.lm.head(hidden))


def test_what_is_drawn_from_is_the_nucleus_without_the_end() -> None:
    logits = torch.log(torch.tensor([[0.4, 0.3, 0.1, 0.05, 9.0, 0.15, 9.0], [0.01, 0.02, 0.03, 0.04, 9.0, 0.9, 9.0]]))
    ids, shares = drawn_from(logits, 4, SamplingConfig(top_p=0.75, top_k=3))
    assert ids[0].tolist() == [0, 1, 0]
    torch.testing.assert_close(shares[0], torch.tensor([0.4, 0.3, 0.0]) / 0.85)
    assert float(shares[1].sum()) == 0


def spoken_row(codes: list[int], targets: list[int]) -> Spoken:
    return Spoken(
        np.asarray(codes, np.int16),
        np.asarray(targets, np.int16),
        np.array([0, len(codes)]),
        np.array([7]),
        np.array([True]),
    )


def replayed(spoken: Spoken, wrong_at: int) -> tuple[list[int], list[int]]:
    """(places of steps with drafts, ids said) with drafts of three ids that are right but for the one at `wrong_at`."""
    replay = draft.Replay(spoken, 0, 0, LM)
    places = []
    while replay.wants_drafts():
        places.append(replay.at)
        goals = [int(goal) for goal in spoken.targets[replay.at : replay.at + 3]]
        replay.verify([-5 if replay.at + i == wrong_at else goal for i, goal in enumerate(goals)])
    places.append(replay.steps)
    return places, replay.said


def test_steps_are_counted_as_the_engine_takes_them() -> None:
    """Two blocks of text with five and three ids; a block's drafts end with it, and eos takes a place of its own."""
    speech = [SPEECH_FROM + i for i in (10, 11, 12, 13, 14, 20, 21, 22)]
    codes = [SPEECH_FROM + SOS, 1, 2, *speech[:5], 3, SPEECH_FROM + TASK, *speech[5:]]
    targets = [-1, -1, 10, 11, 12, 13, 14, FILL, -1, 20, 21, 22, EOS]
    spoken = spoken_row(codes, targets)
    said = [10, 11, 12, 13, 14, 20, 21, 22]
    # Reading says 10; a step from place 3 says 11 to 14; reading says 20; one from 10 says 21, 22 and the end.
    assert replayed(spoken, -1) == ([3, 10, 4], said)
    assert replayed(spoken, 4) == ([3, 5, 10, 5], said)
    assert replayed(spoken, 3) == ([3, 4, 10, 5], said)
    assert replayed(spoken, 11) == ([3, 10, 12, 5], said)


@pytest.mark.slow
def test_a_head_learns_by_heart_and_is_measured(model: Checkpoint, work: Path) -> None:
    config = draft.shape(LM, 1, 4, 16)
    assert config.target_layer_ids == (0, 1, 2) and config.count == 3
    stage = Stage("draft", work, 240, max_steps=300, warmup_steps=20, ema_start=100, keep_last=True)
    draft.fit(stage, model, config, 4, 600, 0, 4e-3)
    with (work / "draft" / "train.csv").open() as source:
        first, *_, last = (float(row["first"]) for row in csv.DictReader(source))
    assert first < 0.3 and last > 0.7
    found = json.loads((work / "export" / "draft" / "accepted.json").read_text())
    assert set(found) == {"whole_all", "whole_nucleus", "interleaved_all", "interleaved_nucleus"}
    head = files.load(work / "export" / "draft")
    assert head.config == config
    known = Source(Spoken.load(work / "draft" / "train" / "said.npz"), model, (0, 1, 2), work / "draft" / "train")
    counts = draft.measure(head, model, known)
    assert 1.8 < counts["whole_nucleus"] < 4 and 1.5 < counts["interleaved_nucleus"] < 4
    with (work / "draft" / "valid.csv").open() as source:
        [checked] = csv.DictReader(source)
    assert float(checked["tokens"]) == pytest.approx(1 - float(checked["negative"]), abs=1e-4)


def test_the_shape_of_a_head_for_the_embedded_voice() -> None:
    config = draft.shape(LMConfig(**{name: getattr(sizes.LM, name) for name in LMConfig.__slots__}), 2, 6, 64)
    assert config.target_layer_ids == (2, 4, 7) and config.count == 5
