"""What a model directory's two ONNX files hear in speech: speech ids, and who speaks."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oscine_engine.errors import CheckpointError
from oscine_engine.features import kaldi_fbank80, whisper128

# Read while it is imported: else it tells its makers that it is used.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import onnxruntime

RATE = 16000
"""Hz of the audio that both take in."""
EMBEDDING = 192


class Encoders:
    """Both models, on the CPU. `threads`: that one call may use.

    Raises CheckpointError for a file that is no such model.
    """

    def __init__(self, speaker_encoder: Path, speech_tokenizer: Path, *, threads: int = 1) -> None:
        self._speaker = _session(speaker_encoder, threads)
        self._speech = _session(speech_tokenizer, threads)

    def tokens(self, audio: Tensor) -> Tensor:
        """Speech ids, int32 [about n / 640], of 16 kHz audio [n]; at most 30 s, as the released tokenizer wants."""
        mel = whisper128(audio)
        values = (mel[None].numpy(), np.array([mel.shape[1]], np.int32))
        names = (given.name for given in self._speech.get_inputs())
        ids = self._speech.run(None, dict(zip(names, values, strict=True)))[0]
        return torch.from_numpy(np.asarray(ids, np.int32).ravel())

    def embedding(self, audio: Tensor) -> Tensor:
        """Speaker embedding, float32 [192], of 16 kHz audio [n]."""
        fbank = kaldi_fbank80(audio)
        fbank = fbank - fbank.mean(0)
        found = self._speaker.run(None, {self._speaker.get_inputs()[0].name: fbank[None].numpy()})[0]
        return torch.from_numpy(np.asarray(found, np.float32).ravel())


def _session(path: Path, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has an exception class for each kind of trouble, and no common base
        raise CheckpointError(f"{path} is no model that ONNX Runtime can load: {error}") from error
