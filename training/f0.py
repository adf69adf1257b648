"""Fundamental frequency of every clip of a corpus, one value a mel frame, for the vocoder's F0 predictor.

Run ``python -m training.f0 CORPUS OUT.npz``. OUT holds

* ``ids``      [N]    clip names, in manifest order;
* ``offsets``  [N+1]  int64, clip n owns ``values[offsets[n]:offsets[n + 1]]``;
* ``values``   [F]    float16 Hz, 0 where unvoiced. Frame i is centred on sample 480 * i + 240, as mel frame i is.

Autocorrelation pitch tracking after Boersma (1993, IFA Proceedings 17): Hann window of three longest periods, the
signal's autocorrelation divided by the window's, the strongest peaks of a frame as candidates, one path through them
by dynamic programming. Measured here against pyworld: DIO left a fifth of the voiced frames out, Harvest was 15 times
slower and agreed within 5 % on the frames both call voiced.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.fft

RATE = 24000
HOP = 480
FLOOR_HZ, CEILING_HZ = 72.0, 550.0
STEP = 240
WINDOW = 2 * round(1.5 * RATE / FLOOR_HZ)
FFT = 2048
CANDIDATES = 6
SILENCE, VOICING, OCTAVE = 0.01, 0.33, 0.02
OCTAVE_JUMP, VOICED_UNVOICED = 0.5, 0.14

Array = npt.NDArray[np.float32]
_HANN = np.hanning(WINDOW + 1)[:-1].astype(np.float32)


def _autocorrelation(frames: Array) -> Array:
    spectrum = scipy.fft.rfft(frames, FFT)
    return np.asarray(scipy.fft.irfft(np.abs(spectrum) ** 2, FFT)[:, : RATE // int(FLOOR_HZ) + 2], np.float32)


def _candidates(wave: Array) -> tuple[Array, Array]:
    """Frequency (0 = unvoiced) and strength of each candidate of each 10 ms frame, both [frames, CANDIDATES + 1]."""
    padded = np.pad(wave, WINDOW // 2)
    count = len(wave) // STEP
    views = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[: count * STEP : STEP]
    centred = views - views.mean(axis=1, keepdims=True)
    loudness = np.abs(centred).max(axis=1) / max(float(np.abs(wave).max()), 1e-4)
    auto = _autocorrelation(centred * _HANN)
    auto = auto / np.maximum(auto[:, :1], 1e-9) / (_autocorrelation(_HANN[None]) / (_HANN**2).sum())
    low, high = int(RATE / CEILING_HZ), int(RATE / FLOOR_HZ)
    left, mid, right = auto[:, low - 1 : high - 1], auto[:, low:high], auto[:, low + 1 : high + 1]
    favoured = mid - OCTAVE * np.log2(np.arange(low, high) / low)
    peaks = np.where((mid > left) & (mid >= right) & (mid > 0.15), favoured, -9)
    best = np.argpartition(-peaks, CANDIDATES, axis=1)[:, :CANDIDATES]
    a, b, c = (np.take_along_axis(x, best, 1) for x in (left, mid, right))
    bend = np.where(np.abs(a - 2 * b + c) > 1e-6, a - 2 * b + c, -1e-6)
    lag = best + low + np.clip((a - c) / (2 * bend), -0.5, 0.5)
    strength = np.take_along_axis(peaks, best, 1)
    quiet = VOICING + np.maximum(0.0, 2 - loudness * (1 + VOICING) / SILENCE)
    hertz = np.where(strength > -1, RATE / lag, 0)
    return np.c_[np.zeros(count), hertz], np.c_[quiet, strength]


def _best_path(hertz: Array, strength: Array) -> Array:
    """The candidate frequencies of the cheapest path: jumps of pitch and changes of voicing cost."""
    octave = np.where(hertz > 0, np.log2(np.maximum(hertz, 1)), 0)
    voiced = hertz > 0
    back = np.zeros(hertz.shape, np.int8)
    score = strength[0]
    for i in range(1, len(hertz)):
        both = voiced[i - 1][:, None] & voiced[i][None]
        jump = OCTAVE_JUMP * np.abs(octave[i - 1][:, None] - octave[i][None])
        change = VOICED_UNVOICED * (voiced[i - 1][:, None] != voiced[i][None])
        total = score[:, None] - np.where(both, jump, change)
        back[i] = total.argmax(axis=0)
        score = total.max(axis=0) + strength[i]
    path = np.zeros(len(hertz), np.int64)
    path[-1] = score.argmax()
    for i in range(len(hertz) - 1, 0, -1):
        path[i - 1] = back[i, path[i]]
    return hertz[np.arange(len(hertz)), path]


def extract(samples: Array) -> npt.NDArray[np.float16]:
    """F0 in Hz of 24 kHz mono ``samples``: floor(n / 480) values, 0 where unvoiced."""
    frames = len(samples) // HOP
    if not frames:
        return np.zeros(0, np.float16)
    return _best_path(*_candidates(samples))[1::2][:frames].astype(np.float16)


def clips(corpus: Path) -> Iterator[tuple[str, Array]]:
    """(id, samples at 24 kHz) of every clip of a corpus folder, shard by shard in manifest order."""
    import soundfile

    manifest = (corpus / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    for shard in dict.fromkeys(json.loads(line)["shard"] for line in manifest):
        with tarfile.open(corpus / shard) as tar:
            for member in tar:
                packed = tar.extractfile(member)
                if packed is None:
                    continue
                samples, rate = soundfile.read(io.BytesIO(packed.read()), dtype="float32")
                if rate != RATE:
                    raise ValueError(f"{member.name} of {shard} is {rate} Hz; the corpus must be {RATE} Hz")
                yield Path(member.name).stem, samples


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    began, ids, values = time.monotonic(), list[str](), list[npt.NDArray[np.float16]]()
    for name, samples in clips(arguments.corpus):
        ids.append(name)
        values.append(extract(samples))
        if len(ids) % 500 == 0:
            print(f"{len(ids)} clips, {time.monotonic() - began:.0f} s", flush=True)
    offsets = np.concatenate([[0], np.cumsum([len(v) for v in values])]).astype(np.int64)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    partial = arguments.out.with_suffix(".part.npz")
    np.savez_compressed(partial, ids=np.array(ids), offsets=offsets, values=np.concatenate(values))
    os.replace(partial, arguments.out)
    print(f"{arguments.out}: {len(ids)} clips, {offsets[-1]} frames, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
