"""What benchmarks listen with: the recogniser that `oscine reward` has, and an opinion score.

Opinion score: DNSMOS P.835, overall (Reddy et al. 2022), 1 to 5, from a package that carries its weights. Nothing is
downloaded; the `bench` extra pins everything.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from oscine_service.listening.recogniser import (
    RATE,
    Language,
    MissingPackage,
    Recogniser,
    Samples,
    at_16k,
    package_folder,
)

__all__ = [
    "RATE",
    "Language",
    "MissingPackage",
    "OpinionScore",
    "Recogniser",
    "Samples",
    "at_16k",
    "package_folder",
]

SCORE_SECONDS = 9.01
INSTALL = "pip install 'oscine[bench]'"


class OpinionScore:
    """DNSMOS on windows of 9 s; shorter clips are repeated to fill one, as its authors do."""

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        try:
            path = package_folder("speechmos") / "dnsmos_models" / "sig_bak_ovr.onnx"
        except MissingPackage as error:
            raise MissingPackage(f"the package speechmos is needed to score speech: run {INSTALL}") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def __call__(self, samples: Samples, rate: int) -> float:
        """Overall quality of mono `samples` at `rate` Hz, from 1 to 5. Raises ValueError for no samples."""
        audio = at_16k(samples, rate)
        if not audio.size:
            raise ValueError("there is no audio to score")
        length = int(SCORE_SECONDS * RATE)
        audio = np.tile(audio, -(-length // audio.size)) if audio.size < length else audio
        starts = range(0, audio.size - length + 1, RATE)
        windows = np.stack([audio[start : start + length] for start in starts])
        raw = [self._session.run(None, {self._session.get_inputs()[0].name: w[None]})[0][0, 2] for w in windows]
        # The authors' fit of the network's output to listeners' scores.
        return float(np.polyval([-0.06766283, 1.11546468, 0.04602535], np.mean(raw)))
