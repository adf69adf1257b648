"""`oscine convert`: a released model as safetensors, or its language model as vLLM serves it."""

import argparse
import asyncio
from pathlib import Path

from oscine_engine.errors import InvalidInput

PRECISIONS = {
    "safetensors": {"float32": "fp32", "float16": "fp16", "int8": "int8"},
    "vllm": {"float16": "float16", "bfloat16": "bfloat16", "float32": "float32"},
}
"""What each target can be written in, as its writer calls it; the first is the default."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="model directory, as released")
    parser.add_argument("output", type=Path, metavar="OUT", help="new directory to write")
    parser.add_argument(
        "--to",
        choices=list(PRECISIONS),
        default="safetensors",
        help="the whole model, quicker to load; or its language model for vLLM (default %(default)s)",
    )
    parser.add_argument(
        "--precision",
        choices=["float32", "float16", "bfloat16", "int8"],
        help="of the weights (default: float32 for safetensors, float16 for vLLM)",
    )
    parser.add_argument(
        "--lm-file", choices=["llm", "llm.rl"], default="llm", help="which language model to convert for vLLM"
    )
    parser.add_argument("--draft", type=Path, metavar="DIR", help="a draft of the language model, for vLLM to guess by")


async def convert(options: argparse.Namespace) -> None:
    """Convert and say what was written. Raises CheckpointError for a model that does not fit, InvalidInput for options
    that do not go together."""
    known = PRECISIONS[options.to]
    name = options.precision or next(iter(known))
    if name not in known:
        raise InvalidInput(f"--precision {name} is not for --to {options.to}; use {', '.join(known)}")
    if options.draft is not None and options.to != "vllm":
        raise InvalidInput("--draft is converted for vLLM only: add --to vllm, or leave it out")
    await asyncio.to_thread(_vllm if options.to == "vllm" else _safetensors, options, known[name])
    print(f"wrote {options.output}")


def _safetensors(options: argparse.Namespace, policy: str) -> None:
    from oscine_engine.checkpoint.convert import convert

    convert(options.model, options.output, policy)  # type: ignore[arg-type]


def _vllm(options: argparse.Namespace, precision: str) -> None:
    from oscine_engine.checkpoint import draft, layout, merged
    from oscine_engine.checkpoint.configuration import read_config
    from oscine_engine.checkpoint.load import load_lm

    files = layout.find(options.model, options.lm_file)
    lm = load_lm(files, read_config(files).lm)
    # Before anything is written: a draft that does not fit is an error in the command.
    network = None if options.draft is None else draft.load(options.draft)
    merged.write(lm, options.output, precision)  # type: ignore[arg-type]
    if network is not None:
        merged.write_draft(network, lm, options.output / merged.DRAFT, precision)  # type: ignore[arg-type]
