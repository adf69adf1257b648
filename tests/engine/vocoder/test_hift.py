"""The vocoder: recorded numbers, exact streaming, folding, loading, and whether it can be trained."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.parity import hift as parity
from bench.parity.rows import document
from oscine_engine.config import F0Config, VocoderConfig
from oscine_engine.errors import CheckpointError, InternalError, InvalidInput
from oscine_engine.features import mel24k
from oscine_engine.runtime.pages import PoolExhausted
from oscine_engine.vocoder.fold import folded
from oscine_engine.vocoder.graphed import GraphedVocoder
from oscine_engine.vocoder.network import HiFT
from oscine_engine.vocoder.runner import VocoderRunner

REFERENCE = Path(__file__).parents[2] / "reference"
FRAMES = 40
SIZES = st.sampled_from((16, 10, 5, 4, 3, 2, 1, 0))


@pytest.fixture(scope="module")
def network() -> HiFT:
    return parity.load_hift(REFERENCE, document(REFERENCE, "config.json"))


@pytest.fixture(scope="module")
def noise() -> torch.Tensor:
    return torch.rand(1, FRAMES * 480, 9, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def mel() -> torch.Tensor:
    """A mel whose voicing comes and goes, [1, 80, FRAMES]."""
    case = parity.tensors(REFERENCE, document(REFERENCE, "config.json")["files"]["hift"][1])
    return case["in.mel"][:, :, 40 : 40 + FRAMES]


@pytest.fixture(scope="module", params=[VocoderRunner, GraphedVocoder], ids=["ragged", "slotted"])
def runner(request: pytest.FixtureRequest, network: HiFT, noise: torch.Tensor) -> VocoderRunner:
    made: VocoderRunner = request.param(network, noise)
    return made


def oneshot(network: HiFT, mel: torch.Tensor, noise: torch.Tensor) -> np.ndarray:
    with torch.inference_mode():
        return network(mel, noise)[0][0].numpy()


def test_every_recorded_stage_agrees() -> None:
    rows = list(parity.checks(REFERENCE, document(REFERENCE, "config.json")))
    assert len(rows) >= 45
    assert [row for row in rows if not row.ok] == []


def test_state_dict_keys_are_those_of_the_released_file() -> None:
    with torch.device("meta"):
        shapes = {key: list(value.shape) for key, value in HiFT(VocoderConfig()).state_dict().items()}
    released = json.loads((REFERENCE / "cosyvoice3_state_dict.json").read_text())["hift.pt"]["tensors"]
    assert shapes == {item["key"]: item["shape"] for item in released}


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_any_cut_gives_the_samples_of_the_whole(
    network: HiFT, runner: VocoderRunner, mel: torch.Tensor, noise: torch.Tensor, data: st.DataObject
) -> None:
    total = data.draw(st.integers(1, FRAMES), label="frames")
    stream, fed, parts = runner.open(), 0, []
    while not stream.ended:
        size = min(data.draw(SIZES, label="size"), total - fed)
        last = fed + size == total and not data.draw(st.booleans(), label="the last step is empty")
        parts.append(runner.step([(stream, mel[0, :, fed : fed + size].T, last)])[0])
        fed += size
        assert sum(map(len, parts)) == (total * 480 if last else max(0, (fed - 4) * 480 - 8))
    np.testing.assert_allclose(np.concatenate(parts), oneshot(network, mel[:, :, :total], noise), atol=5e-5, rtol=0)


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_company_changes_nothing(
    network: HiFT, runner: VocoderRunner, mel: torch.Tensor, noise: torch.Tensor, data: st.DataObject
) -> None:
    totals = data.draw(st.lists(st.integers(1, FRAMES), min_size=2, max_size=5), label="frames")
    delays = [data.draw(st.integers(0, 3), label="delay") for _ in totals]
    streams, fed = [runner.open() for _ in totals], [0] * len(totals)
    parts: list[list[np.ndarray]] = [[] for _ in totals]
    tick = 0
    while not all(stream.ended for stream in streams):
        chosen = [i for i, stream in enumerate(streams) if not stream.ended and delays[i] <= tick]
        work = []
        for i in chosen:
            size = min(data.draw(SIZES, label="size"), totals[i] - fed[i])
            work.append((streams[i], mel[0, :, fed[i] : fed[i] + size].T, fed[i] + size == totals[i]))
            fed[i] += size
        for i, samples in zip(chosen, runner.step(work), strict=True):
            parts[i].append(samples)
        tick += 1
    for total, part in zip(totals, parts, strict=True):
        np.testing.assert_allclose(np.concatenate(part), oneshot(network, mel[:, :, :total], noise), atol=5e-5, rtol=0)


def test_a_bad_stream_spoils_only_itself(runner: VocoderRunner, mel: torch.Tensor) -> None:
    frames = mel[0].T
    alone = runner.step([(runner.open(), frames, True)])[0]
    bad, good = runner.step([(runner.open(), torch.full_like(frames, torch.nan), True), (runner.open(), frames, True)])
    assert not np.isfinite(bad).all()
    np.testing.assert_allclose(good, alone, atol=5e-5, rtol=0)


def test_noise_repeats_past_its_end(network: HiFT, mel: torch.Tensor, noise: torch.Tensor) -> None:
    short = noise[:, : 10 * 480]
    stream = (runner := VocoderRunner(network, short)).open()
    want = oneshot(network, mel, short.repeat(1, 4, 1))
    np.testing.assert_allclose(runner.step([(stream, mel[0].T, True)])[0], want, atol=5e-5, rtol=0)


def test_misuse_is_named(runner: VocoderRunner, network: HiFT, mel: torch.Tensor) -> None:
    stream = runner.open()
    with pytest.raises(InvalidInput, match="80"):
        runner.step([(stream, mel[0], False)])
    with pytest.raises(InternalError, match="once"):
        runner.step([(stream, mel[0].T, False), (stream, mel[0].T, False)])
    runner.step([(stream, mel[0].T, True)])
    with pytest.raises(InternalError, match="last frame"):
        runner.step([(stream, mel[0].T, True)])
    with pytest.raises(CheckpointError, match="9"):
        VocoderRunner(network, torch.rand(1, 480, 8))


def test_a_last_step_without_any_frame_is_empty(runner: VocoderRunner) -> None:
    assert [len(samples) for samples in runner.step([(runner.open(), torch.zeros(0, 80), True)])] == [0]


def test_folding_leaves_the_network_as_it_was(network: HiFT, mel: torch.Tensor, noise: torch.Tensor) -> None:
    before = oneshot(network, mel, noise)
    plain = folded(network)
    np.testing.assert_array_equal(oneshot(network, mel, noise), before)
    np.testing.assert_allclose(oneshot(plain, mel, noise), before, atol=5e-5, rtol=0)
    assert not any("parametrizations" in name for name, _ in plain.named_modules())
    assert folded(plain) is plain


def test_folding_survives_an_alpha_of_zero(network: HiFT, mel: torch.Tensor, noise: torch.Tensor) -> None:
    odd = HiFT(network.config).eval()
    odd.load_state_dict(network.state_dict())
    with torch.no_grad():
        odd.resblocks[0].activations1[0].alpha[3] = 0
        odd.resblocks[4].activations2[1].alpha[0] = 1e-4
    np.testing.assert_allclose(oneshot(folded(odd), mel, noise), oneshot(odd, mel, noise), atol=5e-5, rtol=0)


def test_both_spellings_of_weight_norm_load(network: HiFT) -> None:
    old = {
        key.replace("parametrizations.weight.original0", "weight_g").replace(
            "parametrizations.weight.original1", "weight_v"
        ): value
        for key, value in network.state_dict().items()
    }
    loaded = HiFT(network.config)
    loaded.load_state_dict(old)
    for key, value in network.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[key], value, atol=0, rtol=0)


def test_a_spectral_loss_falls() -> None:
    torch.manual_seed(0)
    network = HiFT(VocoderConfig(base_channels=16, f0_predictor=F0Config(cond_channels=16))).train()
    mel, noise = torch.randn(2, 80, 8), torch.rand(2, 8 * 480, 9)
    pitch = torch.full((2, 8), 150.0)
    target = mel24k(0.3 * torch.sin(2 * torch.pi * 150 / 24000 * torch.arange(8 * 480)).expand(2, -1))
    optimiser = torch.optim.Adam(network.parameters(), 1e-2)
    losses = []
    for _ in range(8):
        wave = network.decode(mel, network.source(pitch, noise))
        spectral = (mel24k(wave) - target).abs().mean()
        optimiser.zero_grad()
        (spectral + 1e-3 * (network.f0_predictor(mel) - pitch).abs().mean()).backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
        optimiser.step()
        losses.append(spectral.item())
    assert losses[-1] < 0.95 * losses[0]


def test_long_waits_go_through_in_pieces(network: HiFT, mel: torch.Tensor, noise: torch.Tensor) -> None:
    """Longer than the longest batch, in company of a short one, on a fresh and on a running stream."""
    runner = GraphedVocoder(network, noise, max_streams=2)
    long = mel.repeat(1, 1, -(-300 // mel.shape[2]))[:, :, :300]
    streams = [runner.open(), runner.open()]
    first = runner.step([(streams[0], long[0].T[:260], False), (streams[1], mel[0].T[:10], False)])
    second = runner.step([(streams[0], long[0].T[260:], True), (streams[1], mel[0].T[10:], True)])
    for index, whole in enumerate((long, mel)):
        heard = np.concatenate((first[index], second[index]))
        expected = oneshot(network, whole, noise.repeat(1, -(-whole.shape[2] * 480 // noise.shape[1]), 1))
        np.testing.assert_allclose(heard, expected, atol=5e-5, rtol=0)


def test_slots_come_back_from_streams_that_end_and_that_are_dropped(network: HiFT, noise: torch.Tensor) -> None:
    runner = GraphedVocoder(network, noise, max_streams=1)
    frames = torch.zeros(10, 80)
    for turn in range(5):
        runner.step([(runner.open(), frames, turn % 2 == 0)])
    held = [runner.open() for _ in range(2)]
    for stream in held:
        runner.step([(stream, frames, False)])
    with pytest.raises(PoolExhausted):
        runner.step([(runner.open(), frames, False)])
    runner.step([(held[0], frames, True)])
    runner.step([(runner.open(), frames, False)])
