"""`python -m oscine_service.unit`: the engine process of a unit. The service starts it; nobody else needs to."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from oscine_service.unit import child

if TYPE_CHECKING:
    from oscine_engine.runtime.device import Device


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m oscine_service.unit")
    child.add_arguments(parser)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--voices", type=Path)
    parser.add_argument("--references", action="store_true")
    parser.add_argument("--lm-file", choices=["llm", "llm.rl"], default="llm")
    parser.add_argument("--vllm", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=["float32", "float16", "bfloat16"], default="float32")
    parser.add_argument("--side-by-side", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--max-waiting", type=float, default=10.0)
    parser.add_argument("--utilisation", type=float, required=True)
    parser.add_argument("--voice-bytes", type=int, default=1 << 30)
    options = parser.parse_args()
    return child.run(options, lambda: _load(options))


def _load(options: argparse.Namespace) -> "Device":
    from oscine_engine.runtime.device import Device, DeviceLimits

    limits = DeviceLimits(
        options.max_streams,
        options.max_waiting,
        options.utilisation,
        options.voice_bytes,
        side_by_side=options.side_by_side,
    )
    return Device.load(
        options.model,
        limits,
        voices=options.voices,
        references=options.references,
        lm_file=options.lm_file,
        vllm=options.vllm,
        device=child.pinned(options.device),
        precision=options.precision,
        threads=options.threads,
    )


if __name__ == "__main__":
    sys.exit(main())
