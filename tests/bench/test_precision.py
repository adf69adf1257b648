"""The benchmark of precisions: it runs, holds errors to their bounds, and its tables say what it found.

Nothing here looks at times.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bench.gpu import eight, precision
from oscine_engine.config import DiTConfig, FlowConfig
from oscine_engine.flow.network import Flow

RESULT = {
    "device": "a card",
    "torch": "2",
    "time": "2026-01-01T00:00:00+00:00",
    "commit": "abc",
    "precisions": {
        "float16": {
            "weights_mb": {"lm": 1000.0, "flow": 600.0, "vocoder": 40.0},
            "context_mb": {"flow": 90.1, "lm": 0.3},
            "ms": {
                "lm": {"1": 0.9, "8": 1.0, "32": 1.1},
                "flow": {"1": 8.1, "8": 13.4, "32": 40.0},
                "vocoder": {"1": 0.7, "8": 1.8, "32": 6.0},
            },
            "logits": 0.002,
            "errors": {
                "mel_rms": 0.0003,
                "mel_max": 0.0015,
                "wave_db": 0.34,
                "mel_db": 0.05,
                "chain_db": 1.2,
                "nudge_db": 0.8,
            },
        },
        "int8 products": {"trained": {"mel_rms": 0.016, "mel_max": 0.08, "mel_db": 0.24}},
    },
    "products": [{"rows": 100, "layer": "qkv", "error": 0.036, "float16": 5.5, "float8": 4.0, "floor": [0.8, 0.4]}],
}


@pytest.mark.slow
def test_it_runs_and_errors_stay_within_their_bounds(tmp_path: Path) -> None:
    out = tmp_path / "new" / "precision.json"
    chosen = ("--tiny", "--precision", "float16,float8", "--only", "memory,logits,errors,speed,products")
    command = [sys.executable, "-m", "bench.gpu.precision", *chosen, "--json", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result == json.loads(out.read_text())
    assert (result["model"], result["failed"]) == ("tiny", [])
    found = result["precisions"]["float16"]
    assert found["weights_mb"].keys() == found["ms"].keys() == {"lm", "flow", "vocoder"}
    # Three steps, two layers, keys and values of two rows, 50 frames of 64 channels, two bytes.
    assert found["context_mb"]["flow"] == pytest.approx(3 * 2 * 2 * 2 * 50 * 64 * 2 / 1e6)
    errors = {**found["errors"], "logits": found["logits"]}
    assert all(0 < errors[key] <= bound for key, bound in precision.BOUNDS["float16"].items())
    eight = result["precisions"]["float8"]
    assert eight["context_mb"]["flow"] == pytest.approx(found["context_mb"]["flow"] / 2)
    assert eight["ms"].keys() == {"flow"} and "logits" not in eight
    assert found["errors"]["mel_rms"] < eight["errors"]["mel_rms"] <= precision.BOUNDS["float8"]["mel_rms"]
    assert {line["layer"] for line in result["products"]} == {"qkv", "out", "up", "down"}


@pytest.mark.parametrize("wrong", [("--only", "sound"), ("--precision", "float4"), ("--report", "--out", "/nowhere")])
def test_what_does_not_exist_is_refused(wrong: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["precision", *wrong])
    with pytest.raises(SystemExit) as refused:
        precision.main()
    assert refused.value.code == 2


def test_runs_add_up(tmp_path: Path) -> None:
    out = tmp_path / "precision.json"
    first = {**RESULT, "products": [], "failed": ["a"], "precisions": {"float16": {"ms": 1, "errors": 2}}}
    out.write_text(json.dumps(first))
    second = {**RESULT, "failed": [], "commit": "later", "precisions": {"float16": {"ms": 3}, "int8": {"trained": 4}}}
    both = precision.added(out, second)
    assert both["precisions"] == {"float16": {"ms": 3, "errors": 2}, "int8": {"trained": 4}}
    assert (both["commit"], both["failed"], both["products"]) == ("later", ["a"], RESULT["products"])
    there = precision.added(out, {**second, "device": "CPU"})
    assert (there["commit"], there["device"]) == ("abc", "a card")


def test_an_error_beyond_its_bound_fails() -> None:
    class Off:
        def errors(self, kind: precision.Kind) -> dict[str, float]:
            names = ("mel_rms", "mel_max", "wave_db", "mel_db", "chain_db", "nudge_db")
            return dict.fromkeys(names, 0.0) | {"mel_rms": 1.0, "wave_db": float("nan")}

    bench = precision.Bench(torch.device("cpu"), tiny=True)
    bench._judge("float16", "errors", Off())  # type: ignore[arg-type]
    assert bench.failures == ["errors float16 mel_rms", "errors float16 wave_db"]


def test_the_page_is_rewritten_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{precision.BEGIN}\nstale\n{precision.END}\nafter\n")
    precision.report(RESULT, page)
    text = page.read_text()
    assert text.startswith(f"before\n{precision.BEGIN}\n") and text.endswith(f"{precision.END}\nafter\n")
    assert "stale" not in text
    assert (
        "| float16 | 0.9 / 1 / 1.1 | 8.1 / 13.4 / 40 | 0.7 / 1.8 / 6 | 1,000 | 600 | 40 | 90.4 | 0.002 (0.01) |" in text
    )
    assert "| float16, random | 0.0003 (0.002) |" in text
    assert "| int8 products, embedded voice | 0.016 | 0.08 | - | 0.24 | - | - |" in text
    assert "| 100 | qkv | 5.5 | 4 | - | - | - | 0.8 / 0.4 | 3.6% |" in text
    page.write_text("no marks")
    with pytest.raises(ValueError, match="lacks"):
        precision.report(RESULT, page)
    assert page.read_text() == "no marks"


@pytest.mark.parametrize(("kind", "least", "most"), [("float8", 0.02, 0.035), ("int8", 0.003, 0.012)])
def test_rounding_to_eight_bits_is_as_fine_as_its_steps(kind: str, least: float, most: float) -> None:
    x = torch.randn(64, 1024, generator=torch.Generator().manual_seed(1)) * torch.logspace(-6, 3, 64)[:, None]
    x[5] = 0
    whole, scale = eight.rounded(x, kind, 1)
    assert whole.dtype.itemsize == 1 and scale.shape == (64, 1)
    error = (whole.float() * scale - x).square().mean(1).sqrt()
    shares = error / x.square().mean(1).sqrt()
    assert error[5] == 0
    assert least < shares[[row for row in range(64) if row != 5]].max() < most
    # The largest of a row is kept.
    assert torch.allclose((whole.float() * scale).abs().amax(1), x.abs().amax(1), rtol=1e-5)


def test_a_flow_with_rounded_layers_differs_by_as_much_as_its_type() -> None:
    torch.manual_seed(1)
    dit = DiTConfig(dim=64, depth=2, heads=2, dim_head=32, conv_pos_groups=4)
    flow = Flow(FlowConfig(dit=dit)).eval()
    given = torch.randn(4, 1, 80, 60).unbind(), torch.tensor([0.3]), torch.randn(1, 80)
    (x, _, mu, cond), t, speaker = given

    def velocity(network: Flow) -> torch.Tensor:
        with torch.no_grad():
            return network.estimator(x, None, mu, t, speaker, cond)

    wanted = velocity(flow)
    errors = {
        kind: float((velocity(eight.with_rounded(flow, kind)) - wanted).square().mean().sqrt())
        for kind in ("float16", "bfloat16", "int8", "float8")
    }
    assert 0 < 4 * errors["float16"] < errors["bfloat16"] < errors["int8"] < errors["float8"] < float(wanted.std())
    assert torch.equal(velocity(flow), wanted)
