"""Where things are in a model directory (the layout CosyVoice3 is released in)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from oscine_engine.errors import CheckpointError

LMFile = Literal["llm", "llm.rl"]

CONFIG = "cosyvoice3.yaml"
TEXT_MODEL = "CosyVoice-BlankEN"
SPEAKER_ENCODER = "campplus.onnx"
SPEECH_TOKENIZER = "speech_tokenizer_v3.onnx"
VOICES = "spk2info.pt"

FLEDGLING = Path(__file__).parent / "fledgling"
"""The embedded voice: package data, used when no model directory is given."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of one model directory. All exist, except those that may be None: the encoders are needed only to
    register new voices, and a model without `voices` starts with none."""

    directory: Path
    config: Path
    lm: Path
    flow: Path
    vocoder: Path
    text_model: Path
    speaker_encoder: Path | None
    speech_tokenizer: Path | None
    voices: Path | None

    def encoders(self) -> tuple[Path, Path]:
        """Speaker encoder and speech tokenizer. Raises CheckpointError if the directory lacks either."""
        if self.speaker_encoder is None or self.speech_tokenizer is None:
            absent = SPEAKER_ENCODER if self.speaker_encoder is None else SPEECH_TOKENIZER
            raise CheckpointError(
                f"{absent} is not in {self.directory}: new voices cannot be registered; copy it there from the release"
            )
        return self.speaker_encoder, self.speech_tokenizer


def find(directory: str | Path | None = None, lm_file: LMFile = "llm") -> ModelFiles:
    """Look up everything in `directory` (None: the embedded voice); `X.safetensors` comes before `X.pt`.

    `lm_file`: "llm", or "llm.rl" for the variant tuned by reinforcement learning. Raises CheckpointError naming the
    first file that is missing.
    """
    if lm_file not in ("llm", "llm.rl"):
        raise CheckpointError(f'lm_file is {lm_file!r}; it must be "llm" or "llm.rl"')
    root = FLEDGLING if directory is None else Path(directory)
    if not root.is_dir():
        hint = "reinstall the package" if directory is None else "give the path of a CosyVoice3 model directory"
        raise CheckpointError(f"there is no model directory {root}: {hint}")
    return ModelFiles(
        directory=root,
        config=_file(root, CONFIG),
        lm=_weights(root, lm_file),
        flow=_weights(root, "flow"),
        vocoder=_weights(root, "hift"),
        text_model=_text_model(root),
        speaker_encoder=_optional(root / SPEAKER_ENCODER),
        speech_tokenizer=_optional(root / SPEECH_TOKENIZER),
        voices=_optional(root / VOICES),
    )


def _optional(path: Path) -> Path | None:
    return path if path.is_file() else None


def _file(root: Path, name: str) -> Path:
    path = root / name
    if not path.is_file():
        raise CheckpointError(f"{name} is not in {root}: is this a CosyVoice3 model directory, fully downloaded?")
    return path


def _weights(root: Path, stem: str) -> Path:
    for path in (root / f"{stem}.safetensors", root / f"{stem}.pt"):
        if path.is_file():
            return path
    advice = 'set lm_file to "llm"' if stem == "llm.rl" else "copy it from the release"
    raise CheckpointError(f"neither {stem}.safetensors nor {stem}.pt is in {root}: {advice}")


def _text_model(root: Path) -> Path:
    path = root / TEXT_MODEL
    if not (path / "config.json").is_file():
        raise CheckpointError(
            f"{TEXT_MODEL}/config.json is not in {root}: it holds the language model's sizes and its tokenizer; "
            "copy the folder from the release"
        )
    return path
