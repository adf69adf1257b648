"""From a released model directory to one of safetensors, optionally in the compact form."""

import shutil
from pathlib import Path

from oscine_engine.checkpoint import layout, weights
from oscine_engine.errors import CheckpointError


def convert(source: str | Path, target: str | Path, policy: weights.Policy = "fp32") -> list[Path]:
    """Write `source`'s weights as safetensors to `target`, with everything else the loader needs beside them.

    policy: "fp32" keeps the values, "fp16" halves them, "int8" packs llm and flow by rows and halves hift (see
    weights). `llm.rl` comes along if present. `target` must not exist or be empty. Returns the files written. Raises
    CheckpointError.
    """
    files, root = layout.find(source), Path(target)
    if root.exists() and any(root.iterdir()):
        raise CheckpointError(f"{root} is not empty; give a new directory for the converted model")
    root.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(files.config, root / layout.CONFIG)
    shutil.copytree(files.text_model, root / layout.TEXT_MODEL, ignore=shutil.ignore_patterns("*.safetensors", "*.bin"))
    for extra in (files.speaker_encoder, files.speech_tokenizer, files.voices):
        if extra is not None:
            shutil.copyfile(extra, root / extra.name)
    languages = [files.lm]
    if any((files.directory / f"llm.rl{ending}").is_file() for ending in (".safetensors", ".pt")):
        languages.append(layout.find(source, "llm.rl").lm)
    for path in (*languages, files.flow):
        weights.save_quantised(weights.read(path), root / f"{path.stem}.safetensors", policy)
    vocoder = weights.vocoder_keys(weights.read(files.vocoder))
    weights.save_quantised(vocoder, root / "hift.safetensors", "fp16" if policy == "int8" else policy)
    return sorted(path for path in root.rglob("*") if path.is_file())
