"""Would 8-bit products pay in the flow? Times them on a GPU, and shows what they do to a mel on a CPU.

The four linear layers of a block, by rows: in float16 as the flow computes them, and in float8 (e4m3), whose weights
have a scale an output and whose inputs a scale a row, found when they are rounded. What comes with float8 is timed too:
norms that round what they give, and the rounding of what attention and GELU give, which nothing else could do on its
way. With one scale for a whole tensor the same products are a little faster, if the scale is known beforehand.

Keys of a line: `rows`; `layer`, or `norm`, `gelu` and `round` for what is between; us in `float16` and in `float8`, in
`exact` (each product added up in float32), in `tensor` (one scale for all) and in `int8` (without any scale, to int32),
where there is such a thing; `floor`, us at 790 and 1,580 TFLOP/s; `error`, root mean square of the float8 product's
error in shares of the product, by hand, and `computed`, by the GPU.
"""

import copy
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench.gpu.timing import launch_us
from oscine_engine.config import DiTConfig
from oscine_engine.flow.dit import Block
from oscine_engine.flow.network import Flow
from oscine_engine.runtime.graphs import Graphs
from oscine_engine.runtime.kernels import flow as kernels

ROWS = (100, 800, 3200)
LAYERS = 12
"""Weights taken in turn, so that they come from memory as in the model."""
TFLOPS = {"float16": 790.0, "float8": 1580.0}
"""Of dense products: measured on an H200 with 16 bits, and twice that."""
LARGEST = {"float8": 448.0, "int8": 127.0}


def shapes(dit: DiTConfig) -> dict[str, tuple[int, int]]:
    """Outputs and inputs of a block's linear layers."""
    inner, wide = dit.heads * dit.dim_head, dit.ff_mult * dit.dim
    return {"qkv": (3 * inner, dit.dim), "out": (dit.dim, inner), "up": (wide, dit.dim), "down": (dit.dim, wide)}


def measured(dit: DiTConfig, device: torch.device, tiny: bool) -> list[dict[str, Any]]:
    """A line for each layer and number of rows, printed as they are found. Times only on a GPU."""
    lines: list[dict[str, Any]] = []
    for rows in (32,) if tiny else ROWS:
        found = [_product(name, rows, *shape, device) for name, shape in shapes(dit).items()]
        if device.type == "cuda":
            found += _between(rows, dit, device)
        for line in found:
            print("  " + ", ".join(f"{key} {value}" for key, value in line.items()), flush=True)
        lines += found
        if device.type == "cuda":
            print(f"  {rows} rows: {_summed(found, dit.depth)}")
    return lines


def _product(name: str, rows: int, outputs: int, inputs: int, device: torch.device) -> dict[str, Any]:
    random = torch.Generator(device=device).manual_seed(rows)
    x = torch.randn(rows, inputs, generator=random, device=device)
    weights = [torch.randn(outputs, inputs, generator=random, device=device) * inputs**-0.5 for _ in range(LAYERS)]
    wanted = F.linear(x, weights[0])
    eight, scale = rounded(x, "float8", 1)
    held = [rounded(weight, "float8", 1) for weight in weights]
    approximate = (eight.float() @ held[0][0].float().t()) * scale * held[0][1].t()
    line: dict[str, Any] = {"rows": rows, "layer": name, "error": _figure(_error(approximate, wanted))}
    if device.type != "cuda":
        return line
    work = 2.0 * rows * outputs * inputs
    line["floor"] = [_figure(work / rate / 1e6) for rate in TFLOPS.values()]
    half, halves, bias = x.half(), [weight.half() for weight in weights], torch.randn(outputs, device=device).half()
    if name == "up":
        sixteen = [partial(kernels.linear_gelu, half, weight, bias) for weight in halves]
    elif name == "qkv":
        sixteen = [partial(kernels.linear, half, weight, bias) for weight in halves]
    else:
        sixteen = [partial(kernels.product, half, weight) for weight in halves]
    line["float16"] = _us(sixteen)
    one = torch.ones((), device=device)
    for key, fast in (("float8", True), ("exact", False)):
        line[key] = _us([partial(_scaled, eight, weight, scale, other, fast) for weight, other in held])
    line["tensor"] = _us([partial(_scaled, eight, weight, one, one, True) for weight, _ in held])
    if rows > 16:
        whole = rounded(x, "int8", 1)[0]
        line["int8"] = _us([partial(torch._int_mm, whole, rounded(weight, "int8", 1)[0].t()) for weight in weights])
    line["computed"] = _figure(_error(_scaled(eight, held[0][0], scale, held[0][1], True).float(), wanted))
    return line


def _scaled(x: Tensor, weight: Tensor, scale: Tensor, other: Tensor, fast: bool) -> Tensor:
    """bfloat16, which is what torch gives when every row has a scale."""
    return torch._scaled_mm(
        x, weight.t(), scale_a=scale, scale_b=other.t() if other.dim() else other, out_dtype=torch.bfloat16,
        use_fast_accum=fast,
    )  # fmt: skip


def _between(rows: int, dit: DiTConfig, device: torch.device) -> list[dict[str, Any]]:
    from bench.gpu import eight_triton

    wide = dit.ff_mult * dit.dim
    # Several, so that they come from memory as in the model.
    xs = [torch.randn(rows, dit.dim, device=device) for _ in range(4)]
    parts = torch.randn(rows, dit.dim, device=device).half()
    vectors = [torch.randn(dit.dim, device=device).half() for _ in range(4)]
    took = {eight: _us([partial(eight_triton.norm, x, parts, vectors, eight) for x in xs]) for eight in (False, True)}
    up, seen = (torch.randn(rows, width, device=device).half() for width in (wide, dit.dim))
    gelu, plain = (_us([partial(eight_triton.rounded, x, gelu=x is up)]) for x in (up, seen))
    return [
        {"rows": rows, "layer": "norm", "float16": took[False], "float8": took[True]},
        {"rows": rows, "layer": "gelu", "float16": 0.0, "float8": gelu},
        {"rows": rows, "layer": "round", "float16": 0.0, "float8": plain},
    ]


def _summed(lines: list[dict[str, Any]], depth: int) -> str:
    """ms of a step in these, both ways: norms come twice a block."""
    took = {
        key: depth * sum(line[key] * (2 if line["layer"] == "norm" else 1) for line in lines) / 1e3
        for key in ("float16", "float8")
    }
    return f"{took['float16']:.2f} ms a step in float16, {took['float8']:.2f} in float8"


def _us(calls: list[Callable[[], object]], repeats: int = 10) -> float:
    """us of one of the calls, launched through a graph of them all; the median of five."""

    def all_of_them() -> None:
        for call in calls:
            call()

    device = torch.device("cuda")
    launch = Graphs(device).capture(all_of_them)
    return _figure(statistics.median(launch_us(launch, device, repeats) for _ in range(5)) / len(calls))


def rounded(x: Tensor, kind: str, dim: int) -> tuple[Tensor, Tensor]:
    """x in 8 bits, `float8` (e4m3) or `int8`, and the scales along `dim` that it is to be multiplied by."""
    scale = x.abs().amax(dim, keepdim=True).clamp_min(1e-12).float() / LARGEST[kind]
    shares = x / scale
    return (shares.to(torch.float8_e4m3fn) if kind == "float8" else shares.round().to(torch.int8)), scale


class Rounded(nn.Module):
    """A linear layer whose weights and inputs are rounded, to 8 bits or to a type of 16."""

    def __init__(self, layer: nn.Linear, kind: str) -> None:
        super().__init__()
        self._kind, self._bias = kind, layer.bias
        self._weight = self._round(layer.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self._round(x), self._weight, self._bias)

    def _round(self, x: Tensor) -> Tensor:
        if self._kind not in LARGEST:
            return x.to(getattr(torch, self._kind)).float()
        whole, scale = rounded(x, self._kind, -1)
        return whole.float() * scale


def with_rounded(flow: Flow, kind: str) -> Flow:
    """A copy of `flow` whose blocks' linear layers are `Rounded`."""
    flow = copy.deepcopy(flow)
    for block in flow.estimator.transformer_blocks:
        assert isinstance(block, Block)
        for name in "qkv":
            setattr(block.attn, f"to_{name}", Rounded(getattr(block.attn, f"to_{name}"), kind))
        for layers, place in ((block.attn.to_out, 0), (block.ff.ff[0], 0), (block.ff.ff, 2)):
            layers[place] = Rounded(layers[place], kind)  # type: ignore[index, operator, arg-type]
    return flow


COLUMNS = {
    "float16": "float16",
    "float8": "float8",
    "exact": "added up in float32",
    "tensor": "one scale for all",
    "int8": "int8, no scale",
}


def markdown(lines: list[dict[str, Any]]) -> str:
    """A table of the lines."""
    header = ["rows", "us", *COLUMNS.values(), "floor: 16, 8 bits", "error of float8"]
    table = [header, ["---"] * len(header)]
    for line in lines:
        floor = " / ".join(f"{value:.3g}" for value in line["floor"]) if "floor" in line else "-"
        times = (f"{line[key]:.3g}" if key in line else "-" for key in COLUMNS)
        error = f"{line['error']:.1%}" if "error" in line else "-"
        table.append([str(line["rows"]), line["layer"], *times, floor, error])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in table)


def _figure(value: float) -> float:
    return float(f"{value:.3g}")


def _error(ours: Tensor, wanted: Tensor) -> float:
    return float((ours - wanted).square().mean().sqrt() / wanted.square().mean().sqrt())
