"""Parity of the audio features: every recorded spectrogram, filterbank and resampling.

A recorded name says what it is: `mel24k_len24333` is mel24k of the first 24333 samples of audio_24k. A name that is
not understood is a failing row, so nothing recorded goes unchecked.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.parity.rows import Row, compare, missing, tensors
from oscine_engine.features import kaldi_fbank80, mel24k, resample, whisper128
from oscine_engine.features.filterbanks import slaney

FEATURE = 1e-4
EXACT = 1e-5

REQUIRED = (
    "audio_16k",
    "audio_24k",
    "audio_48k",
    "kaldi_fbank80",
    "kaldi_fbank80_mean_subtracted",
    "mel24k",
    "mel24k_filterbank",
    "whisper128",
    "whisper128_filterbank",
)
Feature = Callable[[Tensor], Tensor]
INPUT = {"mel24k": "audio_24k", "whisper128": "audio_16k", "kaldi_fbank80": "audio_16k"}
NAME = re.compile(
    r"(?P<feature>mel24k|whisper128|kaldi_fbank80)(?:_(?P<kind>filterbank|mean_subtracted|len(?P<n>\d+)))?"
)
RESAMPLED = re.compile(r"resample_(?P<source>\d+)_to_(?P<target>\d+)(?P<first>_first_second)?")


def checks(folder: Path, config: dict[str, Any]) -> Iterator[Row]:
    """Rows of config["files"]["features"]."""
    recorded = tensors(folder, config["files"]["features"])
    for name in REQUIRED:
        if name not in recorded:
            yield missing(f"features {name}", f"tensor {name}")
    for kind, pattern in (("odd length", "_len"), ("resampling", "resample_")):
        if not any(pattern in name for name in recorded):
            yield missing(f"features {kind}", f"any tensor with {pattern} in its name")
    for name in sorted(recorded):
        yield from _rows(name, recorded)


def _rows(name: str, recorded: dict[str, Tensor]) -> Iterator[Row]:
    title, want = f"features {name}", recorded[name]
    if name.startswith("audio_"):
        if name != "audio_48k" and "audio_48k" in recorded:
            rate = 1000 * int(name.removeprefix("audio_").removesuffix("k"))
            yield compare(title, resample(recorded["audio_48k"], 48000, rate), want, FEATURE)
    elif match := RESAMPLED.fullmatch(name):
        yield _resampled(title, match, recorded, want)
    elif match := NAME.fullmatch(name):
        yield from _feature(title, match, recorded, want)
    else:
        yield Row(title, float("inf"), 0.0, False, "no check knows this tensor")


def _resampled(title: str, match: re.Match[str], recorded: dict[str, Tensor], want: Tensor) -> Row:
    source, target = int(match["source"]), int(match["target"])
    # "first second": as many samples as a second at the source rate has, of the 48 kHz audio.
    origin = "audio_48k" if match["first"] else f"audio_{source // 1000}k"
    if origin not in recorded:
        return missing(title, f"tensor {origin}")
    audio = recorded[origin][:, :source] if match["first"] else recorded[origin]
    return compare(title, resample(audio, source, target), want, FEATURE)


def _feature(title: str, match: re.Match[str], recorded: dict[str, Tensor], want: Tensor) -> Iterator[Row]:
    feature, origin = match["feature"], INPUT[match["feature"]]
    if match["kind"] == "filterbank":
        bank = slaney(24000, 1920, 80, want.device) if feature == "mel24k" else slaney(16000, 400, 128, want.device)
        yield compare(title, bank, want, EXACT)
        return
    if origin not in recorded:
        yield missing(title, f"tensor {origin}")
        return
    audio = recorded[origin][:, : int(match["n"]) if match["n"] else None]
    if feature != "kaldi_fbank80":
        yield compare(title, mel24k(audio) if feature == "mel24k" else whisper128(audio), want, FEATURE)
        return
    got = kaldi_fbank80(audio[0])
    mean = got.mean(0, keepdim=True) if match["kind"] == "mean_subtracted" else torch.zeros(1, got.shape[1])
    yield compare(title, got - mean, want, FEATURE)
