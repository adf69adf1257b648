"""From a model directory to networks ready to run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from oscine_engine.checkpoint import configuration, layout, weights
from oscine_engine.checkpoint.noise import FixedNoise, default_noise
from oscine_engine.checkpoint.voices import read_voices
from oscine_engine.config import LMConfig, ModelConfig
from oscine_engine.errors import CheckpointError, InvalidInput
from oscine_engine.flow.network import Flow
from oscine_engine.lm.network import SpeechLM
from oscine_engine.text.tokenizer import Tokenizer
from oscine_engine.vocoder.network import HiFT
from oscine_engine.voices.prompt import VoicePrompt


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A loaded model: networks in evaluation mode, without gradients, on one device; voices and noise on the CPU."""

    config: ModelConfig
    lm: SpeechLM
    flow: Flow
    vocoder: HiFT
    tokenizer: Tokenizer
    voices: Mapping[str, VoicePrompt]
    noise: FixedNoise
    files: layout.ModelFiles

    @property
    def directory(self) -> Path:
        return self.files.directory


def load(
    directory: str | Path | None = None,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    lm_file: layout.LMFile = "llm",
) -> Checkpoint:
    """Load a CosyVoice3 model directory, or the embedded voice if none is given.

    `dtype` is that of the language model and the flow; the vocoder stays float32, since errors in its phase add up.
    Raises CheckpointError for anything missing, damaged or of another shape, InvalidInput for a GPU that is not there.
    """
    if torch.device(device).type == "cuda" and torch.cuda.device_count() <= (torch.device(device).index or 0):
        found = torch.cuda.device_count()
        raise InvalidInput(
            f"{device} is not there: torch {torch.__version__} finds {found or 'no'} GPUs on this machine"
        )
    files = layout.find(directory, lm_file)
    config = configuration.read_config(files)
    tokenizer = Tokenizer.load(files.text_model)
    if tokenizer.vocab_size > config.lm.vocab_size:
        raise CheckpointError(
            f"{files.text_model}: the tokenizer has {tokenizer.vocab_size} entries, the model {config.lm.vocab_size}"
        )
    lm = load_lm(files, config.lm)
    flow = weights.build(lambda: Flow(config.flow), weights.read(files.flow), str(files.flow))
    vocoder = HiFT(config.vocoder)
    weights.load_into(vocoder, weights.vocoder_keys(weights.read(files.vocoder)), str(files.vocoder))
    for module, kind in ((lm, dtype), (flow, dtype), (vocoder, torch.float32)):
        module.to(device, kind).eval().requires_grad_(False)
    return Checkpoint(
        config=config,
        lm=lm,
        flow=flow,
        vocoder=vocoder,
        tokenizer=tokenizer,
        voices=_voices(files.voices, tokenizer, config.lm.speech_token_size) if files.voices else {},
        noise=default_noise(config),
        files=files,
    )


def load_lm(files: layout.ModelFiles, config: LMConfig) -> SpeechLM:
    """The language model alone, float32 on the CPU. Raises CheckpointError."""
    state = weights.read(files.lm)
    if files.lm.suffix == ".safetensors":
        state = weights.retie(state)
    return weights.build(lambda: SpeechLM(config), state, str(files.lm)).eval().requires_grad_(False)


def _voices(path: Path, tokenizer: Tokenizer, speech_ids: int) -> dict[str, VoicePrompt]:
    voices = read_voices(path, tokenizer.decode)
    for name, voice in voices.items():
        ids = torch.cat([voice.lm_speech_tokens, voice.flow_speech_tokens])
        if (highest := int(ids.max())) >= speech_ids:
            raise CheckpointError(f"{path}: voice {name!r} has speech id {highest}; the model has {speech_ids}")
    return voices
