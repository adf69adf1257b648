"""Build the model directory that ships: python -m training.export CORPUS WORK [OUT].

CORPUS holds the manifest and its shards, WORK what training.run made (its `export` folder and the vocoder's). OUT, by
default the package's own folder, receives everything that a released CosyVoice3 directory has: configuration,
tokenizer, language model and flow in int8, vocoder in fp16, both encoders as ONNX, and the voices.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

from oscine_engine.checkpoint import layout
from oscine_engine.checkpoint.configuration import write_config
from oscine_engine.checkpoint.load import load
from oscine_engine.checkpoint.voices import write_voices
from oscine_engine.checkpoint.weights import Policy, save_quantised
from oscine_engine.config import ModelConfig, SamplingConfig, TextRules
from oscine_engine.flow.network import Flow
from oscine_engine.lm.network import SpeechLM
from oscine_engine.text.marks import VOICE_TAGS, added_tokens
from oscine_engine.text.tokenizer import character_backend
from oscine_engine.vocoder.network import HiFT
from oscine_engine.voices.encoders import Encoders
from training import onnx_export, prompts, sizes
from training.hift.train import vocoder_config
from training.text.build_tokenizer import entries

TEXT = TextRules(mix_ratio=(12, 15), min_token_text_ratio=1.0, max_token_text_ratio=8.0, front_end="phones")
"""From the corpus' statistics, see training/text/README.md."""
SAMPLING = SamplingConfig(top_p=0.5, top_k=25, win_size=10, tau_r=0.9)
"""Narrower than the released 0.8: a small model's tail is mostly wrong. Steady sounds repeat ids of so small a
codebook, so only a run that stands still is redrawn."""
LARGEST = 23_000_000


def configuration(width: int) -> ModelConfig:
    """Sizes and rules of the embedded voice; `width` is the vocoder's."""
    return ModelConfig(lm=sizes.LM, flow=sizes.FLOW, vocoder=vocoder_config(width), sampling=SAMPLING, text=TEXT)


def write_weights(module: nn.Module, source: Path, target: Path, policy: Policy) -> None:
    """Check that `source` fits `module` exactly, then store it compactly."""
    module.load_state_dict({name: value.float() for name, value in load_file(source).items()})
    save_quantised(module.state_dict(), target, policy)


def vocoder_file(work: Path) -> Path:
    """The tuned vocoder if there is one."""
    for stage in ("hift_tuned", "hift"):
        if (path := work / stage / "hift.safetensors").exists():
            return path
    raise FileNotFoundError(f"neither hift_tuned nor hift of {work} holds hift.safetensors: run training.run first")


def build(corpus: Path, work: Path, out: Path, vocoder: Path, width: int) -> None:
    """Fill `out`."""
    out.mkdir(parents=True, exist_ok=True)
    config = configuration(width)
    write_config(config, out)
    backend = character_backend(entries(), [*added_tokens(), *VOICE_TAGS])
    backend.save(str(out / layout.TEXT_MODEL / "tokenizer.json"), pretty=False)
    weights = work / "export"
    write_weights(SpeechLM(config.lm), weights / "llm.safetensors", out / "llm.safetensors", "int8")
    write_weights(Flow(config.flow), weights / "flow.safetensors", out / "flow.safetensors", "int8")
    write_weights(HiFT(config.vocoder), vocoder, out / "hift.safetensors", "fp16")
    onnx_export.export(weights, out)
    write_voices(prompts.make(corpus, Encoders(*layout.find(out).encoders())), out / layout.VOICES)


def size_table(out: Path) -> int:
    """Print every file's size; returns the sum in bytes."""
    files = sorted(path for path in out.rglob("*") if path.is_file())
    for path in files:
        print(f"{path.stat().st_size:>12,} {path.relative_to(out)}")
    total = sum(path.stat().st_size for path in files)
    print(f"{total:>12,} in all")
    return total


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path, nargs="?", default=layout.FLEDGLING)
    parser.add_argument("--vocoder", type=Path, help="hift.safetensors to take; else WORK's tuned one, else its first")
    parser.add_argument("--width", type=int, default=128, help="the vocoder's base channels")
    a = parser.parse_args()
    torch.set_num_threads(1)
    vocoder = a.vocoder or vocoder_file(a.work)
    print(f"vocoder: {vocoder}")
    build(a.corpus, a.work, a.out, vocoder, a.width)
    total = size_table(a.out)
    for name, voice in load(a.out).voices.items():
        print(f"{name}: {len(voice.flow_speech_tokens)} tokens, {voice.transcript}")
    if total > LARGEST:
        raise SystemExit(f"{total:,} bytes are more than the {LARGEST:,} that may ship")


if __name__ == "__main__":
    main()
