"""Our attention over pages beside FlashInfer's: python -m bench.gpu.attention [--precision float16] [--json]

Shapes of the released sizes, random numbers, several layers in turn so that none finds its keys in the cache, launched
through CUDA graphs. Both read the same keys and values; ours from the pages where the engine keeps them, FlashInfer's
from a copy in its own layout, after a plan for exactly these lengths that is not part of the time (`plan_ms` tells what
it takes; the engine could not afford it in a tick). It also checks that both say the same.

* flow: so many streams, both guidance rows, a chunk of 50 frames over so many seconds of context and itself;
* LM: so many streams of 1 row, or of 8 with drafts, over so many positions.

`tb_s` is what is read of keys and values, in 10^12 bytes a second.
"""

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bench.gpu.flow import _batch
from bench.gpu.timing import elapsed_us
from oscine_engine.checkpoint import synthetic
from oscine_engine.flow.streams import GUIDANCE_ROWS
from oscine_engine.runtime.kernels import flow as flow_kernels
from oscine_engine.runtime.kernels import lm as lm_kernels

DIFFERENCE = 4e-3
"""Largest difference of two half-precision attentions over normal values that passes."""
SHARES = (1, 2, 4, 8)
FLOW_CASES = tuple((streams, second) for streams in (1, 8, 32) for second in (5, 30))
LM_CASES = tuple((streams, rows, 256) for rows in (1, 8) for streams in (1, 8, 32, 64))
LAYERS = 8
PAGE_TOKENS = 256
WORKSPACE = 256 << 20
CUDA = torch.device("cuda")


def planned(
    lengths: int, count: int, rows: int, heads: tuple[int, int, int], page: int, causal: bool, **kinds: Any
) -> Any:
    """FlashInfer's wrapper, planned for `count` sequences of `rows` queries over `lengths` keys on pages in order."""
    import flashinfer

    pages = -(-lengths // page)
    whole = {"dtype": torch.int32, "device": "cuda"}
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(torch.zeros(WORKSPACE, dtype=torch.uint8, device="cuda"))
    wrapper.plan(
        torch.arange(count + 1, **whole) * rows,
        torch.arange(count + 1, **whole) * pages,
        torch.arange(count * pages, **whole),
        torch.full((count,), lengths - (pages - 1) * page, **whole),
        *heads,
        page,
        causal=causal,
        **kinds,
    )
    return wrapper


def compared(
    ours: dict[int, Callable[[], Tensor]], query: Tensor, held: Tensor, plan: Callable[[], Any], bytes_read: int
) -> dict[str, Any]:
    """Ours beside FlashInfer's; all work on LAYERS layers and return what the last one said.

    ours: by shares of the keys. query [rows, heads, D] and held [LAYERS, 2 (key, value), pages, tokens, heads, D] are
    FlashInfer's, to be run by what `plan` makes.
    """
    wrapper = plan()

    def theirs() -> Tensor:
        for keys, values in held:
            out = wrapper.run(query, (keys, values))
        return out.flatten(1)

    error = max(float((work() - theirs()).abs().max()) for work in ours.values())
    took = {shares: elapsed_us(work, CUDA, times=10) / LAYERS for shares, work in ours.items()}
    flashinfer_us = elapsed_us(theirs, CUDA, times=10) / LAYERS
    torch.cuda.synchronize()
    start = time.perf_counter()
    plan()
    torch.cuda.synchronize()
    plan_ms = 1e3 * (time.perf_counter() - start)
    best = min(took, key=took.__getitem__)
    return {
        "us": round(took[best], 1),
        "shares": best,
        "tb_s": round(bytes_read / took[best] / 1e6, 2),
        "flashinfer_us": round(flashinfer_us, 1),
        "flashinfer_tb_s": round(bytes_read / flashinfer_us / 1e6, 2),
        "plan_ms": round(plan_ms, 2),
        "difference": error,
        "good": error <= DIFFERENCE,
    }


def flow(streams: int, second: int, dtype: torch.dtype) -> dict[str, Any]:
    dit = synthetic.FULL.flow.dit
    chunk, inner, pages = dit.static_chunk_size, dit.heads * dit.dim_head, second + 1
    pool = torch.randn(streams * pages, 3, LAYERS, 2, GUIDANCE_ROWS, chunk, inner, dtype=dtype, device="cuda")
    qkv = torch.randn(streams * GUIDANCE_ROWS * chunk, 3 * inner, dtype=dtype, device="cuda")
    still = torch.ones(4000, dit.dim_head // 2, device="cuda"), torch.zeros(4000, dit.dim_head // 2, device="cuda")
    batch = _batch(streams, pages, second * chunk, chunk, CUDA)

    def ours(shares: int) -> Tensor:
        for layer in range(LAYERS):
            out = flow_kernels.attend(qkv, *still, pool, layer, dit.heads, batch, shares)
        return out

    ours(1)  # which writes the chunk's own keys and values
    # Each guidance row is a sequence of FlashInfer's, on pages in order.
    held = torch.stack(
        [pool[batch.pages[stream].long(), batch.steps[stream]] for stream in range(streams)]
    )  # [B, pages, layers, 2, rows, C, inner]
    held = held.permute(2, 3, 0, 4, 1, 5, 6).reshape(LAYERS, 2, -1, chunk, dit.heads, dit.dim_head).contiguous()
    query = qkv[:, :inner].reshape(-1, dit.heads, dit.dim_head).contiguous()
    plan = partial(
        planned,
        (second + 1) * chunk,
        streams * GUIDANCE_ROWS,
        chunk,
        (dit.heads, dit.heads, dit.dim_head),
        chunk,
        False,
        q_data_type=dtype,
        kv_data_type=dtype,
    )
    read = held[0].numel() * held.element_size()
    return compared({shares: partial(ours, shares) for shares in SHARES}, query, held, plan, read)


def lm(streams: int, rows: int, before: int, dtype: torch.dtype) -> dict[str, Any]:
    config = synthetic.FULL.lm
    heads, kv_heads, width = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    pages = -(-(before + rows) // PAGE_TOKENS)
    caches = torch.randn(LAYERS, streams * pages, 2, kv_heads, PAGE_TOKENS, width, dtype=dtype, device="cuda")
    qkv = torch.randn(streams * rows, (heads + 2 * kv_heads) * width, dtype=dtype, device="cuda")
    cos, sin = torch.ones(2048, width // 2, device="cuda"), torch.zeros(2048, width // 2, device="cuda")
    numbers = torch.arange(streams, dtype=torch.int32, device="cuda")
    tables = torch.arange(streams * pages, dtype=torch.int32, device="cuda").view(streams, pages)
    where = (before + torch.arange(rows, device="cuda")).repeat(streams)

    def ours(shares: int) -> Tensor:
        tiles = lm_kernels.Tiles(
            numbers * rows,
            torch.full_like(numbers, rows),
            torch.full_like(numbers, before),
            numbers,
            tables,
            most=rows,
            splits=shares,
        )
        for cache in caches:
            out = lm_kernels.attend(qkv, where, cos, sin, cache, heads, tiles)
        return out

    held = caches.permute(0, 2, 1, 4, 3, 5).contiguous()  # [layers, 2, pages, tokens, heads, D]
    query = qkv.view(len(qkv), -1, width)[:, :heads].contiguous()
    plan = partial(
        planned,
        before + rows,
        streams,
        rows,
        (heads, kv_heads, width),
        PAGE_TOKENS,
        True,
        q_data_type=dtype,
        kv_data_type=dtype,
    )
    read = 2 * streams * (before + rows) * kv_heads * width * held.element_size()
    return compared({shares: partial(ours, shares) for shares in SHARES}, query, held, plan, read)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.attention", description=__doc__.splitlines()[0])
    parser.add_argument("--precision", default="float16", choices=["float16", "bfloat16"])
    parser.add_argument("--json", action="store_true", help="print one object")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("this needs a GPU, and flashinfer-python", file=sys.stderr)
        return 1
    dtype = getattr(torch, options.precision)
    cases: list[tuple[dict[str, Any], Callable[[], dict[str, Any]]]] = [
        ({"stage": "flow", "streams": count, "seconds": second}, partial(flow, count, second, dtype))
        for count, second in FLOW_CASES
    ]
    cases += [
        ({"stage": "lm", "streams": count, "rows": rows, "before": before}, partial(lm, count, rows, before, dtype))
        for count, rows, before in LM_CASES
    ]
    lines, failed = [], False
    for name, measure in cases:
        try:
            line = name | measure()
        except Exception:
            traceback.print_exc(file=sys.stdout)
            failed = True
            continue
        failed |= not line["good"]
        lines.append(line)
        if not options.json:
            print(" ".join(f"{key} {value}" for key, value in line.items()), flush=True)
    if options.json:
        print(json.dumps({"device": torch.cuda.get_device_name(), "precision": options.precision, "rows": lines}))
    print("FAILED" if failed else "OK", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
